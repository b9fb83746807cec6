"""Writes the files that a person asks for: private, and whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path


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
