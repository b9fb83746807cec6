"""The files that a person names: read up to a size; written privately, and whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from memory_semantic import InputError

# Enough for 100,000 memories of 10,000 English characters, with ids, times and tags.
MAX_BYTES = 2**30
_PIECE = 2**20
ENCODING = "If it is text in another encoding: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW"


def read_all(read: Callable[[int], bytes]) -> bytes:
    """All that `read` returns. Raises InputError if that is more than any file of memories holds,
    as with a device, or with a file that was packed to do harm.
    """
    pieces, size = [], 0
    while piece := read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise InputError(f"It is larger than {MAX_BYTES // 2**20:,} MB. Split it.")
    return b"".join(pieces)


def write(file: str, content: bytes) -> None:
    """Write `content` to `file`, mode 0600; if that fails, what was there stays. A pipe or a device
    is written to directly. Raises OSError, naming `file`.
    """
    try:
        target = Path(os.path.realpath(file))
        if target.is_symlink():  # links that lead to each other
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        # A name that nobody can predict: others may be able to write to the folder.
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(descriptor)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink()
            raise
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}; it was not written", file) from error
