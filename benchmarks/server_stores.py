"""Servers with stores of many memories, and the tables that say what these cost.

Vectors are computed from the text: 1,536 numbers that lie around 64 topics in 40 dimensions, with
some noise in all of them, so that a question has neighbours, as with the vectors of a model.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage
from memory_server.backend import ServerBackend
from memory_server.info import ServerInfo
from memory_server.requests import point_of
from memory_server.settings import EXACT_BELOW
from memory_server.store import ServerStore
from qdrant_client import QdrantClient, models
from qdrant_node import QdrantNode
from stores import worker

AGENT = "sam"
ALIAS = f"agent-memory.{AGENT}"  # the name under which the server knows the store
DIMENSIONS = 1536

_TOPICS, _LATENT = 64, 40
# Standard deviations, where that of the topics is 1: of memories within a topic, and of the noise.
# Of the variance, 57 % is the topic, 29 % the place within it, and 14 % noise.
_WITHIN, _NOISE = 0.7, 0.5
_BATCH = 128  # points in a request, as in memory_server/points.py
_REQUEST_SECONDS = 1_800  # snapshots and exact searches of a cold store take long
# The server is idle if nothing has changed in so many looks, and must become so.
_LOOKS, _LOOK_SECONDS, _IDLE_SECONDS = 6, 0.5, 3_600.0

_source = np.random.default_rng(7)
_CENTRES = _source.standard_normal((_TOPICS, _LATENT))
_PROJECTION = _source.standard_normal((_LATENT, DIMENSIONS)) / _LATENT**0.5

say = partial(print, flush=True)


@dataclass
class Options:
    """What to measure with; `calls` of each kind in `speed`, `questions` in the other parts."""

    program: Path
    sizes: list[int]
    clients: list[int]
    agents: list[int]
    calls: int
    questions: int


@contextmanager
def new_node(options: Options) -> Iterator[QdrantNode]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QdrantNode(options.program, Path(folder) / "node") as node,
    ):
        yield node


def table(*heads: str) -> None:
    say(f"\n| {' | '.join(heads)} |\n|---|{'--:|' * (len(heads) - 1)}")


def row(*cells: object) -> None:
    say("| " + " | ".join(map(str, cells)) + " |")


def restart(node: QdrantNode) -> float:
    """Stop the server and start it again; returns the seconds until it is ready."""
    node.stop()
    started = time.monotonic()
    node.start()
    return time.monotonic() - started


class GivenVectors(EmbeddingGenerator):
    """A model that takes a tenth of a millisecond and nothing to load."""

    def __init__(self) -> None:
        super().__init__("given", dimensions=DIMENSIONS)

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return [vector(text) for text in texts]


def vector(text: str) -> list[float]:
    """The vector of a text, of norm 1."""
    source = np.random.default_rng(crc32(text.encode()))
    place = _CENTRES[source.integers(_TOPICS)] + _WITHIN * source.standard_normal(_LATENT)
    numbers = place @ _PROJECTION + _NOISE * source.standard_normal(DIMENSIONS)
    return (numbers / np.linalg.norm(numbers)).tolist()


def question(index: int) -> str:
    """A question whose words are those of a memory, but whose vector is not."""
    return worker.question(index, index)


def storage_at(url: str, agent: str = AGENT, **settings: Any) -> MemoryStorage:
    """The memories of `agent` on the server; `settings` as in a bundle."""
    nothing = Path(tempfile.gettempdir()) / "agent-memory-benchmark-without-files"
    config = {"storage_root": str(nothing), "qdrant_url": url, "qdrant_timeout": 60, **settings}
    return MemoryStorage(agent, config, embeddings=GivenVectors())


def client_of(url: str) -> QdrantClient:
    """A client of the server itself, with a connection of its own."""
    return QdrantClient(url=url, timeout=_REQUEST_SECONDS, check_compatibility=False)


def opened(storage: MemoryStorage) -> tuple[ServerStore, ServerInfo]:
    """The store on the server, which exists, and what it is."""
    assert isinstance(storage.backend, ServerBackend)
    shards = storage.backend.shards()
    info = shards.present()
    assert info
    return shards.store(info), info


def create(storage: MemoryStorage) -> None:
    """Create the store, with one memory."""
    asyncio.run(storage.store(worker.text(0)))


def fill(storage: MemoryStorage, url: str, size: int) -> tuple[float, float, int]:
    """Make the `size` memories of a store that was just created. Returns the seconds that this took
    and those until the server was idle, and how many vectors it has indexed.

    The points are those that `MemoryStorage` makes, but nothing is read before or after a write.
    """
    started = time.monotonic()
    store, _ = opened(storage)
    client, now = client_of(url), datetime.now(UTC)
    for start in range(1, size, _BATCH):
        numbers = range(start, min(start + _BATCH, size))
        points = [point_of(_memory(number, size, now), store.info) for number in numbers]
        client.upsert(ALIAS, points, wait=True)
    filled = time.monotonic()
    indexed = settle(url)
    return filled - started, time.monotonic() - filled, indexed


def settle(url: str) -> int:
    """Wait until the server has nothing left to optimize in the store; returns how many vectors it
    has indexed. Raises RuntimeError if this takes an hour.
    """
    client, end = client_of(url), time.monotonic() + _IDLE_SECONDS
    seen: list[int] = []
    while time.monotonic() < end:
        found = client.get_collection(ALIAS)
        good = models.CollectionStatus.GREEN, models.OptimizersStatusOneOf.OK
        idle = (found.status, found.optimizer_status) == good
        seen = [*seen, found.indexed_vectors_count or 0][-_LOOKS:] if idle else []
        if len(seen) == _LOOKS and len(set(seen)) == 1:
            return seen[0]
        time.sleep(_LOOK_SECONDS)
    raise RuntimeError("The server did not become idle.")


def _memory(number: int, size: int, now: datetime) -> Memory:
    text, timestamp = worker.text(number), worker.timestamp(number, size, now)
    return Memory(agent_id=AGENT, content=text, timestamp=timestamp, embedding=vector(text))


def with_graph(size: int) -> dict[str, int]:
    """The setting with which a store of `size` memories has a graph."""
    # Not much less than the size: the server would build graphs of parts while it is filled.
    return {"qdrant_exact_below": min(EXACT_BELOW, max(1, size // 2))}
