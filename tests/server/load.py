"""Agents that store and forget without pause on a real server, and what it acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from memory_semantic import MemoryStorage, StorageError
from plain_vectors import PlainVectors


def storage_on(url: str, **config: Any) -> MemoryStorage:
    """The store of `sam` on that server."""
    return MemoryStorage("sam", {"qdrant_url": url, **config}, embeddings=PlainVectors())


@dataclass
class Acknowledged:
    """What must be there, texts with their ids, and what must not."""

    stored: dict[str, str] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)

    async def check(self, storage: MemoryStorage) -> None:
        """Assert that the store is as was acknowledged."""
        memories = {memory.content: memory.id for memory in await storage.get_recent(None)}
        assert len(memories) == await storage.count()
        assert {text: memories.get(text) for text in self.stored} == self.stored
        assert not memories.keys() & self.forgotten
        assert await storage.check() == []


@asynccontextmanager
async def load(storages: Sequence[MemoryStorage]) -> AsyncIterator[list[Acknowledged]]:
    """An agent at work on each of the storages, and what each was told."""
    ended = asyncio.Event()
    told = [Acknowledged() for _ in storages]

    async def work(name: int) -> None:
        stored = told[name].stored
        for number in count():
            if ended.is_set():
                return
            text = f"agent {name}: {number}"
            with suppress(StorageError):
                stored[text] = await storages[name].store(text)
                if number % 3 == 2:
                    memory_id = stored.pop(text)
                    if await storages[name].delete([memory_id]):
                        told[name].forgotten.add(text)
                    else:  # read from a copy that did not have it yet
                        stored[text] = memory_id

    async with asyncio.TaskGroup() as group:
        for name in range(len(storages)):
            group.create_task(work(name))
        try:
            yield told
        finally:
            ended.set()


def together(told: Sequence[Acknowledged]) -> Acknowledged:
    """What all of them were told; each was told something."""
    assert all(each.stored and each.forgotten for each in told)
    stored = {text: memory_id for each in told for text, memory_id in each.stored.items()}
    return Acknowledged(stored, {text for each in told for text in each.forgotten})
