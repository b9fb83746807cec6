"""What is done with a store while it is open: write, rank, list, erase."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from . import ranking
from .collection import EVERYWHERE, Collection, Hit, Point, Where
from .errors import InputError, StorageError, damage
from .manifest import Manifest
from .models import CAPTURED, MAX_TAGS, RECENCY_WINDOW, Entry, Memory, new_memory_id, point_id

C = TypeVar("C", bound=Collection, covariant=True)

# How often memories are merged anew because others changed them at the same moment: each time one
# of the others got through.
_MERGES = 20
# Ids that are looked for at once.
_IDS = 256


@dataclass(frozen=True)
class Stored:
    """What became of one stored text. `known` means that the memory existed: its tags were merged
    with the new ones and the later time stands; `changed` is False if it had both already. `model`
    is the store's embedding model.
    """

    id: str
    known: bool
    changed: bool
    model: str


@dataclass
class OpenStore(Generic[C]):
    """A store that can be worked with: what it is, and its collection."""

    manifest: Manifest
    collection: C

    def known(self, keys: Iterable[UUID]) -> set[UUID]:
        """Those of the texts with these keys that are stored."""
        return {point.id for point in self.collection.retrieve(list(keys))}

    def keys(self, entries: Sequence[Entry]) -> list[UUID]:
        """The key of each entry: that of its text, or of a former one by which it is known."""
        keys = [[point_id(text) for text in (entry.text, *entry.former)] for entry in entries]
        doubtful = {key for forms in keys if len(forms) > 1 for key in forms}
        known = self.known(doubtful) if doubtful else set()
        return [next((key for key in forms if key in known), forms[0]) for forms in keys]

    def upsert(
        self, entries: Sequence[Entry], vectors: Mapping[UUID, list[float]], now: datetime
    ) -> list[Stored]:
        """Store each entry, `now` if it has no time; they are durable when this returns.

        `vectors` are those of the texts by their key. A text that is known may be left out: it
        keeps the vector that it has.
        """
        keys = self.keys(entries)
        done: dict[UUID, Stored] = {}
        left = set(keys)
        for _ in range(_MERGES):
            todo = [(key, entry) for key, entry in zip(keys, entries, strict=True) if key in left]
            points = {point.id: point for point in self.collection.retrieve(list(left))}
            if not points.keys() | vectors.keys() >= left:
                raise StorageError("A memory was deleted while this call was running.")
            known = {key: self.memory(point) for key, point in points.items()}
            merged = self._merged(todo, known, now)
            changed = [key for key in merged if merged[key] != known.get(key)]
            left = set()
            if changed:
                left = self.collection.write(
                    [
                        Point(
                            key,
                            vectors[key] if key in vectors else points[key].vector,
                            merged[key].dict_for_storage(),
                        )
                        for key in changed
                    ],
                    points,
                )
            model = self.manifest.embedding.model
            done |= {
                key: Stored(memory.id, key in known, key in changed, model)
                for key, memory in merged.items()
                if key not in left
            }
            if not left:
                return [done[key] for key in keys]
        raise StorageError("Others keep changing the same memories. Store it again.")

    def _merged(
        self, entries: Sequence[tuple[UUID, Entry]], known: Mapping[UUID, Memory], now: datetime
    ) -> dict[UUID, Memory]:
        """By key, the memories that the entries make of those that are `known`."""
        own_ids = self._free({entry.id for _, entry in entries if entry.id})
        wanted = {key: entry.id for key, entry in reversed(entries) if key not in known}
        number = len(wanted) - len(own_ids.intersection(wanted.values()))
        fresh_ids = iter(self.fresh_ids(number, besides=own_ids))
        memories: dict[UUID, Memory] = {}
        for key, entry in entries:
            before = memories.get(key) or known.get(key)
            tags = list(dict.fromkeys([*(before.tags if before else ()), *entry.tags]))
            if before and not (CAPTURED in before.tags and CAPTURED in entry.tags):
                tags = [tag for tag in tags if tag != CAPTURED]
            if len(tags) > MAX_TAGS:
                raise InputError(
                    f"With the tags that it has, this memory would have {len(tags)}; at most "
                    f"{MAX_TAGS} are possible. {self.collection.outcome} Store it again with fewer "
                    "new tags."
                )
            time, metadata = entry.timestamp or now, dict(entry.metadata)
            if before:
                if entry.timestamp and entry.timestamp <= before.timestamp:
                    metadata = before.metadata  # the latest writer's
                id, time = before.id, max(before.timestamp, time)
            elif entry.id in own_ids:
                id = entry.id
                own_ids.remove(id)
            else:
                id = next(fresh_ids)
            memories[key] = Memory(
                id=id,
                agent_id=self.manifest.agent,
                content=before.content if before else entry.text,
                timestamp=time,
                tags=tags,
                metadata=metadata,
            )
        return memories

    def search(
        self,
        vector: list[float],
        limit: int,
        where: Where,
        now: datetime,
        asked: Sequence[int] = (),
        weight: float = 0.0,
    ) -> list[Memory]:
        """The best `limit` by `ranking.score`: each of them is among the `limit` most similar of
        all, or among those of the last seven days, whose scores are raised. (Of memories that are
        equally similar the engine chooses which make the cut.)
        """
        first = datetime.min.replace(tzinfo=UTC)  # nothing is before it, whatever the clock shows
        just_after = max(now, first + RECENCY_WINDOW) - RECENCY_WINDOW + timedelta(microseconds=1)
        within_week = replace(where, since=max(where.since or just_after, just_after))
        answers = self.collection.nearest(vector, limit, [where, within_week], asked, weight)
        found = {hit.id: hit for answer in answers for hit in answer}
        candidates = {id: hit for id, hit in found.items() if hit.similarity > 0}
        if len(candidates) < limit:  # all others score 0, and of equals the newest come first
            for hit in self.collection.newest(limit, where):
                if len(found) < limit and hit.id not in found and self.collection.exclusive:
                    raise damage(self.manifest.agent, "a search does not find all memories")
                candidates.setdefault(hit.id, hit)
        return ranking.rank(
            ((self.memory(hit), hit.similarity) for hit in candidates.values()), now, limit
        )

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """The `limit` memories that were stored last, newest first."""
        return [self.memory(hit) for hit in self.collection.newest(limit, where)]

    def with_id(self, memory_id: str) -> Memory | None:
        """The memory with this id. Raises StorageError if two have it."""
        found = self._with_ids([memory_id])
        return self.memory(found[0]) if found else None

    def erase(self, ids: Sequence[str]) -> int:
        """Take these memories out for good; returns how many there were."""
        doomed = self._with_ids(ids)
        if doomed:
            self.collection.delete(doomed)
        return len(doomed)

    def _with_ids(self, ids: Sequence[str]) -> list[Hit]:
        hits: list[Hit] = []
        for start in range(0, len(ids), _IDS):
            some = tuple(ids[start : start + _IDS])
            # Twice as many as there are ids: if two have one, all of the answer may be theirs.
            hits += self.collection.newest(2 * len(some), Where(ids=some))
        for memory_id, number in Counter(hit.payload["id"] for hit in hits).items():
            if number > 1:
                raise StorageError(
                    f"The id {memory_id} belongs to {number} memories, drawn for them at the same "
                    "moment. Run `agent-memory doctor --repair`, which draws anew."
                )
        return hits

    def _free(self, ids: set[str]) -> set[str]:
        """Those of `ids` that no living memory has."""
        taken = self.collection.newest(len(ids), Where(ids=tuple(ids))) if ids else []
        return ids - {hit.payload["id"] for hit in taken}

    def fresh_ids(self, number: int, besides: set[str]) -> list[str]:
        """So many new ids that are free; 32 random bits do collide, 1 % at 10,000 memories."""
        fresh: set[str] = set()
        while len(fresh) < number:
            drawn = {new_memory_id() for _ in range(number - len(fresh))}
            fresh |= self._free(drawn - besides)
        return list(fresh)

    def memory(self, hit: Hit | Point) -> Memory:
        """The memory in a payload, if its text is the very one that was stored."""
        try:
            memory = Memory.from_storage(hit.payload)
        except ValueError:
            memory = None
        if memory is None or point_id(memory.content) != hit.id:
            raise damage(self.manifest.agent, "a memory in it is not what was stored")
        return memory
