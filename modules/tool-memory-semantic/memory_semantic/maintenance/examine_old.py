"""The full check of a store: what no single call can afford to compare."""

import math
from collections import Counter
from collections.abc import Callable

from .collection import EVERYWHERE, Collection, Hit, Point, Where
from .errors import StorageError
from .models import timestamp_text
from .open_store import OpenStore
from .ranking import words

# A vector is kept as float16 and normalised: its length, and its cosine with itself, may differ
# from 1 by this much and no more.
_TOLERANCE = 2e-3


def check(
    store: OpenStore[Collection], progress: Callable[[int], None] = lambda done: None
) -> list[str]:
    """What is wrong with an open store, a sentence each; empty if nothing is. `progress` is told
    how many memories are done.

    Compares every text with its hash, every vector with what a vector can be and with what a
    search by it finds, and, if nobody can write meanwhile, the indexes with a scan of everything.
    """
    done = 0
    problems: list[str] = []
    times: list[str] = []
    ids: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for points in store.collection.points():
        whole = []
        for point in points:
            fault = _fault(point, store)
            if fault:
                problems.append(f"Memory {point.payload.get('id') or point.id}: {fault}.")
                continue
            whole.append(point)
            ids[point.payload["id"]] += 1
            tags.update(point.payload["tags"])
            times.append(point.payload["timestamp"])
        problems += _not_found(whole, store)
        done += len(points)
        progress(done)

    problems += [f"The id {id} belongs to {n} memories." for id, n in ids.items() if n > 1]
    if problems or not store.collection.exclusive:
        return problems
    return _index_faults(times, tags, store)


def _index_faults(times: list[str], tags: Counter[str], store: OpenStore[Collection]) -> list[str]:
    problems = []
    for tag, number in tags.items():
        indexed = store.collection.count(Where(tags=(tag,)))
        if indexed != number:
            problems.append(f"The index of tags has {indexed} of {number} memories of one tag.")
    by_time = [
        hit.payload["timestamp"] for hit in store.collection.newest(len(times) + 1, EVERYWHERE)
    ]
    if by_time != sorted(times, reverse=True):
        problems.append("The index of times does not agree with the times of the memories.")
    if len(times) < store.manifest.memories:
        problems.append(f"{len(times)} of {store.manifest.memories} memories can be read.")
    return problems


def _fault(point: Point, store: OpenStore[Collection]) -> str | None:
    try:
        memory = store.memory(Hit(point.id, point.payload))
    except StorageError:
        return "it is not what was stored"
    if memory.agent_id != store.manifest.agent:
        return "it belongs to another agent"
    if timestamp_text(memory.timestamp) != point.payload["timestamp"]:
        return "its time is not in the stored form"
    if store.manifest.words and point.words != words(memory.content):
        return "its words are not those of its text"
    if len(point.vector) != store.manifest.embedding.dimensions:
        return f"its vector has {len(point.vector)} numbers"
    length = math.hypot(*point.vector)
    if not abs(length - 1) <= _TOLERANCE:  # also when it is not a number
        return "its vector is not whole"
    return None


def _not_found(points: list[Point], store: OpenStore[Collection]) -> list[str]:
    """Those that a search by their own vector, through the index of ids, does not find."""
    problems = []
    for point in points:
        [hits] = store.collection.nearest(point.vector, 1, [Where(ids=(point.payload["id"],))])
        if not hits or hits[0].similarity < 1 - _TOLERANCE:
            if store.collection.retrieve([point.id]) != [point]:
                continue  # another has changed it
            problems.append(f"Memory {point.payload['id']}: its own vector does not find it.")
    return problems
