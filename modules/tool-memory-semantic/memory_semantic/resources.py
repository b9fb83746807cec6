"""What ran out, if that is why a call failed: memory, descriptors, the size of a file, disk space.

Such a failure is reported as what it is, and not as damage, with what to do about it.
"""

import errno
import os
import re
from collections.abc import Iterator

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


def shortage(error: BaseException) -> int | None:
    """The error number of the resource that ran out, if that caused `error`; else None."""
    numbers = (_number(each) for each in _causes(error))
    return next((number for number in numbers if number in _ADVICE), None)


def shortage_of(error: BaseException) -> tuple[str, str] | None:
    """What ran out and what to do about it, if that caused `error`; else None. Neither has a full
    stop.
    """
    number = shortage(error)
    return _told(number) if number else None


def named(error: BaseException) -> str:
    """The system's error that caused `error`: `Input/output error (EIO)`; empty if none did."""
    numbers = (_number(each) for each in _causes(error))
    number = next((number for number in numbers if number), None)
    return f"{os.strerror(number)} ({errno.errorcode.get(number, number)})" if number else ""


def denied(error: BaseException) -> bool:
    """Whether the cause of `error` is a file that this user may not read or write."""
    return any(_number(each) in (errno.EACCES, errno.EPERM) for each in _causes(error))


def explanation(number: int) -> str:
    """What a `shortage` of this number is and what to do about it, for a person to read."""
    what, advice = _told(number)
    return f"{what}. {advice}."


def _told(number: int) -> tuple[str, str]:
    what = "Too many threads" if number == errno.EAGAIN else os.strerror(number)
    return f"{what} ({errno.errorcode[number]})", _ADVICE[number]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error:
        yield error
        error = error.__cause__ or error.__context__


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    text = str(error)
    if text == "can't start new thread":
        return errno.EAGAIN
    found = _NUMBER.findall(text)
    if found:
        return int(found[-1][0] or found[-1][1])
    if isinstance(error, ImportError):  # it quotes the loader
        return next((number for name, number in _NAMES.items() if name in text), None)
    return None
