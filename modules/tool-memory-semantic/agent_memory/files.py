"""Files that a person asks for: private, and whole or not there."""

import errno
import os
import tempfile
from pathlib import Path


def write(file: str, content: bytes) -> None:
    """Put `content` into `file`, mode 0600, or leave what was there. A pipe or a device is written
    to. Raises OSError, naming `file`.
    """
    try:
        target = Path(os.path.realpath(file))
        if target.is_symlink():  # of links that lead to each other
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        # A name that nobody can have prepared: the folder may be one that others write to.
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
