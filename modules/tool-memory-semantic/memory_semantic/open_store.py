"""What is done with a store while it is open: write, rank, list, erase."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from . import disk, ranking
from . import manifest as manifests
from .errors import StorageError
from .manifest import Manifest
from .models import MAX_TAGS, RECENCY_WINDOW, Memory, new_memory_id, point_id
from .shard import ENGINE, EVERYWHERE, Hit, Point, Shard, Where

# How an error ends, for whoever made the call.
UNCHANGED = "Nothing was changed."
_MAYBE_STORED = "It may or may not have been stored; storing it again is safe."
_MAYBE_DELETED = "It may or may not have been deleted; deleting it again is safe."


@dataclass(frozen=True)
class Stored:
    """What became of one stored text. `known` means that the memory existed: its tags were merged
    with the new ones and its time was renewed. `model` is the store's embedding model.
    """

    id: str
    known: bool
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
            self._acknowledge()

    def upsert(
        self,
        texts: Sequence[str],
        tags: Sequence[list[str]],
        vectors: Sequence[list[float]],
        now: datetime,
    ) -> list[Stored]:
        """Store each text with its tags and its vector; they are on disk when this returns."""
        keys = [point_id(text) for text in texts]
        known = {hit.id: self.memory(hit) for hit in self.shard.retrieve(list(set(keys)))}
        fresh = iter(self._fresh_ids(len(set(keys)) - len(known)))
        memories: dict[UUID, Memory] = {}
        for key, text, new_tags in zip(keys, texts, tags, strict=True):
            before = memories.get(key) or known.get(key)
            merged = list(dict.fromkeys([*(before.tags if before else ()), *new_tags]))
            if len(merged) > MAX_TAGS:
                raise ValueError(
                    f"With the tags that it has, this memory would have {len(merged)}; at most "
                    f"{MAX_TAGS} are possible. {UNCHANGED} Store it again with fewer new tags."
                )
            memories[key] = Memory(
                id=before.id if before else next(fresh),
                agent_id=self.manifest.agent,
                content=text,
                timestamp=now,
                tags=merged,
            )
        vector_of = dict(zip(keys, vectors, strict=True))
        self.outcome = _MAYBE_STORED
        self.shard.write(
            [Point(key, vector_of[key], memories[key].dict_for_storage()) for key in memories]
        )
        self._acknowledge()
        model = self.manifest.embedding.model
        return [Stored(memories[key].id, key in known, model) for key in keys]

    def search(self, vector: list[float], limit: int, where: Where, now: datetime) -> list[Memory]:
        """The best `limit` by `ranking.score`: each of them is among the `limit` most similar of
        the last seven days, or among those of the time before. (Of memories that are equally
        similar the engine chooses which make the cut.)
        """
        week_ago = now - RECENCY_WINDOW
        just_after = week_ago + timedelta(microseconds=1)
        within_week = replace(where, since=max(where.since or just_after, just_after))
        recent, older = self.shard.nearest(
            vector, limit, [within_week, replace(where, until=week_ago)]
        )
        found = {hit.id: hit for hit in (*recent, *older)}
        candidates = {id: hit for id, hit in found.items() if hit.cosine > 0}
        if len(candidates) < limit:  # all others score 0, and of equals the newest come first
            for hit in self.shard.newest(limit, where):
                if len(found) < limit and hit.id not in found:
                    raise self._damage("a search does not find all memories")
                candidates.setdefault(hit.id, hit)
        return ranking.rank(
            ((self.memory(hit), hit.cosine) for hit in candidates.values()), now, limit
        )

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """The `limit` memories that were stored last, newest first."""
        limit = min(limit, max(1, self.manifest.memories))
        return [self.memory(hit) for hit in self.shard.newest(limit, where)]

    def erase(self, ids: Sequence[str]) -> int:
        """Take these memories out for good; returns how many there were.

        A new shard without them takes the place of the present one, whose files are removed when
        it is closed. The one write of the manifest is the swap.
        """
        doomed = {hit.id for hit in self.shard.newest(len(ids), Where(ids=tuple(ids)))}
        if doomed:
            name = f"shard-{int(self.manifest.shard.rpartition('-')[2]) + 1}"
            dimensions = self.manifest.embedding.dimensions
            self.shard.copy_to(self.database / name, dimensions, leave_out=doomed)
            disk.settle(self.database / name)
            self.outcome = _MAYBE_DELETED
            self.manifest.shard = name
            self.manifest.engine = ENGINE
            self.manifest.memories -= len(doomed)
            manifests.write(self.database, self.manifest)
        return len(doomed)

    def _acknowledge(self) -> None:
        self.manifest.engine = ENGINE
        self.manifest.memories = self.shard.count()
        manifests.write(self.database, self.manifest)

    def _fresh_ids(self, number: int) -> list[str]:
        """Ids that no living memory has; 32 random bits do collide, 1 % at 10,000 memories."""
        fresh: set[str] = set()
        while len(fresh) < number:
            drawn = {new_memory_id() for _ in range(number - len(fresh))}
            taken = self.shard.newest(len(drawn), Where(ids=tuple(drawn)))
            fresh |= drawn - {hit.payload["id"] for hit in taken}
        return list(fresh)

    def memory(self, hit: Hit) -> Memory:
        """The memory in a payload, if its text is the very one that was stored."""
        try:
            memory = Memory.model_validate(hit.payload)
        except ValueError:
            memory = None
        if memory is None or point_id(memory.content) != hit.id:
            raise self._damage("a memory in it is not what was stored")
        return memory

    def _damage(self, sign: str) -> StorageError:
        return StorageError(
            f"The store of {self.manifest.agent!r} is damaged: {sign}. Restore its folder from a "
            "backup."
        )
