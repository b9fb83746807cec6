"""What this process may take from the machine: memory, descriptors, the size of its files.

The engine does worse than fail when it runs out. Each of its errors takes a backtrace; without the
memory for that, it waits for itself forever, with Python's lock held, and a library below it ends
the process. So there must be enough of everything before either is called. A call that still fails
for lack of resources is reported as such, not as damage.
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
# How the engine ends a message from the system, and how Rust prints an error itself.
_NUMBER = re.compile(r"os error (\d+)|Os \{ code: (\d+)")


def require_memory(size: int) -> None:
    """Raise OSError (ENOMEM) unless this process can get `size` more bytes; none of it is used."""
    import mmap  # here, because mounting does without it

    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        pass


def require_descriptors(number: int) -> None:
    """Raise OSError (EMFILE) unless this process can open this many more files."""
    _require("RLIMIT_NOFILE", number + len(list(Path("/dev/fd").iterdir())), errno.EMFILE)


def require_file_size(size: int) -> None:
    """Raise OSError (EFBIG) unless this process may write files of `size` bytes."""
    _require("RLIMIT_FSIZE", size, errno.EFBIG)


def _require(name: str, needed: int, error: int) -> None:
    import resource  # Windows does not have it; posix.py says so

    limit, _ = resource.getrlimit(getattr(resource, name))
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise OSError(error, os.strerror(error))


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


def denied(error: BaseException) -> bool:
    """Whether the cause of `error` is a file that this user may not read or write."""
    return any(_number(each) in (errno.EACCES, errno.EPERM) for each in _causes(error))


def explanation(number: int) -> str:
    """What a `shortage` of this number is and what to do about it, for a person to read."""
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
    if isinstance(error, ImportError):  # it quotes the loader
        return next((number for name, number in _NAMES.items() if name in text), None)
    return None
