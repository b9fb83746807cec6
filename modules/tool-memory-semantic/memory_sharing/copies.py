"""Copies of an agent's memories in the store of another agent."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from memory_semantic import Memory, MemoryStorage, Store, StoreInfo
from memory_semantic.limits import COPIED_FROM, MAX_BATCH
from memory_semantic.remembered import utc_now


class Copied(NamedTuple):
    """What became of a memory: `copy` is the id of its text in the other store, `known` whether it
    was there already, `masked` how many credentials were masked in the copy.
    """

    id: str
    copy: str
    known: bool
    masked: int


class _Pair(NamedTuple):
    memory: Memory
    copy: Memory
    masked: int


@dataclass(frozen=True)
class Sharing:
    """Copies from the store of `source` to that of `target`; only `copy` changes anything.

    `info` describes the store of `target`. `creates` says that it does not exist yet, `embeds` that
    it has another model, so that the texts are embedded again.
    """

    source: MemoryStorage
    target: MemoryStorage
    info: StoreInfo
    creates: bool
    embeds: bool

    async def new(self, memories: Sequence[Memory]) -> list[Memory]:
        """Those of the memories whose texts the target does not have."""
        pairs = await asyncio.to_thread(self._pairs, memories)
        return [pair.memory for pair in await self._lacking(pairs)]

    async def copy(self, memories: Sequence[Memory]) -> list[Copied]:
        """Copy those of at most 1,000 memories that the source still has. A text that the target
        already has stays unchanged there. Raises EmbeddingError and StorageError; what was copied
        before stays copied.
        """
        keys = [memory.key for memory in memories]
        present = await self.source.run(lambda store: store.get(keys, vectors=True), {})
        pairs = await asyncio.to_thread(
            self._pairs, [present[key] for key in keys if key in present]
        )
        bare = [pair.copy for pair in pairs if not pair.copy.embedding]
        if bare:
            bare = [pair.copy for pair in await self._lacking(pairs) if not pair.copy.embedding]
            vectors = await self.target.generator(self.info).generate_batch(
                [copy.content for copy in bare]
            )
            for copy, vector in zip(bare, vectors, strict=True):
                copy.embedding = vector

        def add(store: Store) -> list[Copied]:
            there = store.get([pair.copy.key for pair in pairs])
            new = [pair.copy for pair in pairs if pair.copy.key not in there]
            stored = store.put(new, lambda copy, known: known or copy) if new else []
            ids = {key: memory.id for key, memory in there.items()}
            ids |= {copy.key: each.id for copy, each in zip(new, stored, strict=True)}
            return [
                Copied(pair.memory.id, ids[pair.copy.key], pair.copy.key in there, pair.masked)
                for pair in pairs
            ]

        return await self.target.place.run(add, create=self.info) or [] if pairs else []

    def _pairs(self, memories: Sequence[Memory]) -> list[_Pair]:
        return [self._pair(memory) for memory in memories]

    def _pair(self, memory: Memory) -> _Pair:
        [content, *tags], masked = self.source.masked([memory.content, *memory.tags])
        copy = Memory(
            agent_id=self.target.agent_id,
            content=content,
            timestamp=memory.timestamp,
            tags=tags,
            expires=memory.expires,
            said_by=memory.said_by,
            metadata={COPIED_FROM: self.source.agent_id},
        )
        if content == memory.content and not self.embeds:
            copy.embedding = memory.embedding
        return _Pair(memory, copy, masked)

    async def _lacking(self, pairs: Sequence[_Pair]) -> list[_Pair]:
        keys = [pair.copy.key for pair in pairs]
        there: set[UUID] = set()
        for start in range(0, len(keys), MAX_BATCH):  # as vectors are read, too
            some = keys[start : start + MAX_BATCH]
            there |= await self.target.run(lambda store, some=some: set(store.get(some)), set())
        return [pair for pair in pairs if pair.copy.key not in there]


async def sharing(source: MemoryStorage, target: MemoryStorage) -> Sharing | None:
    """The Sharing between two stores; None if `source` has no store. A store created for the target
    gets the same embedding model. Raises StorageError.
    """
    ours, theirs = await source.info(), await target.info()
    if ours is None:
        return None
    info = theirs or StoreInfo(
        agent=target.agent_id,
        embedding=ours.model,
        endpoint=ours.endpoint,
        words=ours.words,
        created=utc_now(),
    )
    return Sharing(source, target, info, theirs is None, info.model != ours.model)
