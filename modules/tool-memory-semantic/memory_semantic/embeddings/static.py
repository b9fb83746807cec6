"""The model `static`: what the words of a text mean, each by itself, in 256 numbers, at 0.1 ms.

It is the static model that the package `wordllama` carries (MIT): a vector for each token,
averaged. Its files are read directly, because importing the package configures the logging of the
whole process, and the package's own loader looks for them on the network.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import EmbeddingError
from .weights import loading, mapped, tokenizer

PACKAGE = "wordllama"


def version() -> str:
    """The series of the package that carries the model, such as `wordllama 0.4`."""
    from importlib.metadata import version  # takes longer to import than all else here

    return f"{PACKAGE} " + ".".join(version(PACKAGE).split(".")[:2])


def embed(texts: list[str]) -> list[list[float]]:
    """One vector of 256 numbers, not normalised, for each text. Raises EmbeddingError if the model
    has no token for anything in a text, or if `load` does.
    """
    encode, rows = load()
    vectors = []
    for text in texts:
        tokens = encode(text, add_special_tokens=False).ids
        if not tokens:
            raise EmbeddingError("The built-in model knows no word of this text. Rephrase it.")
        vectors.append(rows[tokens].mean(axis=0, dtype="float64").tolist())
    return vectors


@cache
def load() -> tuple[Any, Any]:
    """What gives the tokens of a text, and the vectors of all tokens. Raises EmbeddingError if
    there is no memory for them, or the package's files are missing or damaged.
    """
    package = find_spec(PACKAGE)  # finds a top-level package without importing it
    with loading(PACKAGE):
        folder = Path((package and package.origin) or "").parent
        weights = mapped(folder / "weights/l2_supercat_256.safetensors")["embedding.weight"]
        found = tokenizer(folder / "tokenizers/l2_supercat_tokenizer_config.json")
        return found.encode, weights
