"""What can go wrong.

    AgentMemoryError
    ├── InputError        an argument or a setting is invalid; also a ValueError
    ├── EmbeddingError    the text could not be turned into a vector
    │   └── RefusedTextError     the service refuses these texts, and no others
    └── StorageError      the store could not be opened, read or written
        ├── ResourceError        too little memory or disk space, or too few descriptors
        ├── NewerStoreError      a newer version made it
        ├── ReplacedStoreError   it was given another model meanwhile
        └── DamagedStoreError    it is damaged

Every message is a sentence for the model or the person who reads it: what happened, what was and
was not changed, what to do. None carries the text of a memory or a key. If something ran out, such
as memory, descriptors or disk space, they say so, and do not call it damage.
"""

import errno
import os
import re
from collections.abc import Collection, Container, Iterator
from contextlib import contextmanager
from uuid import UUID


class AgentMemoryError(Exception):
    """Base of the errors that this package raises. Besides what happened, an error says its
    `outcome`, what was and was not changed, and its `remedy`, what to do; what is never altered on
    the way may be part of its message instead.
    """

    remedy = ""

    def __init__(self, message: str, outcome: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.outcome = outcome
        self.remedy = remedy or self.remedy

    def __str__(self) -> str:
        return " ".join(filter(None, (*self.args, self.outcome, self.remedy)))


class InputError(AgentMemoryError, ValueError):
    """An argument, a setting or an identity is invalid."""


class EmbeddingError(AgentMemoryError):
    """No usable vector: the model is missing, the service failed, or it answered nonsense. If that
    `may_pass`, the same call may succeed later.
    """

    may_pass = False


class RefusedTextError(EmbeddingError):
    """The service refuses some of the texts, and no others. `keys` are their keys in the store."""

    keys: Collection[UUID] = ()


class StorageError(AgentMemoryError):
    """An agent's store could not be opened, read or written. It ends with its `outcome`, which is
    empty until `explained` adds it.
    """

    def __str__(self) -> str:
        return " ".join(filter(None, (*self.args, self.remedy, self.outcome)))


class ResourceError(StorageError):
    """Too little memory or disk space, or too few descriptors, to use the store."""


class NewerStoreError(StorageError):
    """The store was made by a newer version; this one leaves it alone."""


class ReplacedStoreError(StorageError):
    """The store was given another embedding model while this call was running."""


REPAIR_COMMAND = "agent-memory doctor --repair"
REPAIR = f"Run `{REPAIR_COMMAND}`, or restore it from a backup."


class DamagedStoreError(StorageError):
    """The store is damaged: a person has to look at it."""

    remedy = REPAIR


# How other errors of a store end: what became of the call.
UNCHANGED = "Nothing was changed."
MAYBE = "It may or may not be done; doing it again is safe."

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


def counted(number: int, what: str = "memory") -> str:
    """`1 memory`, `2,000 memories`."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def readable_size(size: float) -> str:
    """Bytes as people say them: `3.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def damage(agent: str, sign: str) -> DamagedStoreError:
    """The error for a damaged store; `sign` is the evidence."""
    return DamagedStoreError(f"The store of {agent!r} is damaged: {sign}.")


def newer(number: object) -> NewerStoreError:
    """The error for a store of a newer version, whose format has this `number`."""
    return NewerStoreError(
        f"The store was made by a newer version (format {number}). Upgrade "
        "amplifier-module-tool-memory-semantic."
    )


def exhausted(doing: str, lacking: str, outcome: str = "") -> ResourceError:
    """The error for a `shortage`, the sentences `lacking`; `doing` says what it prevented."""
    return ResourceError(f"{doing}: {lacking} The store's files are not the cause.", outcome)


@contextmanager
def explained(outcome: str) -> Iterator[None]:
    """Turn an error in the block, of the store or the system or from starting a thread, into a
    StorageError that ends with `outcome`: what was changed. One that already says so is left alone.
    """
    try:
        yield
    except StorageError as error:
        error.outcome = error.outcome or outcome
        raise
    except (OSError, MemoryError, RuntimeError) as error:
        if lacking := shortage(error):
            raise exhausted("The store cannot be used now", lacking, outcome) from error
        said = f"The store's folder cannot be used: {named(error) or type(error).__name__}."
        if isinstance(error, RuntimeError):
            if "shutdown" not in str(error):  # as no thread can be started then
                raise
            said = "The store cannot be used any more: the program is ending."
        raise StorageError(said, outcome) from error


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
