"""The built-in embedding model: no key, no network, and little to load.

It is the 256-dimensional static model that the `wordllama` package carries (MIT): a vector for
each token, averaged. Its two files are read directly, because importing the package configures
the logging of the whole process, and the package's own loader looks for them on the network. The
vectors are mapped, so that a process reads only those of its words.
"""

import json
import struct
from functools import cache
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from ..errors import UNCHANGED, EmbeddingError, shortage

_DIMENSIONS = 256
_ROW = struct.Struct(f"<{_DIMENSIONS}e")  # a token's vector, in float16
# A process averages so many tokens by itself, at 0.02 ms each, before it imports numpy, which takes
# about as long as that. A question has some ten.
_BEFORE_NUMPY = 5_000
_tokens_read = 0


def model_version() -> str:
    """The series of the package that carries the model, such as `wordllama 0.4`."""
    from importlib.metadata import version  # takes longer to import than all else here

    return "wordllama " + ".".join(version("wordllama").split(".")[:2])


def embed(texts: list[str]) -> list[list[float]]:
    """One vector of 256 numbers, not normalised, for each text, in 0.1 ms, or 1 ms in a young
    process; the numbers are the same. Raises EmbeddingError if the model has no token for anything
    in a text, or if `load` raises it.
    """
    tokenizer, rows, start = load()
    vectors = []
    for text in texts:
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        if not tokens:
            raise EmbeddingError("The built-in model knows no word of this text. Rephrase it.")
        vectors.append(_mean(tokens, rows, start))
    return vectors


def _mean(tokens: list[int], rows: mmap, start: int) -> list[float]:
    # A float64 holds a sum of float16 without rounding, in any order: both ways give the same.
    global _tokens_read
    _tokens_read += len(tokens)
    if _tokens_read < _BEFORE_NUMPY:
        read = [_ROW.unpack_from(rows, start + token * _ROW.size) for token in tokens]
        return [sum(column) / len(tokens) for column in zip(*read, strict=True)]
    import numpy as np

    vectors = np.frombuffer(rows, "<f2", offset=start).reshape(-1, _DIMENSIONS)
    return vectors[tokens].mean(axis=0, dtype="float64").tolist()


@cache
def load() -> tuple[Any, mmap, int]:
    """The model's tokenizer, the file of its vectors, and where in it they start. Raises
    EmbeddingError if there is no memory for them, or the package's files are missing.
    """
    package = find_spec("wordllama")  # finds a top-level package without importing it
    try:
        from tokenizers import Tokenizer

        folder = Path((package and package.origin) or "").parent
        tokens = folder / "tokenizers/l2_supercat_tokenizer_config.json"
        with (folder / "weights/l2_supercat_256.safetensors").open("rb") as file:
            rows = mmap(file.fileno(), 0, access=ACCESS_READ)
        # The length of a header of JSON, the header, and then the data.
        size = int.from_bytes(rows[:8], "little")
        weights = json.loads(rows[8 : 8 + size])["embedding.weight"]
        start, end = (8 + size + offset for offset in weights["data_offsets"])
        shape = [(end - start) // _ROW.size, _DIMENSIONS]
        if weights["dtype"] != "F16" or weights["shape"] != shape or end != len(rows):
            raise ValueError("other weights than expected")
        return Tokenizer.from_file(str(tokens)), rows, start
    except Exception as error:
        cause = shortage(error) or "Its files cannot be read. Reinstall the package wordllama."
        raise EmbeddingError(f"The built-in model cannot be loaded: {cause} {UNCHANGED}") from error
