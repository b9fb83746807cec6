"""The built-in embedding model: no key, no network, about half a second to load.

It is the 256-dimensional static model that the `wordllama` package carries (MIT): a vector for
each token, averaged. Its two files are read directly, because importing the package configures
the logging of the whole process, and the package's own loader looks for them on the network.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import UNCHANGED, EmbeddingError
from ..resources import explanation, shortage


def model_version() -> str:
    """The series of the package that carries the model, such as `wordllama 0.4`."""
    from importlib.metadata import version  # takes longer to import than all else here

    return "wordllama " + ".".join(version("wordllama").split(".")[:2])


def embed(texts: list[str]) -> list[list[float]]:
    """One vector of 256 numbers, not normalised, for each text, in 0.02 ms. Raises EmbeddingError
    if the model has no token for anything in a text, or if `load` raises it.
    """
    tokenizer, token_vectors = load()
    vectors = []
    for text in texts:
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        if not tokens:
            raise EmbeddingError("The built-in model knows no word of this text. Rephrase it.")
        vectors.append(token_vectors[tokens].mean(axis=0, dtype="float32").tolist())
    return vectors


@cache
def load() -> tuple[Any, Any]:
    """The model's tokenizer, and the vector of each token. Raises EmbeddingError if there is no
    memory for them, or the package's files are missing.
    """
    package = find_spec("wordllama")  # finds a top-level package without importing it
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = Path((package and package.origin) or "").parent
        tokens = folder / "tokenizers/l2_supercat_tokenizer_config.json"
        weights = load_file(folder / "weights/l2_supercat_256.safetensors")
        return Tokenizer.from_file(str(tokens)), weights["embedding.weight"]
    except Exception as error:
        number = shortage(error)
        broken = "Its files cannot be read. Reinstall the package wordllama."
        cause = explanation(number) if number else broken
        raise EmbeddingError(f"The built-in model cannot be loaded: {cause} {UNCHANGED}") from error
