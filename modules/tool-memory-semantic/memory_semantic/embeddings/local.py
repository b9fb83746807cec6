"""The built-in model, `local`: what a text means, joined with which words it has.

The cosine of two joined vectors is the mean of the two cosines, with that of `static` weighing .3
against 1. This found the most in the tuning part of benchmarks/recall: `minilm` errs in its own
ways, and `static` knows some words of every language.
"""

from ..ranking import unreadable
from . import minilm, static

_SHARE = 0.3


def version() -> str:
    """What the vectors depend on: `all-MiniLM-L6-v2 int8, wordllama 0.4`."""
    return f"{minilm.VERSION}, {static.version()}"


def embed(texts: list[str]) -> list[list[float]]:
    """One vector of 384 and 256 numbers, not normalised, for each text. Of one that is mostly
    Korean, Chinese or Japanese, which `minilm` cannot read, the 384 are 0. Raises EmbeddingError as
    `static.embed` and `load` do.
    """
    import numpy as np

    words = np.array(static.embed(texts))
    meaning = np.zeros((len(texts), minilm.DIMENSIONS))
    readable = [number for number, text in enumerate(texts) if not unreadable(text)]
    for number, vector in zip(readable, minilm.embed([texts[n] for n in readable]), strict=True):
        meaning[number] = vector / np.linalg.norm(vector)
    words *= _SHARE**0.5 / np.linalg.norm(words, axis=1, keepdims=True)
    return np.hstack([meaning, words]).tolist()


def load() -> None:
    """Load both models. Raises EmbeddingError as they do."""
    minilm.load()
    static.load()
