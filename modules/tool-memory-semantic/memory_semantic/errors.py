"""What can go wrong.

    AgentMemoryError
    ├── InputError        an argument or a setting cannot be what it is; it is a ValueError, too
    ├── EmbeddingError    the text could not be turned into a vector
    └── StorageError      the store could not be opened, read or written
        ├── ResourceError        the process or the machine has no more of what it needs
        ├── NewerStoreError      it is a newer version's
        ├── ReplacedStoreError   it was given another model meanwhile
        └── DamagedStoreError    it is not whole

Every message is a sentence for the model or the person who reads it: what happened, what was and
was not changed, what to do. None carries the text of a memory or a key.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from .resources import explanation, shortage


class AgentMemoryError(Exception):
    """Base of the errors that this package raises."""


class InputError(AgentMemoryError, ValueError):
    """What was given cannot be used: an argument, a setting, an identity."""


class EmbeddingError(AgentMemoryError):
    """No usable vector: the model is missing, the service failed, or it answered nonsense."""


class StorageError(AgentMemoryError):
    """The store of an agent could not be opened, read or written as it should be. `outcome` is the
    last sentence of the message: what was changed. It is empty until `explained` has added it.
    """

    def __init__(self, message: str, outcome: str = "") -> None:
        super().__init__(f"{message} {outcome}".rstrip())
        self.outcome = outcome


class ResourceError(StorageError):
    """There are not enough descriptors, memory or disk to use the store, which is as it was."""


class NewerStoreError(StorageError):
    """The store was made by a newer version; this one leaves it alone."""


class ReplacedStoreError(StorageError):
    """The store was given another embedding model while this call was running."""


class DamagedStoreError(StorageError):
    """What is stored is not whole: something for a person to look at."""


# How such an error ends.
REPAIR = "Run `agent-memory doctor`, or restore it from a backup."

# How an error of a store ends, for whoever made the call.
UNCHANGED = "Nothing was changed."
MAYBE_STORED = "It may or may not have been stored; storing it again is safe."
MAYBE_DELETED = "It may or may not have been deleted; deleting it again is safe."


def damage(agent: str, sign: str) -> DamagedStoreError:
    """The error for a store of which `sign` shows that it is not whole."""
    return DamagedStoreError(f"The store of {agent!r} is damaged: {sign}. {REPAIR}")


def exhausted(doing: str, number: int, outcome: str = "") -> ResourceError:
    """The error for a `shortage` of this number, which ended the `doing` of something."""
    cause = f"{explanation(number)} The store's files are not the cause."
    return ResourceError(f"{doing}: {cause}", outcome)


@contextmanager
def explained(outcome: str) -> Iterator[None]:
    """Make an error in the block, if it is the store's or the system's, a StorageError that ends by
    saying what was changed: `outcome`, unless a block inside has said so.
    """
    try:
        yield
    except StorageError as error:
        if error.outcome:
            raise
        raise type(error)(str(error), outcome) from error
    except (OSError, MemoryError) as error:
        number = shortage(error)
        if number:
            raise exhausted("The store cannot be used now", number, outcome) from error
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise StorageError(f"The store's folder cannot be used: {reason}.", outcome) from error
