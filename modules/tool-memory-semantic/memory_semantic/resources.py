"""What this process may take from the machine: memory, descriptors, the size of its files.

The engine does worse than fail when it gets none. Each of its errors takes a backtrace, and where
the memory for that ends it waits for itself for good, with Python's lock held; a library below it
ends the process. So there must be enough of everything before one of them is called; and what fails
for want of it all the same is told as that, not as damage.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

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
# How the engine ends the words of the system, and how Rust prints an error for itself.
_NUMBER = re.compile(r"os error (\d+)|Os \{ code: (\d+)")


def require_memory(size: int) -> None:
    """Raise OSError (ENOMEM) unless this process can get `size` bytes more; none of it is used."""
    import mmap  # at use, as all that mounting does without

    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        pass


def require_descriptors(number: int) -> None:
    """Raise OSError (EMFILE) unless this process can open so many files more."""
    _require("RLIMIT_NOFILE", number + len(list(Path("/dev/fd").iterdir())), errno.EMFILE)


def require_file_size(size: int) -> None:
    """Raise OSError (EFBIG) unless this process may write files of `size` bytes."""
    _require("RLIMIT_FSIZE", size, errno.EFBIG)


def _require(name: str, needed: int, error: int) -> None:
    import resource  # which Windows has not; what is said there is in posix.py

    limit, _ = resource.getrlimit(getattr(resource, name))
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise OSError(error, os.strerror(error))


def shortage(error: BaseException) -> int | None:
    """The error number of what there was no more of, if `error` comes from that; else None."""
    numbers = (_number(each) for each in _causes(error))
    return next((number for number in numbers if number in _ADVICE), None)


def shortage_of(error: BaseException) -> tuple[str, str] | None:
    """What there was no more of, and what to do about it, if `error` comes from that; else None.
    Neither has a full stop.
    """
    number = shortage(error)
    return _told(number) if number else None


def denied(error: BaseException) -> bool:
    """Whether `error` comes from a file that this user may not read or write."""
    return any(_number(each) in (errno.EACCES, errno.EPERM) for each in _causes(error))


def explanation(number: int) -> str:
    """What the `shortage` of this number is, and what to do, for a person."""
    what, advice = _told(number)
    return f"{what}. {advice}."


def _told(number: int) -> tuple[str, str]:
    what = "Too many threads" if number == errno.EAGAIN else os.strerror(number)
    return what, _ADVICE[number]


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
    if isinstance(error, ImportError):  # in the words of the loader
        return next((number for name, number in _NAMES.items() if name in text), None)
    return None
