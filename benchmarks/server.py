"""What a real Qdrant server costs: time, memory and disk. Prints Markdown tables.

    uv run benchmarks/server.py --program qdrant --sizes 1000 10000 100000

Each row is measured on a server of its own in a temporary folder. No embedding model is loaded:
vectors of 1,536 dimensions are computed from texts of 300 characters. Clients and server share this
machine's processors.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any
from zlib import crc32

import numpy as np
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage
from memory_server.backend import ServerBackend
from memory_server.requests import point_of
from qdrant_client import QdrantClient, models
from stores import worker

sys.path.append(str(Path(__file__).parent.parent / "tests/server"))
from qdrant_node import QdrantNode

ALIAS = "agent-memory.sam"  # the name under which the server knows the store
CLIENTS, PROCESSES = (1, 8, 32), 4  # more processes would only take the processors from the server
CALLS, QUESTIONS = 320, 200
CALL_SECONDS, START_SECONDS = 30.0, 120.0  # a loop of calls ends after so long
BATCH = 128  # points in a request, as in memory_server/points.py
REQUEST_SECONDS = 1_800  # exact searches of a cold store take long
# The server is idle if nothing has changed in so many looks, and must become so.
LOOKS, LOOK_SECONDS, IDLE_SECONDS = 6, 0.5, 3_600.0
# Vectors lie around so many topics in 40 of the dimensions, so that a question has neighbours, as
# with those of a model: 57 % of the variance is the topic, 29 % the place in it, and 14 % noise.
TOPICS, LATENT, WITHIN, NOISE = 64, 40, 0.7, 0.5

_source = np.random.default_rng(7)
_CENTRES = _source.standard_normal((TOPICS, LATENT))
_PROJECTION = _source.standard_normal((LATENT, worker.DIMENSIONS)) / LATENT**0.5
_barrier: Any = None

say = partial(print, flush=True)


class GivenVectors(EmbeddingGenerator):
    """A model that takes a tenth of a millisecond and nothing to load."""

    def __init__(self) -> None:
        super().__init__("given", dimensions=worker.DIMENSIONS)

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return [vector(text) for text in texts]


def vector(text: str) -> list[float]:
    """The vector of a text, of norm 1."""
    source = np.random.default_rng(crc32(text.encode()))
    place = _CENTRES[source.integers(TOPICS)] + WITHIN * source.standard_normal(LATENT)
    numbers = place @ _PROJECTION + NOISE * source.standard_normal(worker.DIMENSIONS)
    return (numbers / np.linalg.norm(numbers)).tolist()


def storage_at(url: str, **settings: Any) -> MemoryStorage:
    """The memories of `sam` on the server; `settings` as in a bundle."""
    nothing = Path(tempfile.gettempdir()) / "agent-memory-benchmark-without-files"
    config = {"storage_root": str(nothing), "qdrant_url": url, "qdrant_timeout": 60, **settings}
    return MemoryStorage("sam", config, embeddings=GivenVectors())


@contextmanager
def new_node(program: Path) -> Iterator[QdrantNode]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QdrantNode(program, Path(folder) / "node") as node,
    ):
        yield node


def fill(storage: MemoryStorage, url: str, size: int) -> None:
    """Make the `size` memories of a store that has the first one, and wait until the server is
    idle. The points are those that `MemoryStorage` makes, but nothing is read around a write.
    """
    assert isinstance(storage.backend, ServerBackend)
    shards, now = storage.backend.shards(), datetime.now(UTC)
    info = shards.present()
    assert info
    about = shards.store(info).info
    client = QdrantClient(url=url, timeout=REQUEST_SECONDS, check_compatibility=False)
    for start in range(1, size, BATCH):
        memories = (_memory(number, size, now) for number in range(start, min(start + BATCH, size)))
        points = [point_of(memory, about) for memory in memories]
        client.upsert(ALIAS, points, wait=True)
    settle(client)


def _memory(number: int, size: int, now: datetime) -> Memory:
    text, timestamp = worker.text(number), worker.timestamp(number, size, now)
    return Memory(agent_id="sam", content=text, timestamp=timestamp, embedding=vector(text))


def settle(client: QdrantClient) -> None:
    """Wait until the server has nothing left to optimize. Raises RuntimeError after an hour."""
    end = time.monotonic() + IDLE_SECONDS
    seen: list[int] = []
    while time.monotonic() < end:
        found = client.get_collection(ALIAS)
        good = models.CollectionStatus.GREEN, models.OptimizersStatusOneOf.OK
        idle = (found.status, found.optimizer_status) == good
        seen = [*seen, found.indexed_vectors_count or 0][-LOOKS:] if idle else []
        if len(seen) == LOOKS and len(set(seen)) == 1:
            return
        time.sleep(LOOK_SECONDS)
    raise RuntimeError("The server did not become idle.")


def speed(program: Path, sizes: list[int]) -> None:
    say(
        f"Through MemoryStorage, with default settings: {CALLS} calls of each kind, by asyncio "
        f"tasks in up to {PROCESSES} processes. Each store adds a new text.\n"
    )
    say("| memories | call | clients | median ms | p95 ms | calls/s |\n|--:|---|--:|--:|--:|--:|")
    for size in sizes:
        with new_node(program) as node:
            storage = storage_at(node.url, lexical_weight=1)
            asyncio.run(storage.store(worker.text(0)))
            fill(storage, node.url, size)
            first = worker.LATER
            for kind, weight in (("search", 0), ("search, words", 1), ("store", 1)):
                for number in CLIENTS:
                    calls, rate = together(node.url, kind, weight, number, first)
                    first += CALLS + number
                    p50, p95 = np.percentile(calls, [50, 95])
                    say(f"| {size:,} | {kind} | {number} | {p50:.1f} | {p95:.1f} | {rate:.0f} |")


def together(
    url: str, kind: str, weight: float, clients: int, first: int
) -> tuple[list[float], float]:
    """The milliseconds of each call of so many clients at once, and the calls a second."""
    number = min(clients, PROCESSES)
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(number)
    shares = [range(clients)[start::number] for start in range(number)]
    with ProcessPoolExecutor(number, spawn, _meet_at, (barrier,)) as pool:
        work = partial(_work, url, kind, weight, CALLS // clients, first)
        parts = list(pool.map(work, shares))
    calls = [each for times, _, _ in parts for each in times]
    began, ended = min(part[1] for part in parts), max(part[2] for part in parts)
    return calls, len(calls) / (ended - began)


def _meet_at(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _work(
    url: str, kind: str, weight: float, each: int, first: int, clients: range
) -> tuple[list[float], float, float]:
    calls: list[float] = []
    storages = [storage_at(url, lexical_weight=weight) for _ in clients]

    async def one(client: int, storage: MemoryStorage, end: float) -> None:
        for index in range(client * each, (client + 1) * each):
            started = time.perf_counter()
            if kind == "store":
                await storage.store(worker.text(first + index))
            else:
                assert await storage.search(worker.question(index, index))
            calls.append(1_000 * (time.perf_counter() - started))
            if time.monotonic() > end:
                return

    async def all_clients() -> None:
        end = time.monotonic() + CALL_SECONDS
        pairs = zip(clients, storages, strict=True)
        await asyncio.gather(*(one(client, storage, end) for client, storage in pairs))

    async def connected() -> None:
        await asyncio.gather(*(storage.search("warm up") for storage in storages))

    asyncio.run(connected())
    _barrier.wait(START_SECONDS)
    began = time.monotonic()
    asyncio.run(all_clients())
    return calls, began, time.monotonic()


def room(program: Path, sizes: list[int]) -> None:
    say(
        f"\nBytes for each memory, after a restart and {QUESTIONS} searches, less what the same "
        "store takes with one memory. Own RAM is allocated; resident RAM includes the pages of "
        "files that the server has read.\n"
    )
    say("| memories | in RAM | own RAM | resident RAM | disk |\n|--:|---|--:|--:|--:|")
    for size in sizes:
        for kind in ("none", "int8", "binary"):
            with new_node(program) as node:
                storage = storage_at(node.url, qdrant_quantization=kind, lexical_weight=1)
                asyncio.run(storage.store(worker.text(0)))
                before = _used(node, storage)
                fill(storage, node.url, size)
                taken = zip(_used(node, storage), before, strict=True)
                cells = [f"{(late - early) / (size - 1):,.0f}" for late, early in taken]
                say(f"| {size:,} | {kind} | {' | '.join(cells)} |")


def _used(node: QdrantNode, storage: MemoryStorage) -> list[int]:
    node.stop()
    node.start()
    settle(QdrantClient(url=node.url, timeout=REQUEST_SECONDS, check_compatibility=False))

    async def searches() -> None:
        for index in range(QUESTIONS):
            await storage.search(worker.question(index, index))

    asyncio.run(searches())
    return [node.own_bytes(), node.resident_bytes(), node.disk_bytes()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, required=True, help="the server's program")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()
    for part in (speed, room):
        part(options.program, options.sizes)
    say(f"\nLoad average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
