"""The full check of a store, which compares what no single call can afford to."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import UUID

from . import ranking
from .errors import StorageError, counted
from .memory import Memory, timestamp_text
from .store import EVERYWHERE, Question, Record, Store, memory_of

# A vector is kept as float16 and normalised: its length may differ from 1 by at most this.
_TOLERANCE = 2e-3


def examine(store: Store, progress: Callable[[int], None] = lambda done: None) -> list[str]:
    """The faults of an open store, a sentence each. Calls `progress` with how many memories are
    done.

    Compares every text with its hash and its words, and checks that every vector is possible. If
    the store has a second copy, so that nobody can change it meanwhile, compares it with that, and
    what searches find with what is there.
    """
    problems: list[str] = []
    whole: dict[UUID, Memory] = {}
    vector: Sequence[float] = ()
    done = 0
    for records in store.scan():
        for record in records:
            if fault := _fault(record, store):
                problems.append(f"Memory {record.payload.get('id') or record.key}: {fault}.")
            else:
                vector = record.vector
                whole[record.key] = memory_of(record._replace(vector=[]), store.info.agent)
        done += len(records)
        progress(done)
    copy = store.second_copy()
    if problems or copy is None:
        return problems
    return [*_found_faults(whole, vector, store), *_copy_faults(whole, copy)]


def is_whole(vector: Sequence[float], dimensions: int) -> bool:
    """Whether this can be the vector of a memory: of length 1, with so many `dimensions`."""
    # Also false when it is not a number.
    return len(vector) == dimensions and abs(math.hypot(*vector) - 1) <= _TOLERANCE


def _fault(record: Record, store: Store) -> str | None:
    try:
        memory = memory_of(record, store.info.agent)
    except StorageError:
        return "it is not what was stored"
    if memory.agent_id != store.info.agent:
        return "it belongs to another agent"
    if timestamp_text(memory.timestamp) != record.payload["timestamp"]:
        return "its time is not in the stored form"
    if store.info.words and record.words != ranking.indexed(memory.content):
        return "its words are not those of its text"
    if not is_whole(record.vector, store.info.model.dimensions):
        return f"its vector is not whole; it has {len(record.vector)} numbers"
    return None


def _found_faults(
    memories: Mapping[UUID, Memory], vector: Sequence[float], store: Store
) -> Iterator[str]:
    if len(memories) < store.info.memories:
        yield f"{len(memories)} of {counted(store.info.memories)} can be read."
    if not memories:
        return
    most = len(memories) + 1
    [found] = store.nearest([(Question(list(vector)), EVERYWHERE)], most)
    if {memory.key for memory in found} != memories.keys():
        yield "A search does not find all memories."
    if {memory.key for memory in store.newest(most)} != memories.keys():
        yield "The index of times does not have all memories."


def _copy_faults(memories: Mapping[UUID, Memory], copy: Mapping[UUID, Memory]) -> Iterator[str]:
    differ = sum(memory != copy.get(key) for key, memory in memories.items())
    if differ or len(copy) != len(memories):
        yield (
            f"The journal differs in {counted(differ)}, and has {len(copy):,}, not "
            f"{len(memories):,}."
        )
