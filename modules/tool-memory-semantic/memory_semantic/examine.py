"""The full check of a store, which compares what no single call can afford to."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from . import ranking
from .errors import DamagedStoreError, StorageError, counted
from .memory import Memory, timestamp_text
from .store import Question, Record, Store, Where, memory_of

# A vector is kept as float16 and normalised: its length, and its cosine with itself, may differ
# from 1 by at most this.
_TOLERANCE = 2e-3
# How many texts of one time may have the same vector before one is also looked for by its id.
_ALIKE = 3


def examine(store: Store, progress: Callable[[int], None] = lambda done: None) -> list[str]:
    """The faults of an open store, a sentence each. Calls `progress` with how many memories are
    done.

    Compares every text with its hash, checks that every vector is possible and finds its own
    memory, and, if the store `is_ours_alone`, compares the indexes with a scan of everything.
    """
    problems: list[str] = []
    whole: list[Memory] = []
    done = 0
    for records in store.scan():
        good: list[Memory] = []
        for record in records:
            fault = _fault(record, store)
            if fault:
                problems.append(f"Memory {record.payload.get('id') or record.key}: {fault}.")
            else:
                good.append(memory_of(record, store.info.agent))
        problems += [
            f"Memory {memory.id}: its own vector does not find it."
            for memory in _unfound(good, store)
        ]
        for memory in good:
            memory.embedding = []
        whole += good
        done += len(records)
        progress(done)
    # Others may change the memories during a comparison of the indexes.
    return problems or (list(_index_faults(whole, store)) if store.is_ours_alone else [])


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
    if len(record.vector) != store.info.model.dimensions:
        return f"its vector has {len(record.vector)} numbers"
    if not abs(math.hypot(*record.vector) - 1) <= _TOLERANCE:  # also when it is not a number
        return "its vector is not whole"
    return None


def _unfound(memories: Sequence[Memory], store: Store) -> list[Memory]:
    """The memories that a search by their own vector, through an index, does not find. Asks for all
    at once, because each request to a server takes a while.
    """
    left = list(memories)
    for place in (_at_its_time, _of_its_id):
        answers = _answers([(Question(m.embedding), place(m)) for m in left], store)
        left = [m for m, answer in zip(left, answers, strict=True) if not _is_among(m, answer)]
    present = store.get([memory.key for memory in left]) if left else {}
    return [memory for memory in left if present.get(memory.key) == memory]  # if nobody changed it


def _answers(asked: list[tuple[Question, Where]], store: Store) -> list[list[Memory]]:
    if not asked:
        return []
    try:
        return store.nearest(asked, _ALIKE)
    except DamagedStoreError:  # one search does not find all memories
        if len(asked) == 1:
            return [[]]
        return [answer for each in asked for answer in _answers([each], store)]


def _at_its_time(memory: Memory) -> Where:
    return Where(since=memory.timestamp, until=memory.timestamp)


def _of_its_id(memory: Memory) -> Where:
    return Where(ids=(memory.id,))


def _is_among(memory: Memory, found: Sequence[Memory]) -> bool:
    return any(m.key == memory.key and (m.score or 0) >= 1 - _TOLERANCE for m in found)


def _index_faults(memories: Sequence[Memory], store: Store) -> Iterator[str]:
    tags = Counter(tag for memory in memories for tag in memory.tags)
    for tag, number in tags.items():
        indexed = store.count(Where(tags=(tag,)))
        if indexed != number:
            yield f"The index of tags has {indexed} of {counted(number)} with one tag."
    times = [memory.timestamp for memory in store.newest(len(memories) + 1)]
    if times != sorted((memory.timestamp for memory in memories), reverse=True):
        yield "The index of times does not agree with the times of the memories."
    if len(memories) < store.info.memories:
        yield f"{len(memories)} of {counted(store.info.memories)} can be read."
