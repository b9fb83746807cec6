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
was not changed, what to do. None carries the text of a memory or a key.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from uuid import UUID

from .resources import named, shortage


class AgentMemoryError(Exception):
    """Base of the errors that this package raises."""


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
    """An agent's store could not be opened, read or written. `outcome` is the last sentence of the
    message, which says what was changed. It is empty until `explained` adds it.
    """

    def __init__(self, message: str, outcome: str = "") -> None:
        super().__init__(f"{message} {outcome}".rstrip())
        self.outcome = outcome


class ResourceError(StorageError):
    """Too little memory or disk space, or too few descriptors, to use the store."""


class NewerStoreError(StorageError):
    """The store was made by a newer version; this one leaves it alone."""


class ReplacedStoreError(StorageError):
    """The store was given another embedding model while this call was running."""


class DamagedStoreError(StorageError):
    """The store is damaged: a person has to look at it."""


REPAIR_COMMAND = "agent-memory doctor --repair"
# How a DamagedStoreError ends.
REPAIR = f"Run `{REPAIR_COMMAND}`, or restore it from a backup."

# How other errors of a store end: what became of the call.
UNCHANGED = "Nothing was changed."
MAYBE_STORED = "It may or may not have been stored; storing it again is safe."
MAYBE_DELETED = "It may or may not have been deleted; deleting it again is safe."


def counted(number: int, what: str = "memory") -> str:
    """`1 memory`, `2,000 memories`."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def damage(agent: str, sign: str) -> DamagedStoreError:
    """The error for a damaged store; `sign` is the evidence."""
    return DamagedStoreError(f"The store of {agent!r} is damaged: {sign}. {REPAIR}")


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
        if error.outcome:
            raise
        raise type(error)(str(error), outcome) from error
    except (OSError, MemoryError, RuntimeError) as error:
        if lacking := shortage(error):
            raise exhausted("The store cannot be used now", lacking, outcome) from error
        said = f"The store's folder cannot be used: {named(error) or type(error).__name__}."
        if isinstance(error, RuntimeError):
            if "shutdown" not in str(error):  # as no thread can be started then
                raise
            said = "The store cannot be used any more: the program is ending."
        raise StorageError(said, outcome) from error
