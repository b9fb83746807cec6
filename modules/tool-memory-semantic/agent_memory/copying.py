"""Memories from one store into another, wherever the two are.

What is known there already is merged, so that the work can be done again: it goes on where an
interruption ended it, and takes along what was stored meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Event
from typing import TypeVar
from uuid import UUID

from memory_semantic import EmbeddingGenerator, Memory
from memory_semantic.collection import EVERYWHERE, Collection, Point
from memory_semantic.models import Entry, utc_now
from memory_semantic.open_store import OpenStore
from memory_semantic.workers import run_blocking

from .rebuild import ALL, BATCH

T = TypeVar("T")

# A vector is kept as float16, and made one of length 1 again at every write: its numbers, which are
# at most 1, may differ by this.
_TOLERANCE = 1e-3

# Opens a store for one operation; waiting for it ends when the event is set.
Opener = Callable[[Event], AbstractContextManager[OpenStore[Collection] | None]]


async def memories_in(opener: Opener) -> dict[UUID, Memory]:
    """By key, the memories of a store, the oldest first; none if there is no store."""

    def work(store: OpenStore[Collection]) -> dict[UUID, Memory]:
        hits = store.collection.newest(ALL, EVERYWHERE)
        return {hit.id: store.memory(hit) for hit in reversed(hits)}

    return await _in(opener, work, {})


async def copy(
    source: Opener,
    target: Opener,
    generator: EmbeddingGenerator | None,
    progress: Callable[[int, int], None],
) -> dict[UUID, Memory]:
    """Let `target` have all memories of `source`, which are returned by key.

    Vectors are copied as they are; with a `generator` the texts are embedded anew. `progress` is
    told how many of how many are done.
    """
    memories = await memories_in(source)
    done = 0
    for keys in _batches(list(memories)):
        points = await _points(source, keys)
        entries = [
            Entry(memory.content, memory.tags, memory.id, memory.timestamp)
            for memory in (memories[key] for key in points)
        ]
        vectors = {key: point.vector for key, point in points.items()}
        if generator:
            known = await _in(target, partial(_known, keys), set())
            fresh = [key for key in points if key not in known]
            texts = [memories[key].content for key in fresh]
            made = await generator.generate_batch(texts) if texts else []
            vectors = dict(zip(fresh, made, strict=True))

        put = partial(_put, entries, vectors)
        await _in(target, put, None)
        done += len(keys)
        progress(done, len(memories))
    return memories


async def missing(
    source: Opener,
    target: Opener,
    *,
    same_model: bool,
    progress: Callable[[int, int], None],
) -> list[str]:
    """What `target` lacks of `source`, a sentence for each memory, after comparing them all: texts
    with their hashes, tags, times and, with the `same_model`, vectors.
    """
    memories = await memories_in(source)
    problems, done = [], 0
    for keys in _batches(list(memories)):
        there, copied = await _points(source, keys), await _points(target, keys)
        for key, point in there.items():
            fault = _fault(point, copied.get(key), same_model)
            if fault:
                problems.append(f"{point.payload['id']}: {fault}.")
        done += len(keys)
        progress(done, len(memories))
    return problems


def _known(keys: Sequence[UUID], store: OpenStore[Collection]) -> set[UUID]:
    return store.known(keys)


def _put(
    entries: list[Entry], vectors: dict[UUID, list[float]], store: OpenStore[Collection]
) -> None:
    store.upsert(entries, vectors, utc_now())


def _fault(point: Point, copy: Point | None, same_model: bool) -> str | None:
    if copy is None:
        return "it is not there"
    if not set(point.payload["tags"]) <= set(copy.payload["tags"]):
        return "tags are not there"
    if copy.payload["timestamp"] < point.payload["timestamp"]:
        return "its time is an older one"
    numbers = zip(point.vector, copy.vector, strict=True) if same_model else ()
    if not all(abs(one - other) <= _TOLERANCE for one, other in numbers):
        return "its vector is another"
    return None


def _batches(keys: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]


async def _points(opener: Opener, keys: Sequence[UUID]) -> dict[UUID, Point]:
    """Those of the points that exist, their texts being what was stored."""

    def work(store: OpenStore[Collection]) -> dict[UUID, Point]:
        points = store.collection.retrieve(keys)
        return {point.id: point for point in points if store.memory(point)}

    return await _in(opener, work, {})


async def _in(opener: Opener, work: Callable[[OpenStore[Collection]], T], without_store: T) -> T:
    def run(cancelled: Event) -> T:
        with opener(cancelled) as store:
            return work(store) if store else without_store

    return await run_blocking(run)
