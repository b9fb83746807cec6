"""Agents that store and forget without pause, and what they were told.

`python load.py URL NAME CONFIG` works until standard input ends, and prints what it was told.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

from hosts import Host
from memory_semantic import MemoryStorage, StorageError
from memory_semantic.errors import UNCHANGED
from plain_vectors import PlainVectors

T = TypeVar("T")

SHARED = 5  # texts that all of them store, each with its own tag


def storage_on(url: str, **config: Any) -> MemoryStorage:
    """The store of `sam` on that server."""
    return MemoryStorage("sam", {"qdrant_url": url, **config}, embeddings=PlainVectors())


@dataclass
class Told:
    """What the server said: `kept` and `forgotten` were acknowledged, `refused` had the answer that
    nothing was changed. `tags` are those of shared texts.
    """

    kept: dict[str, str] = field(default_factory=dict)  # texts, and their ids
    forgotten: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    tags: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each call

    def add(self, other: "Told") -> None:
        """What others were told, too."""
        self.kept |= other.kept
        for name in ("forgotten", "refused", "tags", "errors", "seconds"):
            getattr(self, name).extend(getattr(other, name))

    async def check(self, storage: MemoryStorage) -> None:
        """Assert that the store is as it was told."""
        memories = {memory.content: memory for memory in await storage.get_recent(1_000_000)}
        assert len(memories) == await storage.count()
        assert {text: memories[text].id for text in self.kept if text in memories} == self.kept
        assert not memories.keys() & {*self.forgotten}
        assert not memories.keys() & {*self.refused}
        for text, tag in self.tags:
            assert tag in memories[text].tags
        assert await storage.check() == []


class Load:
    """One agent's work on a store, under its own `name`."""

    def __init__(self, name: str, storage: MemoryStorage) -> None:
        self.told = Told()
        self.ended = False
        self._name = name
        self._storage = storage

    async def run(self) -> None:
        """Work until `ended`."""
        for number in count():
            if self.ended:
                return
            text = f"{self._name} {number}"
            if number % 4 == 3:
                await self._share(f"shared {number // 4 % SHARED}")
            elif (stored := await self._store(text)) and number % 4 == 2:
                await self._forget(text, stored)

    async def _store(self, text: str) -> str | None:
        stored = await self._call(lambda: self._storage.store(text), text)
        if stored:
            self.told.kept[text] = stored
        return stored

    async def _forget(self, text: str, memory_id: str) -> None:
        del self.told.kept[text]
        number = await self._call(lambda: self._storage.delete([memory_id]))
        if number:
            self.told.forgotten.append(text)
        elif number == 0:
            self.told.errors.append(f"nothing to forget: {text}")
        elif self.told.errors[-1].endswith(UNCHANGED):
            self.told.kept[text] = memory_id

    async def _share(self, text: str) -> None:
        if await self._call(lambda: self._storage.store(text, [self._name])):
            self.told.tags.append((text, self._name))

    async def _call(self, call: Callable[[], Awaitable[T]], text: str = "") -> T | None:
        started = time.monotonic()
        try:
            return await call()
        except StorageError as error:
            self.told.errors.append(str(error))
            if text and str(error).endswith(UNCHANGED):
                self.told.refused.append(text)
            return None
        finally:
            self.told.seconds.append(time.monotonic() - started)


@asynccontextmanager
async def load(storages: Sequence[MemoryStorage]) -> AsyncIterator[Told]:
    """Agents at work on each of the storages; what they were told is complete at the end."""
    told = Told()
    loads = [Load(f"agent {number}", storage) for number, storage in enumerate(storages)]
    async with asyncio.TaskGroup() as group:
        for each in loads:
            group.create_task(each.run())
        try:
            yield told
        finally:
            for each in loads:
                each.ended = True
    for each in loads:
        told.add(each.told)


class Elsewhere:
    """An agent at work on another host, on the server at `url`, until the end of the `with`."""

    def __init__(self, host: Host, name: str, url: str, **config: Any) -> None:
        program = [sys.executable, __file__, url, name, json.dumps(config)]
        self._process = subprocess.Popen(
            [*host.wrapper, *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )

    def wait(self) -> None:
        """Return once it is at work."""
        assert self._process.stdout and self._process.stdout.readline() == "at work\n"

    def end(self) -> Told:
        """Let it end; what it was told."""
        answer, _ = self._process.communicate("", timeout=300)
        assert self._process.returncode == 0
        return Told(**json.loads(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


async def _until_the_end_of_input(url: str, name: str, config: str) -> None:
    work = Load(name, storage_on(url, **json.loads(config)))
    running = asyncio.create_task(work.run())
    print("at work", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    work.ended = True
    await running
    print(json.dumps(asdict(work.told)))


if __name__ == "__main__":
    asyncio.run(_until_the_end_of_input(*sys.argv[1:]))
