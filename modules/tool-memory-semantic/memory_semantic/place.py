"""The port to an agent's store, on this machine or on a server: how calls reach it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from .points import StoreInfo
from .store import Store

T = TypeVar("T")


class Place(ABC):
    """Where the store of one agent is. Methods raise StorageError."""

    agent: str
    url: str  # as the setting qdrant_url names the place
    address: str  # a folder, or the address of a server, for people
    forgotten: str  # a sentence: from where memories are gone once they are forgotten

    @abstractmethod
    async def info(self) -> StoreInfo | None:
        """What the store is, if there is one; it may be replaced a moment later."""

    @abstractmethod
    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """Run `work` on the open store, off the event loop, and return its result. If there is no
        store, create the one that `create` describes, or return None. Raises ReplacedStoreError if
        the store's model is not the one in `create` or `expect`.
        """

    @abstractmethod
    def agents(self) -> list[str]:
        """All agents that have a store in this place, or a folder that may not be read. Raises
        OSError if the storage root may not be read.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the store if this process has it open; the next call opens it again."""
