"""The one port to an agent's store: what can be asked of it, and done with it, wherever it is."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar

from .embeddings.choice import new_info
from .embeddings.generator import EmbeddingGenerator
from .limits import ALL
from .memory import Memory, utc_now
from .settings import StorageConfig
from .store import Store, StoreInfo

T = TypeVar("T")

REPAIR_COMMAND = "agent-memory doctor --repair"

# The text to try a model with: it says nothing about anybody.
_SAMPLE = "How long does one text take?"

# Called with how many are done, and of how many.
Progress = Callable[[int, int], None]


class Bar(Protocol):
    """A progress display."""

    def done(self, number: float) -> None:
        """`number` of the total are done."""
        ...


# Opens a display, given what is being done and how much there is to do.
ShowProgress = Callable[[str, int], AbstractContextManager[Bar]]


class Finding(NamedTuple):
    """One thing that was examined. `mend` is what to do about it; if that is
    `agent-memory doctor --repair`, the finding is `repairable`.
    """

    state: Literal["ok", "warning", "problem"]
    subject: str
    text: str
    mend: str = ""

    @property
    def repairable(self) -> bool:
        """Whether a repair of the store would mend it."""
        return self.mend == REPAIR_COMMAND

    @property
    def says_no_store(self) -> bool:
        """Whether it is that there is no store, which may be well: `mend` says how to make one."""
        return self.state == "ok" and bool(self.mend)


@dataclass(frozen=True)
class Repair:
    """What a repair would do: `found` is what to know before agreeing to it. Nothing changes before
    `run`, which returns what it has done. `generator` has to embed `texts`, and is None if there is
    nothing to embed.
    """

    found: str
    run: Callable[[Progress], Awaitable[str]]
    texts: Sequence[Memory] = ()
    generator: EmbeddingGenerator | None = None


def untold(done: int, of: int) -> None:
    """Progress that nobody wants to see."""


class Backend(ABC):
    """Where the store of one agent is kept, and how calls reach it. Methods raise StorageError."""

    agent: str
    url: str  # as the setting qdrant_url names the place
    where: str  # a folder, or the address of a server, for people
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
    async def close(self) -> None:
        """Close the store if this process has it open; the next call opens it again."""

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
    async def repair(self, config: StorageConfig) -> Repair:
        """What a repair of a store with a `repairable` finding would do. Raises StorageError if
        nothing can be done.
        """

    @abstractmethod
    async def reembed(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """Give the store the model of `info`, which is that of `generator`; returns how many
        memories there are. With the model that it has already, of the same service, nothing is
        embedded.

        Raises StorageError if there is no store, or none that this can be done to. An interruption
        leaves the store unchanged; the next run with the same model embeds no text twice.
        """

    @property
    def kept(self) -> str:
        """The shell command that removes what repairs have replaced and kept; blank if there is
        nothing.
        """
        return ""

    def memories(self, note: Callable[[str], None]) -> list[Memory]:
        """All memories, oldest first, even of a read-only store; `note` is told how it is read. Not
        for a thread with an event loop.
        """
        return asyncio.run(self.run(lambda store: store.newest(ALL)[::-1])) or []

    async def info_with(self, config: StorageConfig, generator: EmbeddingGenerator) -> StoreInfo:
        """What the store will be with vectors from `generator`, which embeds a sample to show that
        it works.
        """
        wanted = await info_for(self.agent, config, generator)
        present = await self.info()
        if present is None or present.model != wanted.model:
            return wanted
        kept = {"endpoint": present.endpoint, "words": present.words or wanted.words}
        return wanted.model_copy(update=kept)


async def info_for(agent: str, config: StorageConfig, generator: EmbeddingGenerator) -> StoreInfo:
    """What a store of `agent` made now will be; `generator` embeds a sample to show that it
    works.
    """
    await generator.generate(_SAMPLE)
    return new_info(agent, config, generator, utc_now())
