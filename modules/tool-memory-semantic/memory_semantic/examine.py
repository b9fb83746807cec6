"""The full check of a store, which compares what no single call can afford to."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID

from . import ranking
from .errors import StorageError, counted
from .memory import Memory
from .points import Point, Question, pages
from .remembered import timestamp_text
from .store import Store, memory_of

# A vector is kept as float16 and normalised: its length may differ from 1 by at most this.
_TOLERANCE = 2e-3


def examine(
    store: Store,
    second_copy: Mapping[UUID, Memory] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """The faults of an open store, a sentence each. Calls `progress` with how many memories are
    done.

    Compares every text with its hash and its words, and checks that every vector is possible. With
    a `second_copy` of all memories, so that nobody can change the store meanwhile, compares it with
    that, and what searches find with what is there.
    """
    problems: list[str] = []
    whole: dict[UUID, Memory] = {}
    vector: Sequence[float] = ()
    done = 0
    for points in pages(store.points, vectors=True):
        for point in points:
            if fault := _fault(point, store):
                problems.append(f"Memory {point.payload.get('id') or point.key}: {fault}.")
            else:
                vector = point.vector
                whole[point.key] = memory_of(point._replace(vector=[]), store.info.agent)
        done += len(points)
        progress(done)
    if problems or second_copy is None:
        return problems
    return [*_found_faults(whole, vector, store), *_copy_faults(whole, second_copy)]


def is_whole(vector: Sequence[float], dimensions: int) -> bool:
    """Whether this can be the vector of a memory: of length 1, with so many `dimensions`."""
    # Also false when it is not a number.
    return len(vector) == dimensions and abs(math.hypot(*vector) - 1) <= _TOLERANCE


def _fault(point: Point, store: Store) -> str | None:
    try:
        memory = memory_of(point, store.info.agent)
    except StorageError:
        return "it is not what was stored"
    if memory.agent_id != store.info.agent:
        return "it belongs to another agent"
    if timestamp_text(memory.timestamp) != point.payload["timestamp"]:
        return "its time is not in the stored form"
    if store.info.words and point.words != ranking.indexed(memory.content):
        return "its words are not those of its text"
    if not is_whole(point.vector, store.info.model.dimensions):
        return f"its vector is not whole; it has {len(point.vector)} numbers"
    return None


def _found_faults(
    memories: Mapping[UUID, Memory], vector: Sequence[float], store: Store
) -> Iterator[str]:
    if len(memories) < store.info.memories:
        yield f"{len(memories):,} of {counted(store.info.memories)} can be read."
    if not memories:
        return
    most = len(memories) + 1
    [found] = store.nearest([Question(vector)], most)
    if {memory.key for memory in found} != memories.keys():
        yield "A search does not find all memories."
    if {point.key for point in store.points.page((), most, newest=True)} != memories.keys():
        yield "The index of times does not have all memories."


def _copy_faults(memories: Mapping[UUID, Memory], copy: Mapping[UUID, Memory]) -> Iterator[str]:
    differ = sum(memory != copy.get(key) for key, memory in memories.items())
    if differ or len(copy) != len(memories):
        yield (
            f"The journal differs in {counted(differ)}: it has {len(copy):,}, and the shard "
            f"{len(memories):,}."
        )
