"""A store: what it is, what it can do, and how it is searched, wherever it is kept."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from . import ranking
from .errors import damage
from .limits import ALL, RECENCY_WINDOW
from .memory import Memory, point_bytes
from .times import Span

T = TypeVar("T")
Merge = Callable[[Memory, Memory | None], Memory]


class EmbeddingModel(NamedTuple):
    """The model that made a store's vectors; vectors of different models cannot be compared."""

    model: str
    version: str | None  # of a model on this machine; others have it in their names
    dimensions: int

    def __str__(self) -> str:
        version = f" ({self.version})" if self.version else ""
        return f"{self.model!r}{version}, {self.dimensions} dimensions"


class StoreInfo(BaseModel):
    """What a store is. `memories` is approximately how many it holds.

    `endpoint` is the host and port of the embeddings service, None for OpenAI's own and `local`.
    `words` is the version of `ranking.indexed` by which the store keeps the words of its texts; 0
    if it does not.
    """

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    agent: str
    model: EmbeddingModel = Field(alias="embedding")
    endpoint: str | None = None
    words: int = 0
    memories: int = 0
    created: datetime

    @property
    def embedder(self) -> tuple[EmbeddingModel, str | None]:
        """What made the vectors. Services may differ in a model of the same name."""
        return self.model, self.endpoint


@dataclass(frozen=True)
class Where:
    """A filter: memories stored at `since` or later, at `until` or earlier, with any of `tags`,
    with one of `ids`, that are `replaced`, by one of the keys `replaced_by`, that are `pinned`,
    that have expired by the time `expired`, that have not by the time `holding`, and are not
    replaced. None, empty or False means any.
    """

    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    replaced: bool = False
    replaced_by: tuple[UUID, ...] = ()
    pinned: bool = False
    holding: datetime | None = None
    expired: datetime | None = None

    def admits(self, memory: Memory) -> bool:
        """Whether `memory` passes. An index may differ from what it indexes after a kill, so what
        it finds is filtered once more.
        """
        return (
            (not self.since or memory.timestamp >= self.since)
            and (not self.until or memory.timestamp <= self.until)
            and (not self.tags or not set(self.tags).isdisjoint(memory.tags))
            and (not self.ids or memory.id in self.ids)
            and (not self.replaced or memory.replaced_by is not None)
            and (not self.replaced_by or memory.replaced_by in self.replaced_by)
            and (not self.pinned or memory.pinned)
            and not (self.expired and not memory.expired(self.expired))
            and not (self.holding and (memory.replaced_by or memory.expired(self.holding)))
        )


EVERYWHERE = Where()


class Question(NamedTuple):
    """What memories are compared with: a vector and, counting `weight`, the `words`, whose rarities
    add up to `rarity`. Without words the similarity is the cosine.
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
    `replaced` is the id of the memory that it now replaces; `beside`, of the one that it does not
    replace, because that is the user's. `masked` is how many credentials were masked in it;
    `new_store` means that there was no store before.
    """

    id: str
    known: bool
    changed: bool
    model: str
    replaced: str = ""
    beside: str = ""
    masked: int = 0
    new_store: bool = False


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
        """The memories under these keys, as far as they are stored, each with its vector."""
        ...

    def update(self, memories: Sequence[Memory], merge: Merge) -> list[Stored]:
        """Store memories as `merge` says, given each and what is known of its text; durable on
        return. Raises StorageError for a memory that is not known and has no vector.
        """
        ...

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Memory]]:
        """For each question, the `limit` memories most similar to it that pass its filter, best
        first, with the similarity (-1 to 1) as their `score`.
        """
        ...

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """The `limit` most recently stored memories, newest first; `limit` may be any number."""
        ...

    def rarities(self, words: Sequence[int]) -> list[float]:
        """How rare each word is among the memories: see `ranking`."""
        ...

    def scan(self) -> Iterator[list[Record]]:
        """All records exactly as they are stored, a few hundred at a time."""
        ...

    def second_copy(self) -> dict[UUID, Memory] | None:
        """What the second copy of all memories holds, without vectors; None if the store has none.
        One that has it is changed by nobody else while it is open.
        """
        ...

    def delete(self, memories: Sequence[Memory], changed: Sequence[Memory] = ()) -> None:
        """Delete these memories, and write those that are `changed`, without their vectors, because
        their links led to them. Nothing more can be done with a store on this machine afterwards:
        no byte of them is left in it.
        """
        ...


def fits_its_key(record: Record) -> bool:
    """Whether the text in a record is what was stored; quicker than `memory_of`."""
    match record.payload:
        case {"content": str(text), "id": str(), "timestamp": str()}:
            return point_bytes(text) == record.key.bytes
    return False


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
    store: Store,
    question: Question,
    where: Where,
    limit: int,
    now: datetime,
    span: Span | None = None,
) -> list[Memory]:
    """The `limit` best memories by `ranking.score`. Each of them is among the `limit` most similar
    of all, or among those of the last seven days or of `span`, whose scores are boosted; in place
    of one that was replaced stands the one that holds now, once, as similar as the most similar of
    them.
    """
    most = limit
    while True:
        found = _candidates(store, question, where, most, now, span)
        holding = _holding(store, found, now)
        if len(holding) >= limit or len(found) < most:
            return ranking.rank(holding, now, limit, span)
        most *= 2  # several were replaced by one, or have expired


def _candidates(
    store: Store, question: Question, where: Where, limit: int, now: datetime, span: Span | None
) -> list[Memory]:
    first = datetime.min.replace(tzinfo=UTC)  # nothing is before it, whatever the clock shows
    just_after = max(now, first + RECENCY_WINDOW) - RECENCY_WINDOW + timedelta(microseconds=1)
    asked = [where, replace(where, since=max(where.since or just_after, just_after))]
    if span:
        since = max(where.since or span.since, span.since)
        asked.append(replace(where, since=since, until=min(where.until or span.until, span.until)))
    answers, tied, most = list[list[Memory]](), True, limit
    while tied:  # which of equals come first is chance: all of them are needed, to take the newest
        answers = store.nearest([(question, each) for each in asked], most + 1)
        cut = [each for each in answers if len(each) > most]
        tied = any(0 < (each[-1].score or 0) == each[limit - 1].score for each in cut)
        most *= 2
    found = {memory.key: memory for answer in answers for memory in answer}
    candidates = {key: memory for key, memory in found.items() if (memory.score or 0) > 0}
    if len(candidates) < limit:  # all others score 0, and among equals the newest come first
        for memory in store.newest(limit, where):
            candidates.setdefault(memory.key, memory)
    return list(candidates.values())


def _holding(store: Store, found: Iterable[Memory], now: datetime) -> list[Memory]:
    known = {memory.key: memory for memory in found}
    later = dict(known)
    while ahead := {memory.replaced_by for memory in later.values()} - known.keys() - {None}:
        later = store.get(key for key in ahead if key)  # one step of all chains at once
        if not later:
            break
        known |= {k: memory.model_copy(update={"embedding": []}) for k, memory in later.items()}
    holding: dict[UUID, Memory] = {}
    for memory in found:
        last = _last(known.get, memory)
        score = max(memory.score or 0.0, last.score or 0.0)
        present = holding.setdefault(last.key, last)
        present.score = max(present.score or 0.0, score)
    return [memory for memory in holding.values() if not memory.expired(now)]


def current(store: Store, memory: Memory, without: Container[UUID] = ()) -> Memory:
    """The memory that holds now: this one, or the last of those that replaced it, one after
    another, as far as they are in the store and their keys not in `without`.
    """
    last = _last(lambda key: store.get([key]).get(key), memory, without)
    return last if last is memory else last.model_copy(update={"embedding": []})


def _last(
    get: Callable[[UUID], Memory | None], memory: Memory, without: Container[UUID] = ()
) -> Memory:
    holds, passed = memory, {memory.key}
    while (key := memory.replaced_by) and key not in passed and (later := get(key)):
        passed.add(key)
        memory = later
        holds = holds if key in without else memory
    return holds


def with_ids(store: Store, ids: Sequence[str]) -> list[Memory]:
    """The memories with these ids, newest first; two may share one, though hardly ever."""
    return store.newest(ALL, Where(ids=tuple(ids))) if ids else []
