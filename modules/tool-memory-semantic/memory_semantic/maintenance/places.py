"""The place of a store, as maintenance sees it: this machine, or a server.

Both kinds of places answer the same calls; only `place` knows that there are two.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..embeddings.choice import new_info
from ..embeddings.generator import EmbeddingGenerator
from ..files.backend import FileBackend
from ..limits import ALL
from ..memory import Memory, utc_now
from ..settings import StorageConfig
from ..store import Backend, EmbeddingModel, Store, StoreInfo
from .copy import Progress, memories_in, payloads
from .findings import Finding, Repair, ShowProgress

# The text to try a model with: it says nothing about anybody.
_SAMPLE = "How long does one text take?"


class Forgotten(NamedTuple):
    """What to say once memories are gone: from where, and what else to know."""

    sentence: str
    warning: str = ""


def untold(done: int, of: int) -> None:
    """Progress that nobody wants to see."""


class Place(ABC):
    """Where the store of one agent is kept. Methods raise StorageError."""

    agent: str
    url: str  # as the setting qdrant_url names the place
    where: str  # a folder, or the address of a server, for people
    backend: Backend

    @abstractmethod
    def agents(self) -> list[str]:
        """All agents that have a store in this place, or a folder that may not be read. Raises
        OSError if the storage root may not be read.
        """

    @abstractmethod
    def size(self) -> int | None:
        """The bytes that the store takes on this machine; None if it is kept elsewhere."""

    @abstractmethod
    async def exists(self) -> bool:
        """Whether there is a store, in any state."""

    @abstractmethod
    def findings(self, config: StorageConfig, progress: ShowProgress) -> AsyncIterator[Finding]:
        """Examine everything; yields each finding after those it depends on. `progress` opens a
        display for what takes long.
        """

    @abstractmethod
    async def repair(self, config: StorageConfig, findings: Sequence[Finding]) -> Repair:
        """What a repair of the `repairable` ones among `findings` would do. Raises StorageError if
        nothing can be done.
        """

    @abstractmethod
    async def rebuild(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """Rebuild the store as `info` describes, with vectors from `generator`, whose model is that
        of `info`. If that is already the store's model, the vectors are copied, and any unfinished
        rebuild with another model is discarded. Returns how many memories there are.

        Raises StorageError if another rebuild is running or there is no store. An interruption
        leaves the store unchanged; the next run with the same model embeds no text twice.
        """

    @abstractmethod
    async def erase(self) -> None:
        """Erase all bytes of what was deleted from the store, as far as this machine can do that,
        and from what rebuilds have left.

        Waits for another rebuild as long as for the store. Raises StorageError, which says that the
        erasure is still due.
        """

    @abstractmethod
    async def gone(self, config: StorageConfig, forgotten: Sequence[Memory]) -> Forgotten:
        """Make sure that nothing is left of these memories. Raises StorageError if anything is."""

    @abstractmethod
    async def remove(self, agreed: Callable[[Store], bool]) -> bool:
        """Delete the store for good, with what rebuilds have left of it, if `agreed`, asked while
        nobody else can write, returns True; returns whether it did.
        """

    @property
    @abstractmethod
    def kept(self) -> list[Path]:
        """What repairs have replaced and kept. It is not removed with the store."""

    @abstractmethod
    async def unfinished(self, model: EmbeddingModel | None = None) -> list[Backend]:
        """The stores of unfinished rebuilds, running or interrupted, with this `model` or any."""

    def memories(self, note: Callable[[str], None]) -> list[Memory]:
        """All memories, oldest first, even of a read-only store; `note` is told how it is read. Not
        for a thread with an event loop.
        """
        return list(asyncio.run(memories_in(self.backend)).values())

    async def unembedded(
        self, info: StoreInfo, among: Iterable[Memory] | None = None
    ) -> list[Memory]:
        """The memories that a rebuild with the model of `info` still has to embed, from the store
        or from `among`, those that a repair has found.
        """
        memories = {memory.key: memory for memory in among or ()}
        if among is None:
            memories = await memories_in(self.backend)
        for begun in await self.unfinished(info.model):
            known = await begun.run(payloads) or {}
            memories = {key: memory for key, memory in memories.items() if key not in known}
        return list(memories.values())

    async def renew_ids(self) -> int:
        """Give new ids to all but the oldest of memories that share one; returns how many."""

        def work(store: Store) -> int:
            owners: dict[str, Memory] = {}
            memories = reversed(store.newest(ALL))
            others = [m.key for m in memories if owners.setdefault(m.id, m) is not m]
            return store.renew_ids(others) if others else 0

        return await self.backend.run(work) or 0

    async def info_with(self, config: StorageConfig, generator: EmbeddingGenerator) -> StoreInfo:
        """What the store will be with vectors from `generator`, which embeds a sample to show that
        it works.
        """
        wanted = await self.new_info(config, generator)
        present = await self.backend.info()
        if present is None or present.model != wanted.model:
            return wanted
        kept = {"endpoint": present.endpoint, "words": present.words or wanted.words}
        return wanted.model_copy(update=kept)

    async def new_info(self, config: StorageConfig, generator: EmbeddingGenerator) -> StoreInfo:
        """The same for a store made now."""
        await generator.generate(_SAMPLE)
        return new_info(self.agent, config, generator, utc_now())


def place(backend: Backend) -> Place:
    """The place of the store that `backend` reaches."""
    if isinstance(backend, FileBackend):
        from .on_files import OnFiles

        return OnFiles(backend)
    from .on_server import OnServer, ServerBackend

    assert isinstance(backend, ServerBackend)
    return OnServer(backend)
