"""What can go wrong, other than bad input, which is a `ValueError` everywhere.

    AgentMemoryError
    ├── EmbeddingError    the text could not be turned into a vector
    └── StorageError      the store could not be opened, read or written
        ├── NewerStoreError      it is a newer version's
        └── DamagedStoreError    it is not whole

Every message is a sentence for the model or the person who reads it: what happened, what was and
was not changed, what to do. None carries the text of a memory or a key.
"""


class AgentMemoryError(Exception):
    """Base of the errors that this package raises."""


class EmbeddingError(AgentMemoryError):
    """No usable vector: the model is missing, the service failed, or it answered nonsense."""


class StorageError(AgentMemoryError):
    """The store of an agent could not be opened, read or written as it should be."""


class NewerStoreError(StorageError):
    """The store was made by a newer version; this one leaves it alone."""


class DamagedStoreError(StorageError):
    """What is stored is not whole: something for a person to look at."""


# How such an error ends.
REPAIR = "Run `agent-memory doctor`, or restore its folder from a backup."
