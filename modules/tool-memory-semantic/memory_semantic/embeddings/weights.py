"""The files of the built-in models: weights in the format of safetensors, and tokenizers."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from ..errors import UNCHANGED, EmbeddingError, shortage

# The types of numbers in these files, by their names there and in numpy.
_TYPES = {"I8": "i1", "F16": "<f2", "F32": "<f4"}


def mapped(file: Path) -> dict[str, Any]:
    """The arrays in a file of weights, by name. They are mapped: a process reads what it uses."""
    import numpy as np

    with file.open("rb") as opened:
        data = mmap(opened.fileno(), 0, access=ACCESS_READ)
    # The length of a header of JSON, the header, and then the numbers.
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    arrays = {}
    for name, each in header.items():
        shape, (begin, _) = each["shape"], each["data_offsets"]
        numbers = np.frombuffer(data, _TYPES[each["dtype"]], math.prod(shape), start + begin)
        arrays[name] = numbers.reshape(shape)
    return arrays


def tokenizer(file: Path) -> Any:
    """The tokenizer in this file, of the package `tokenizers`."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(file))


@contextmanager
def loading(package: str) -> Iterator[None]:
    """Turn any error into EmbeddingError: there is no memory, or the files of `package` are not
    whole.
    """
    try:
        yield
    except Exception as error:
        cause = shortage(error) or f"Its files cannot be read. Reinstall {package}."
        raise EmbeddingError(f"The built-in model cannot be loaded: {cause}", UNCHANGED) from error
