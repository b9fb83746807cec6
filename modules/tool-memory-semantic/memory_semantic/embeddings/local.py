"""The built-in model, `local`: what a text means, joined with which words it has.

The cosine of two joined vectors is the mean of those of `minilm` and of `static`, which counts .3
as much. That share found the most in the tuning part of benchmarks/recall: `minilm` errs in its own
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

    joined = []
    for text, *parts in zip(texts, minilm.embed(texts), static.embed(texts), strict=True):
        meaning, words = (np.asarray(part) / np.linalg.norm(part) for part in parts)
        if unreadable(text):
            meaning = np.zeros_like(meaning)
        joined.append([*meaning.tolist(), *(_SHARE**0.5 * words).tolist()])
    return joined


def load() -> None:
    """Load both models. Raises EmbeddingError as they do."""
    minilm.load()
    static.load()
