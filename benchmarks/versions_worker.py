"""One piece of work for `versions.py`, in a process of its own, by whichever version is installed:
`versions_worker.py WORK ROOT MODEL [NUMBER ...]`. Prints what it measured as JSON.

Uses only what the package makes public, so that it runs with both versions. The model is `local`
or `vectors`, which cost next to nothing, so that the times are those of the store.
"""

import amplifier_core  # noqa: F401, I001 - first, as in every session; pydantic comes with it
import asyncio
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import v1
from memory_semantic import Memory, MemoryStorage, StorageError

NOTES = Path(__file__).with_name("recall") / "memories.jsonl"
BATCH = 500

Values = dict[str, list[float]]


def storage(root: str, model: str, agent: str = "bench", **settings: Any) -> MemoryStorage:
    settings |= {"storage_root": root, "qdrant_url": "local"}
    if model == "vectors":
        return MemoryStorage(agent, settings, embeddings=v1.Vectors(dimensions=v1.DIMENSIONS))
    return MemoryStorage(agent, settings | {"embedding_model": model})


def texts(number: int, name: str = "") -> list[str]:
    """So many texts, each of its own, of words as often as notes have them."""
    name = name or f"{os.getpid()} {time.monotonic_ns()}"
    lines = NOTES.read_text().splitlines()
    words = [word for line in lines for word in json.loads(line)["content"].split()]
    source = random.Random(name)
    return [f"{name} {i}: {' '.join(source.choices(words, k=40))}" for i in range(number)]


async def milliseconds(call: Awaitable[Any]) -> float:
    started = time.perf_counter()
    await call
    return (time.perf_counter() - started) * 1000


async def fill(root: str, model: str, number: int) -> Values:
    now, apart = datetime.now(UTC), timedelta(days=730) / number
    memories = [
        Memory(agent_id="bench", content=text, timestamp=now - (number - i) * apart)
        for i, text in enumerate(texts(number, "filled"))
    ]
    for start in range(0, number, BATCH):
        await storage(root, model).restore(memories[start : start + BATCH])
    return {"disk": [v1.disk_bytes(root) / number / 1000]}


async def calls(root: str, model: str, number: int, pause: float) -> Values:
    """Searches, then stores, with a pause before each."""
    memory = storage(root, model)
    await memory.search("warm")  # which loads the engine and the model
    values: Values = defaultdict(list)
    for name, call in (("search", memory.search), ("store", memory.store)):
        for text in texts(number):
            await asyncio.sleep(pause)
            values[name].append(await milliseconds(call(text)))
    return values


async def first(root: str, model: str) -> Values:
    """When the first answer was there, by the clock of the machine."""
    await storage(root, model).search("the first question of a session")
    return {"at": [time.time()]}


async def at_once(root: str, model: str, number: int) -> Values:
    memory = storage(root, model)
    await memory.search("warm")
    values: Values = {}
    for name, call in (("search", memory.search), ("store", memory.store)):
        together = asyncio.gather(*(call(text) for text in texts(number)))
        values[name] = [await milliseconds(together)]
    return values


async def several(root: str, model: str, seconds: float) -> Values:
    """One of several processes: how many calls a second it makes."""
    memory = storage(root, model)
    prepared = texts(10_000)
    ready()
    started, done = time.monotonic(), 0
    while time.monotonic() < started + seconds:
        await memory.store(prepared[done])
        await memory.search(prepared[-done])
        done += 2
    return {"rate": [done / (time.monotonic() - started)]}


async def watch(root: str, model: str) -> Values:
    """The longest search until there is no more input."""
    memory = storage(root, model)
    await memory.search("warm")
    ready()
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    longest = 0.0
    while not over.done():
        longest = max(longest, await milliseconds(memory.search("watched")))
        await asyncio.sleep(0.05)
    return {"longest": [longest]}


async def forget(root: str, model: str) -> Values:
    memory = storage(root, model)
    [newest] = await memory.get_recent(1)
    return {"forget": [await milliseconds(memory.delete([newest.id]))]}


async def waiting(root: str, model: str, number: int, seconds: float) -> Values:
    """How long another agent waits while calls of this process wait for a store that is locked."""
    other = storage(root, model, "other")
    await other.store("warm")
    locked = storage(root, model, lock_timeout=seconds)
    tasks = [asyncio.create_task(locked.search(text)) for text in texts(number)]
    await asyncio.sleep(0.2)
    waited = await milliseconds(other.search("waiting"))
    for task in tasks:
        with suppress(StorageError):  # the lock was not free in time
            await task
    return {"other": [waited]}


def ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


WORKS = {work.__name__: work for work in (fill, calls, first, at_once, several)}
WORKS |= {work.__name__: work for work in (watch, forget, waiting)}

if __name__ == "__main__":
    _, name, root, model, *numbers = sys.argv
    print(json.dumps(asyncio.run(WORKS[name](root, model, *map(json.loads, numbers)))))
