"""A store: what can be done with an agent's memories, wherever their points are."""

from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from uuid import UUID

from . import ranking
from .errors import UNCHANGED, InputError, damage
from .limits import (
    ALIKE,
    ALIKE_OF_OTHERS,
    ALL,
    MOST_ALIKE,
    PAGE,
    RECENCY_WINDOW,
    SAME,
    SAME_OF_OTHERS,
)
from .memory import Memory
from .merging import Merge, Stored, merge_all
from .points import Condition, Point, Points, Question, StoreInfo, admits, pages, point_of
from .remembered import MEMORY_ID, last, timestamp_text
from .times import Span

Where = Sequence[Condition]

# How many ids an error names that begin alike.
_NAMED = 5
# How many memories are compared to find those that are alike: others may be of another project.
_NEAR = 20


class Store:
    """An open store. Every method may block, and raises StorageError."""

    def __init__(self, points: Points) -> None:
        self.points = points

    @property
    def info(self) -> StoreInfo:
        """What the store is."""
        return self.points.info

    def count(self) -> int:
        """How many memories there are."""
        return self.points.count()

    def get(self, keys: Iterable[UUID], vectors: bool = False) -> dict[UUID, Memory]:
        """The memories under these keys, as far as they are stored."""
        return {p.key: self._memory(p) for p in self.points.get(list(keys), vectors)}

    def put(self, memories: Sequence[Memory], merge: Merge) -> list[Stored]:
        """Store memories as `merge` says, given each and what is known of its text; durable on
        return. Raises StorageError for a memory that is not known and has no vector.
        """
        known = self.get(dict.fromkeys(memory.key for memory in memories))
        points, stored = merge_all(memories, known, self.info.model.model, merge)
        if points:
            self.points.upsert(points)
        return stored

    def forget(self, memories: Sequence[Memory], relinked: Sequence[Memory] = ()) -> None:
        """Delete these memories, and write the `relinked`, whose links led to them. Nothing more
        can be done with the open store afterwards.
        """
        links = [point_of(memory, ["replaced_by"]) for memory in relinked]
        self.points.forget(list(map(point_of, memories)), links)

    def newest(
        self, limit: int = ALL, where: Where = (), holding: datetime | None = None
    ) -> list[Memory]:
        """The `limit` most recently stored memories, newest first; with `holding`, only those that
        at this time are neither replaced nor expired.
        """
        if holding:
            where = [*where, ("replaced_by", "unset", None)]
        most = limit
        while True:
            if most > PAGE:
                memories, more = list(self.scan(where)), False
            else:
                points = self.points.page(where, most, newest=True)
                memories, more = self._memories(points, where), len(points) == most
            found = [memory for memory in memories if not (holding and memory.expired(holding))]
            if len(found) >= limit or not more:
                return sorted(found, key=lambda memory: memory.timestamp, reverse=True)[:limit]
            most *= 2  # several have expired

    def with_ids(self, ids: Sequence[str]) -> list[Memory]:
        """The memories with these ids, newest first; two may share one, though hardly ever. In
        place of an id may stand its beginning: raises InputError if several ids begin so.
        """
        if all(map(MEMORY_ID.fullmatch, ids)):
            return self.newest(where=[("id", "any", list(ids))]) if ids else []
        found = [memory for memory in self.scan() if memory.id.startswith(tuple(ids))]
        for beginning in ids:
            alike = sorted({memory.id for memory in found if memory.id.startswith(beginning)})
            if len(alike) > 1:
                named = ", ".join(alike[:_NAMED]) + (", …" if alike[_NAMED:] else "")
                raise InputError(
                    f"{len(alike):,} ids begin with {beginning}: {named}. Name one of them. "
                    f"{UNCHANGED}"
                )
        return sorted(found, key=lambda memory: memory.timestamp, reverse=True)

    def scan(self, where: Where = (), vectors: bool = False) -> Iterator[Memory]:
        """All memories, in the order of their keys; read some at a time."""
        for page in pages(self.points, where, vectors):
            yield from self._memories(page, where)

    def rarities(self, words: Sequence[int]) -> list[float]:
        """How rare each of these pieces of words is among the memories: see `ranking`."""
        # The score of a text that shares only this piece.
        answers = self.points.query([Question(words=[word]) for word in words], 1)
        unknown = ranking.rarity_of_unknown(self.info.memories)
        return [answer[0].score or 0.0 if answer else unknown for answer in answers]

    def nearest(self, asked: Sequence[Question], limit: int) -> list[list[Memory]]:
        """For each question, the `limit` memories most similar to it, best first, with the
        similarity (-1 to 1) as their `score`.
        """
        answers = self.points.query(asked, limit)
        return [self._memories(p, each.where) for p, each in zip(answers, asked, strict=True)]

    def alike(self, memory: Memory, now: datetime) -> list[Memory]:
        """At most three other memories that may be about the same thing as this one, whose vector
        is given: they hold where it holds, and their cosine with it is `ALIKE` or more. The most
        similar come first; if it is a rule, other rules before all else.
        """
        least = ALIKE.get(self.info.model.model, ALIKE_OF_OTHERS)
        holds: list[Condition] = [("replaced_by", "unset", None)]
        kinds = [[*holds, ("pinned", "set", None)], holds] if memory.pinned else [holds]
        asked = [Question(vector=memory.embedding, where=kind) for kind in kinds]
        found = {
            each.key: each
            for near in self.nearest(asked, _NEAR)
            for each in near
            if each.key != memory.key
            and (each.score or 0) >= least
            and (each.project_id in (memory.project_id, None) or memory.project_id is None)
            and not each.expired(now)
        }
        return list(found.values())[:MOST_ALIKE]

    def find_newer(self, memories: Sequence[Memory]) -> None:
        """Set `newer` of each of these memories that may say the same as a later one of them: their
        cosine is `SAME` or more.
        """
        if len(memories) < 2:
            return
        least = SAME.get(self.info.model.model, SAME_OF_OTHERS)
        vectors = self.get((memory.key for memory in memories), vectors=True)
        there = [memory for memory in memories if memory.key in vectors]  # not deleted meanwhile
        by_time = sorted(there, key=lambda memory: memory.timestamp)
        for old, new in combinations(by_time, 2):
            one, other = (vectors[memory.key].embedding for memory in (old, new))
            if old.timestamp < new.timestamp and ranking.cosine(one, other) >= least:
                old.newer = new.id

    def search(
        self, question: Question, where: Where, limit: int, now: datetime, span: Span | None = None
    ) -> list[Memory]:
        """The `limit` best memories by `ranking.score`. Each of them is among the `limit` most
        similar of all, or among those of the last seven days or of `span`, whose scores are
        boosted; in place of one that was replaced stands the one that holds now, once, as similar
        as the most similar of them.
        """
        most = limit
        while True:
            found = self._candidates(question, where, most, now, span)
            holding = self._holding(found, now)
            if len(holding) >= limit or len(found) < most:
                return ranking.rank(holding, now, limit, span)
            most *= 2  # several were replaced by one, or have expired

    def current(self, memory: Memory, without: Container[UUID] = ()) -> Memory:
        """The memory that holds now: this one, or the last of those that replaced it, one after
        another, as far as they are in the store and their keys not in `without`.
        """
        return last(lambda key: self.get([key]).get(key), memory, without)

    def _candidates(
        self, question: Question, where: Where, limit: int, now: datetime, span: Span | None
    ) -> list[Memory]:
        first = datetime.min.replace(tzinfo=UTC)  # nothing is before it, whatever the clock shows
        week = max(now, first + RECENCY_WINDOW) - RECENCY_WINDOW + timedelta(microseconds=1)
        times = [[], between(week, None), *([between(*span)] if span else [])]
        asked = [question._replace(where=[*where, *each]) for each in times]
        answers, tied, most = list[list[Memory]](), True, limit
        while tied:  # which of equals come first is chance: all are needed, to take the newest
            answers = self.nearest(asked, most + 1)
            cut = [each for each in answers if len(each) > most]
            tied = any(0 < (each[-1].score or 0) == each[limit - 1].score for each in cut)
            most *= 2
        found = {memory.key: memory for answer in answers for memory in answer}
        candidates = {key: memory for key, memory in found.items() if (memory.score or 0) > 0}
        if len(candidates) < limit:  # all others score 0, and among equals the newest come first
            for memory in self.newest(limit, where):
                candidates.setdefault(memory.key, memory)
        return list(candidates.values())

    def _holding(self, found: Iterable[Memory], now: datetime) -> list[Memory]:
        known = {memory.key: memory for memory in found}
        later = known
        while ahead := {memory.replaced_by for memory in later.values()} - known.keys() - {None}:
            later = self.get(key for key in ahead if key)  # one step of all chains at once
            if not later:
                break
            known |= later
        holding: dict[UUID, Memory] = {}
        for memory in found:
            holds = last(known.get, memory)
            score = max(memory.score or 0.0, holds.score or 0.0)
            present = holding.setdefault(holds.key, holds)
            present.score = max(present.score or 0.0, score)
        return [memory for memory in holding.values() if not memory.expired(now)]

    def _memories(self, points: Iterable[Point], where: Where) -> list[Memory]:
        # An index may differ from what it indexes after a kill.
        return [self._memory(point) for point in points if admits(where, point.payload)]

    def _memory(self, point: Point) -> Memory:
        return memory_of(point, self.info.agent)


def memory_of(point: Point, agent: str) -> Memory:
    """The memory in a point. Raises DamagedStoreError if its text is not what was stored."""
    try:
        memory = Memory.from_storage(point.payload)
    except ValueError:
        memory = None
    if memory is None or memory.key != point.key:
        raise damage(agent, "a memory in it is not what was stored")
    memory.embedding, memory.score = point.vector, point.score
    return memory


def between(first: datetime | None, last: datetime | None) -> list[Condition]:
    """The conditions that a memory is from `first` to `last`, as far as these are given."""
    since: list[Condition] = [("timestamp", "from", timestamp_text(first))] if first else []
    until: list[Condition] = [("timestamp", "to", timestamp_text(last))] if last else []
    return since + until
