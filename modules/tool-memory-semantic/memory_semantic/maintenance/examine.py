"""The full check of a store, which compares what no single call can afford to, and the search for
traces of forgotten memories.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .. import ranking
from ..errors import DamagedStoreError, StorageError
from ..files.store import FileStore
from ..memory import MEMORY_ID, Memory, timestamp_text
from ..store import Question, Record, Store, Where, memory_of

# A vector is kept as float16 and normalised: its length, and its cosine with itself, may differ
# from 1 by at most this.
_TOLERANCE = 2e-3
# How many texts of one time may have the same vector before one is also looked for by its id.
_ALIKE = 3

# Looks for the ids of all forgotten memories, and for the beginnings of this many of their texts:
# each is one more pass over the files. Shorter texts may occur by chance. The engine compresses
# each memory separately, which leaves ids and nearly all beginnings readable.
_TEXTS = 100
_TEXT_BYTES = 16
_ID = re.compile(MEMORY_ID.pattern.encode())
_HOLE = bytes(4096)


def examine(store: Store, progress: Callable[[int], None] = lambda done: None) -> list[str]:
    """The faults of an open store, a sentence each. Calls `progress` with how many memories are
    done.

    Compares every text with its hash, checks that every vector is possible and finds its own
    memory, and, on this machine, compares the indexes with a scan of everything.
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
    ids = Counter(memory.id for memory in whole)
    problems += [f"The id {id} belongs to {n} memories." for id, n in ids.items() if n > 1]
    # On a server, others may change the memories during a comparison of the indexes.
    return problems or (list(_index_faults(whole, store)) if isinstance(store, FileStore) else [])


def traces(folder: Path, forgotten: Sequence[Memory], living: Sequence[Memory]) -> list[Path]:
    """The files in `folder` in which the id or the text of a `forgotten` memory can still be read.

    What a living memory says too does not count.
    """
    said = "\0".join(memory.content for memory in living).encode()
    ids = {memory.id.encode() for memory in forgotten} - set(_ID.findall(said))
    texts = {memory.content.encode()[:_TEXT_BYTES] for memory in forgotten[:_TEXTS]}
    texts = {text for text in texts if len(text) == _TEXT_BYTES and text not in said}
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes().replace(_HOLE, b"")  # most of a file is holes
            if not ids.isdisjoint(_ID.findall(content)) or any(text in content for text in texts):
                found.append(path)
    return found


def _fault(record: Record, store: Store) -> str | None:
    try:
        memory = memory_of(record, store.info.agent)
    except StorageError:
        return "it is not what was stored"
    if memory.agent_id != store.info.agent:
        return "it belongs to another agent"
    if timestamp_text(memory.timestamp) != record.payload["timestamp"]:
        return "its time is not in the stored form"
    # This version stores more tokens of a text than 1.3.
    words = (ranking.indexed(memory.content), ranking.words(memory.content))
    if store.info.words and record.words not in words:
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


def _index_faults(memories: Sequence[Memory], store: FileStore) -> Iterator[str]:
    tags = Counter(tag for memory in memories for tag in memory.tags)
    for tag, number in tags.items():
        indexed = store.count(Where(tags=(tag,)))
        if indexed != number:
            yield f"The index of tags has {indexed} of {number} memories with one tag."
    times = [memory.timestamp for memory in store.newest(len(memories) + 1)]
    if times != sorted((memory.timestamp for memory in memories), reverse=True):
        yield "The index of times does not agree with the times of the memories."
    if len(memories) < store.info.memories:
        yield f"{len(memories)} of {store.info.memories} memories can be read."
