"""What is done with a store while it is open: write, rank, list, erase."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from . import disk, ranking
from . import manifest as manifests
from .errors import REPAIR, DamagedStoreError, StorageError
from .manifest import Manifest
from .models import MAX_TAGS, RECENCY_WINDOW, Entry, Memory, new_memory_id, point_id
from .shard import ENGINE, EVERYWHERE, Hit, Point, Shard, Where

# How an error ends, for whoever made the call.
UNCHANGED = "Nothing was changed."
_MAYBE_STORED = "It may or may not have been stored; storing it again is safe."
_MAYBE_DELETED = "It may or may not have been deleted; deleting it again is safe."


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
class OpenStore:
    """The store in the folder `database`, its lock held and its shard loaded.

    `outcome` is what an error has to say, at this moment, about what was changed.
    """

    database: Path
    manifest: Manifest
    shard: Shard
    outcome: str = UNCHANGED

    def verify_count(self) -> None:
        """Raise StorageError if memories are missing; count in those of an interrupted write."""
        count, known = self.shard.count(), self.manifest.memories
        if count < known:
            raise self._damage(f"it holds {count} of at least {known} memories")
        if count > known:
            self.use(self.manifest.shard, count)

    def known(self, keys: Iterable[UUID]) -> set[UUID]:
        """Those of the texts with these keys that are stored."""
        return {point.id for point in self.shard.retrieve(list(keys))}

    def upsert(
        self, entries: Sequence[Entry], vectors: Mapping[UUID, list[float]], now: datetime
    ) -> list[Stored]:
        """Store each entry, `now` if it has no time; they are on disk when this returns.

        `vectors` are those of the texts by their key. A text that is known may be left out: it
        keeps the vector that it has.
        """
        keys = [point_id(entry.text) for entry in entries]
        points = {point.id: point for point in self.shard.retrieve(list(set(keys)))}
        if not points.keys() | vectors.keys() >= set(keys):
            raise StorageError("A memory was deleted while this call was running.")
        known = {key: self.memory(point) for key, point in points.items()}
        own_ids = self._free({entry.id for entry in entries if entry.id})
        fresh_ids = iter(self._fresh_ids(len(set(keys)) - len(known), besides=own_ids))
        memories: dict[UUID, Memory] = {}
        for key, entry in zip(keys, entries, strict=True):
            before = memories.get(key) or known.get(key)
            merged = list(dict.fromkeys([*(before.tags if before else ()), *entry.tags]))
            if len(merged) > MAX_TAGS:
                raise ValueError(
                    f"With the tags that it has, this memory would have {len(merged)}; at most "
                    f"{MAX_TAGS} are possible. {UNCHANGED} Store it again with fewer new tags."
                )
            time = entry.timestamp or now
            if before:
                id, time = before.id, max(before.timestamp, time)
            elif entry.id in own_ids:
                id = entry.id
                own_ids.remove(id)
            else:
                id = next(fresh_ids)
            memories[key] = Memory(
                id=id,
                agent_id=self.manifest.agent,
                content=entry.text,
                timestamp=time,
                tags=merged,
            )
        changed = {key for key in memories if memories[key] != known.get(key)}
        if changed:
            self.outcome = _MAYBE_STORED
            self.shard.write(
                [
                    Point(
                        key,
                        vectors[key] if key in vectors else points[key].vector,
                        memories[key].dict_for_storage(),
                    )
                    for key in memories
                    if key in changed
                ]
            )
            self.use(self.manifest.shard, self.shard.count())
        model = self.manifest.embedding.model
        return [Stored(memories[key].id, key in known, key in changed, model) for key in keys]

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
        just_after = now - RECENCY_WINDOW + timedelta(microseconds=1)
        within_week = replace(where, since=max(where.since or just_after, just_after))
        answers = self.shard.nearest(vector, limit, [where, within_week], asked, weight)
        found = {hit.id: hit for answer in answers for hit in answer}
        candidates = {id: hit for id, hit in found.items() if hit.similarity > 0}
        if len(candidates) < limit:  # all others score 0, and of equals the newest come first
            for hit in self.shard.newest(limit, where):
                if len(found) < limit and hit.id not in found:
                    raise self._damage("a search does not find all memories")
                candidates.setdefault(hit.id, hit)
        return ranking.rank(
            ((self.memory(hit), hit.similarity) for hit in candidates.values()), now, limit
        )

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """The `limit` memories that were stored last, newest first."""
        limit = min(limit, max(1, self.manifest.memories))
        return [self.memory(hit) for hit in self.shard.newest(limit, where)]

    def erase(self, ids: Sequence[str]) -> int:
        """Take these memories out for good; returns how many there were."""
        doomed = {hit.id for hit in self.shard.newest(len(ids), Where(ids=tuple(ids)))}
        if doomed:
            self._rewrite(doomed, self.manifest.words, _MAYBE_DELETED)
        return len(doomed)

    def add_words(self) -> None:
        """Let the store hold the words of its texts from now on; vectors stay as they are."""
        self._rewrite(set(), True, UNCHANGED)

    def _rewrite(self, leave_out: set[UUID], with_words: bool, outcome: str) -> None:
        """A new shard takes the place of the present one, whose files are removed when it is
        closed. The one write of the manifest is the swap.
        """
        name = self.next_shard()
        self.shard.copy_to(
            self.database / name,
            self.manifest.embedding.dimensions,
            leave_out=leave_out,
            with_words=with_words,
        )
        disk.settle(self.database / name)
        self.outcome = outcome
        self.manifest.words = with_words
        self.use(name, self.manifest.memories - len(leave_out))

    def next_shard(self) -> str:
        """The name for a shard that is to take the place of the present one."""
        return f"shard-{int(self.manifest.shard.rpartition('-')[2]) + 1}"

    def use(self, shard: str, memories: int) -> None:
        """Let the store be the shard of this name, which holds so many memories: the swap, and
        the acknowledgement of a write. The files of another are removed when the store is closed.
        """
        self.manifest.shard = shard
        self.manifest.engine = ENGINE
        self.manifest.memories = memories
        manifests.write(self.database, self.manifest)

    def _free(self, ids: set[str]) -> set[str]:
        """Those of `ids` that no living memory has."""
        taken = self.shard.newest(len(ids), Where(ids=tuple(ids))) if ids else []
        return ids - {hit.payload["id"] for hit in taken}

    def _fresh_ids(self, number: int, besides: set[str]) -> list[str]:
        """New ids that are free; 32 random bits do collide, 1 % at 10,000 memories."""
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
            raise self._damage("a memory in it is not what was stored")
        return memory

    def _damage(self, sign: str) -> DamagedStoreError:
        return DamagedStoreError(
            f"The store of {self.manifest.agent!r} is damaged: {sign}. {REPAIR}"
        )
