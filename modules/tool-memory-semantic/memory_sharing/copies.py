"""Copies of an agent's memories in the store of another agent."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory_semantic import Memory, MemoryStorage, StoreInfo
from memory_semantic.limits import COPIED_FROM
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
        return [pair.memory for pair in await self._lacking(await self._pairs(memories))]

    async def copy(self, memories: Sequence[Memory]) -> list[Copied]:
        """Copy those of at most 1,000 memories that the source still has. A text that the target
        already has stays unchanged there. Raises EmbeddingError and StorageError; what was copied
        before stays copied.
        """
        keys = [memory.key for memory in memories]
        found = await self.source.run(lambda store: store.get(keys, vectors=True), {})
        pairs = await self._pairs([found[key] for key in keys if key in found])
        if not pairs:
            return []
        bare = [each.copy for each in await self._lacking(pairs) if not each.copy.embedding]
        if bare:
            generator = self.target.generator(self.info)
            vectors = await generator.generate_batch([copy.content for copy in bare])
            for copy, vector in zip(bare, vectors, strict=True):
                copy.embedding = vector
        copies = [pair.copy for pair in pairs]
        stored = await self.target.place.run(
            lambda store: store.put(copies, lambda copy, known: known or copy), create=self.info
        )
        return [
            Copied(memory.id, each.id, each.known, masked)
            for (memory, _, masked), each in zip(pairs, stored or [], strict=True)
        ]

    async def _pairs(self, memories: Sequence[Memory]) -> list[_Pair]:
        # Masking takes a while.
        return await asyncio.to_thread(lambda: list(map(self._pair, memories)))

    def _pair(self, memory: Memory) -> _Pair:
        [content, *tags], masked = self.source.masked([memory.content, *memory.tags])
        copy = Memory(
            agent_id=self.target.agent_id,
            content=content,
            tags=tags,
            metadata={COPIED_FROM: self.source.agent_id},
            **memory.model_dump(include={"timestamp", "expires", "said_by"}),
        )
        if content == memory.content and not self.embeds:
            copy.embedding = memory.embedding
        return _Pair(memory, copy, masked)

    async def _lacking(self, pairs: Sequence[_Pair]) -> list[_Pair]:
        keys = [pair.copy.key for pair in pairs]
        there = await self.target.run(lambda store: store.get(keys).keys(), ())
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
