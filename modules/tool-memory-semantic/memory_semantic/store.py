"""A store: what it is, what can be asked of it, and how it is searched, wherever it is kept."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from . import ranking
from .errors import StorageError, damage
from .limits import RECENCY_WINDOW
from .memory import Memory

T = TypeVar("T")


class EmbeddingModel(NamedTuple):
    """What made the vectors of a store: they can be compared with no others."""

    model: str
    version: str | None  # of a model on this machine; the names of others carry it
    dimensions: int

    def __str__(self) -> str:
        version = f" ({self.version})" if self.version else ""
        return f"{self.model!r}{version}, {self.dimensions} dimensions"


class StoreInfo(BaseModel):
    """What a store is. `memories` is about how many it holds.

    `endpoint` is the host and port of the embeddings service, None for OpenAI's own and `local`.
    `words` tells whether it holds the words of the texts, `common` which of them more than a third
    of the memories contain (None if that is not kept), `erasing` whether it may hold bytes of
    memories that were deleted.
    """

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    agent: str
    model: EmbeddingModel = Field(alias="embedding")
    endpoint: str | None = None
    words: bool = False
    common: tuple[int, ...] | None = None
    memories: int = 0
    erasing: bool = False
    created: datetime


@dataclass(frozen=True)
class Where:
    """Which memories count: stored at `since` or later, at `until` or earlier, with any of `tags`,
    with one of the `ids`. None or empty: all.
    """

    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


EVERYWHERE = Where()


class Question(NamedTuple):
    """What memories are compared with: a vector, and by `weight` the `words`, whose rarities add up
    to `rarity`. Without words the similarity is the cosine.
    """

    vector: list[float]
    words: Sequence[int] = ()
    weight: float = 0.0
    rarity: float = 0.0


class Record(NamedTuple):
    """What the engine holds of a memory; `words` is None if the store has none."""

    key: UUID
    payload: dict[str, Any]
    vector: list[float] = []  # noqa: RUF012 - never changed
    words: list[int] | None = None
    score: float | None = None


@dataclass(frozen=True)
class Stored:
    """What became of one stored text. `known` means that the memory existed and was merged;
    `changed` is False if that made no difference. `model` is the store's embedding model.
    """

    id: str
    known: bool
    changed: bool
    model: str


class Store(Protocol):
    """An open store. Every method may block, and raises StorageError."""

    @property
    def info(self) -> StoreInfo:
        """What the store is."""
        ...

    def count(self, where: Where = EVERYWHERE) -> int:
        """How many memories there are."""
        ...

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """Those of the texts with these keys that are stored, each with its vector."""
        ...

    def update(self, memories: Sequence[Memory]) -> list[Stored]:
        """Store memories, merged with what is known (`merging`); they are durable on return."""
        ...

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Memory]]:
        """For each question, the `limit` memories in its place most similar to it, best first, with
        the similarity (-1 to 1) as their `score`.
        """
        ...

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """The `limit` memories stored last, newest first; any number of them."""
        ...

    def rarities(self, words: Sequence[int]) -> list[float]:
        """How rare each word is among the memories: see `ranking`."""
        ...

    def scan(self, with_vectors: bool = True) -> Iterator[list[Record]]:
        """All that is stored, as it is, some hundred at a time."""
        ...

    def renew_ids(self, keys: Sequence[UUID]) -> int:
        """Give new ids to the texts with these keys; returns how many got one."""
        ...

    def delete(self, memories: Sequence[Memory]) -> None:
        """Take these memories out of every answer; `maintenance.erase` removes their bytes."""
        ...


class Backend(Protocol):
    """Where the store of an agent is kept: the files of this machine, or a server."""

    async def info(self) -> StoreInfo | None:
        """What the store is, if there is one; a moment later it may be another."""
        ...

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """The result of `work` on the open store, off the event loop; None if there is no store,
        and `create` does not say what to make. Raises ReplacedStoreError if the store is of another
        model than `create` or `expect`.
        """
        ...

    async def close(self) -> None:
        """Close what this process has open of the store; the next call opens it again."""
        ...


def memory_of(record: Record, agent: str) -> Memory:
    """The memory in a record. Raises DamagedStoreError if its text is not what was stored."""
    try:
        memory = Memory.from_storage(record.payload)
    except ValueError:
        memory = None
    if memory is None or memory.key != record.key:
        raise damage(agent, "a memory in it is not what was stored")
    memory.embedding, memory.score = record.vector, record.score
    return memory


def search(
    store: Store, question: Question, where: Where, limit: int, now: datetime
) -> list[Memory]:
    """The best `limit` by `ranking.score`: each of them is among the `limit` most similar of all,
    or of the last seven days, whose scores are raised.
    """
    first = datetime.min.replace(tzinfo=UTC)  # nothing is before it, whatever the clock shows
    just_after = max(now, first + RECENCY_WINDOW) - RECENCY_WINDOW + timedelta(microseconds=1)
    within_week = replace(where, since=max(where.since or just_after, just_after))
    answers = store.nearest([(question, where), (question, within_week)], limit)
    found = {memory.key: memory for answer in answers for memory in answer}
    candidates = {key: memory for key, memory in found.items() if (memory.score or 0) > 0}
    if len(candidates) < limit:  # all others score 0, and of equals the newest come first
        for memory in store.newest(limit, where):
            candidates.setdefault(memory.key, memory)
    return ranking.rank(candidates.values(), now, limit)


def with_ids(store: Store, ids: Sequence[str]) -> list[Memory]:
    """The memories with these ids. Raises StorageError if two have one."""
    # Twice as many as there are ids: if two have one, all of the answer may be theirs.
    found = store.newest(2 * len(ids), Where(ids=tuple(ids))) if ids else []
    texts: dict[str, str] = {}
    for memory in found:
        text = repr(memory.content[:40] + ("…" if len(memory.content) > 40 else ""))
        if memory.id in texts:
            raise StorageError(
                f"Two memories have the id {memory.id}: {texts[memory.id]} and {text}. "
                "Run `agent-memory doctor --repair`, which gives one of them a new id."
            )
        texts[memory.id] = text
    return found
