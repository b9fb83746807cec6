"""What ran out, if that is why a call failed: memory, descriptors, the size of a file, disk space.

Such a failure is reported as what it is, and not as damage, with what to do about it.
"""

import errno
import os
import re
from collections.abc import Container

# What was refused, and what to do about it.
_ADVICE = {
    errno.EMFILE: "Raise the limit of this process (ulimit -n), or let it close some",
    errno.ENFILE: "The whole machine has no more; close some",
    errno.ENOMEM: "Free some memory, or raise the limit of this process (ulimit -v)",
    errno.EAGAIN: "Free some, or raise the limit of this user (ulimit -u)",
    errno.EFBIG: "Raise the limit of this process (ulimit -f)",
    errno.ENOSPC: "Free some space",
    errno.EDQUOT: "Free some space, or raise the quota",
}
_NAMES = {os.strerror(number): number for number in _ADVICE}
# How the engine ends a message from the system, and how Rust prints an error itself.
_NUMBER = re.compile(r"os error (\d+)|Os \{ code: (\d+)")


def readable_size(size: float) -> str:
    """Bytes as people say them: `3.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def shortage(error: BaseException) -> str:
    """What ran out, if that caused `error`, and what to do about it, in two sentences; else ""."""
    number = _number(error, _ADVICE)
    what = "Too many threads" if number == errno.EAGAIN else os.strerror(number)
    return f"{what} ({errno.errorcode[number]}). {_ADVICE[number]}." if number else ""


def named(error: BaseException) -> str:
    """The system's error that caused `error`: `Input/output error (EIO)`; empty if none did."""
    number = _number(error, errno.errorcode)
    return f"{os.strerror(number)} ({errno.errorcode[number]})" if number else ""


def denied(error: BaseException) -> bool:
    """Whether the cause of `error` is a file that this user may not read or write."""
    return bool(_number(error, (errno.EACCES, errno.EPERM)))


def _number(error: BaseException | None, known: Container[int]) -> int:
    """The first number that is `known`, of `error` and what caused it; 0 if there is none."""
    while error:
        if (number := _own_number(error)) in known:
            return number
        error = error.__cause__ or error.__context__
    return 0


def _own_number(error: BaseException) -> int:
    if isinstance(error, OSError):
        return error.errno or 0
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    text = str(error)
    if text == "can't start new thread":
        return errno.EAGAIN
    if found := _NUMBER.findall(text):
        return int(found[-1][0] or found[-1][1])
    if isinstance(error, ImportError):  # it quotes the loader
        return next((number for name, number in _NAMES.items() if name in text), 0)
    return 0
