"""Memories from one store into another, wherever the two are.

What is known there already is merged, so that the work can be done again: it goes on where an
interruption ended it, and takes along what was stored meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Event
from typing import NamedTuple, TypeVar
from uuid import UUID

from memory_semantic import EmbeddingGenerator, InputError, Memory
from memory_semantic.collection import EVERYWHERE, Collection
from memory_semantic.errors import StorageError
from memory_semantic.manifest import Embedding
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


class _Point(NamedTuple):
    memory: Memory
    vector: list[float]


async def memories_in(opener: Opener) -> dict[UUID, Memory]:
    """By key, the memories of a store, the oldest first; none if there is no store."""

    def work(store: OpenStore[Collection]) -> dict[UUID, Memory]:
        hits = store.collection.newest(ALL, EVERYWHERE)
        return {hit.id: store.memory(hit) for hit in reversed(hits)}

    return await _in(opener, work, {})


async def copy(
    source: Opener,
    target: Opener,
    embedding: Embedding,
    generator: EmbeddingGenerator | None,
    progress: Callable[[int, int], None],
    besides: Mapping[UUID, Memory] | None = None,
    vectors: Sequence[Opener] = (),
) -> dict[UUID, Memory]:
    """Let `target` have all memories of `source`, which are returned by key, but for those that are
    as in `besides`, and those that cannot be merged with what is there.

    Vectors are copied as they are; with a `generator` the texts are embedded anew, unless one of
    the stores `vectors` has theirs. They must be those of `embedding`, and `target` of that model.
    `progress` is told how many of how many are done.
    """
    await _in(target, lambda store: None, None)  # made, also where there is nothing to copy
    memories = await memories_in(source)
    wanted = [key for key in memories if memories[key] != (besides or {}).get(key)]
    done = 0
    for keys in _batches(wanted):
        points = await _points(source, keys)
        entries = [Entry.of(point.memory) for point in points.values()]
        made = {key: point.vector for key, point in points.items()}
        if generator:
            known = await _in(target, partial(_known, keys), set())
            made = {}
            for begun in vectors:
                made |= {key: point.vector for key, point in (await _points(begun, keys)).items()}
            fresh = [key for key in points if key not in known and key not in made]
            texts = [memories[key].content for key in fresh]
            new = await generator.generate_batch(texts) if texts else []
            made |= zip(fresh, new, strict=True)
        await _in(target, partial(_put, entries, made, embedding), None)
        done += len(keys)
        progress(done, len(wanted))
    return memories


async def missing(
    memories: Mapping[UUID, Memory],
    source: Opener,
    target: Opener,
    *,
    same_model: bool,
    progress: Callable[[int, int], None],
) -> list[str]:
    """What `target` lacks of the `memories` that were copied from `source`, a sentence for each,
    after comparing them all: texts with their hashes, tags, times and, with the `same_model`,
    vectors. What was changed in the source since then does not count.
    """
    problems, done = [], 0
    for keys in _batches(list(memories)):
        present, copied = await _points(source, keys), await _points(target, keys)
        for key, point in present.items():
            fault = _fault(point, copied.get(key), same_model)
            if fault and point.memory == memories[key]:
                problems.append(f"{point.memory.id}: {fault}.")
        done += len(keys)
        progress(done, len(memories))
    return problems


def _known(keys: Sequence[UUID], store: OpenStore[Collection]) -> set[UUID]:
    return store.known(keys)


def _put(
    entries: list[Entry],
    vectors: dict[UUID, list[float]],
    embedding: Embedding,
    store: OpenStore[Collection],
) -> None:
    if store.manifest.embedding != embedding:
        raise StorageError("The memory there was given another embedding model meanwhile.")
    try:
        store.upsert(entries, vectors, utc_now())
    except InputError:  # too many tags, with those that one has there
        if len(entries) > 1:
            for entry in entries:
                _put([entry], vectors, embedding, store)


def lacking(memory: Memory, copy: Memory | None) -> str | None:
    """What a copy of the memory, which may have been merged with what was there, lacks of it."""
    if copy is None:
        return "it is not there"
    if not set(memory.tags) <= set(copy.tags):
        return "tags are not there"
    return "its time is an older one" if copy.timestamp < memory.timestamp else None


def _fault(point: _Point, copy: _Point | None, same_model: bool) -> str | None:
    fault = lacking(point.memory, copy and copy.memory)
    if copy is None or fault:
        return fault
    numbers = zip(point.vector, copy.vector, strict=True) if same_model else ()
    if not all(abs(one - other) <= _TOLERANCE for one, other in numbers):
        return "its vector is another"
    return None


def _batches(keys: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]


async def _points(opener: Opener, keys: Sequence[UUID]) -> dict[UUID, _Point]:
    def work(store: OpenStore[Collection]) -> dict[UUID, _Point]:
        points = store.collection.retrieve(keys)
        return {point.id: _Point(store.memory(point), point.vector) for point in points}

    return await _in(opener, work, {})


async def _in(opener: Opener, work: Callable[[OpenStore[Collection]], T], without_store: T) -> T:
    def run(cancelled: Event) -> T:
        with opener(cancelled) as store:
            return work(store) if store else without_store

    return await run_blocking(run)
