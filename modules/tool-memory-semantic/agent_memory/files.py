"""The files that a person names: read up to a size; written privately, and whole or not at all."""

import codecs
import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from memory_semantic import InputError

# Enough for 100,000 memories of 10,000 English characters, with ids, times and tags.
MAX_BYTES = 2**30
_PIECE = 2**20
_RATIO = 100  # how often texts may be as long as what they are packed in; they reach 20


def read_all(read: Callable[[int], bytes], packed: int | None = None) -> bytes:
    """All that `read` returns, unpacked from so many bytes if they were `packed`. Raises InputError
    if that is more than any file of memories holds, as with one that was packed to do harm.
    """
    most = MAX_BYTES if packed is None else min(MAX_BYTES, max(_PIECE, packed * _RATIO))
    pieces, size = [], 0
    while piece := read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            if most < MAX_BYTES:
                raise InputError(
                    f"Unpacked, it is over {_RATIO} times as large. Unpack it yourself."
                )
            raise InputError(f"It is larger than {most // 2**20:,} MB. Split or unpack it.")
    return b"".join(pieces)


def encoding_advice(data: bytes) -> str:
    """What to do with a file that is not UTF-8, by how it begins."""
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    likely = "UTF-16" if marked else "ISO-8859-1"
    return f"If it is text in another encoding: iconv -f {likely} -t UTF-8 FILE > NEW"


def rewrite(file: Path, text: str) -> None:
    """Write `text` to `file`, with the mode that it has, 0600 if it is new; if that fails, what was
    there stays. Makes the folders above it. Raises OSError.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    mode = file.stat().st_mode if file.exists() else 0o600
    write(str(file), text.encode())
    file.chmod(mode)


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
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}; it was not written", file) from error
