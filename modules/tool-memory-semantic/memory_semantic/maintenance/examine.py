"""The full check of a store: what no single call can afford to compare. What a repair can mend in a
store that can be read: ids that two memories share. And what is left of what was forgotten.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .. import ranking
from ..errors import StorageError
from ..files.store import FileStore
from ..limits import ALL
from ..memory import MEMORY_ID, Memory, timestamp_text
from ..store import Backend, Question, Record, Store, Where, memory_of

# A vector is kept as float16 and normalised: its length, and its cosine with itself, may differ
# from 1 by this much and no more.
_TOLERANCE = 2e-3
# So many texts of one moment may have the same vector before one is looked for by its id, too.
_ALIKE = 3

# The id of every forgotten memory is looked for, and the beginning of the text of so many: each of
# these is one more pass over the files. Shorter texts may stand in them by chance. The engine
# compresses each memory by itself, which leaves ids and nearly all beginnings as they are.
_TEXTS = 100
_TEXT_BYTES = 16
_ID = re.compile(MEMORY_ID.pattern.encode())
_HOLE = bytes(4096)


def examine(store: Store, progress: Callable[[int], None] = lambda done: None) -> list[str]:
    """What is wrong with an open store, a sentence each; empty if nothing is. `progress` is told
    how many memories are done.

    Compares every text with its hash, every vector with what a vector can be and with what a
    search by it finds, and, on this machine, the indexes with a scan of everything.
    """
    problems: list[str] = []
    whole: list[Memory] = []
    done = 0
    for records in store.scan():
        for record in records:
            fault = _fault(record, store)
            if fault:
                problems.append(f"Memory {record.payload.get('id') or record.key}: {fault}.")
                continue
            memory = memory_of(record, store.info.agent)
            if not _finds_itself(memory, store):
                problems.append(f"Memory {memory.id}: its own vector does not find it.")
            memory.embedding = []
            whole.append(memory)
        done += len(records)
        progress(done)
    ids = Counter(memory.id for memory in whole)
    problems += [f"The id {id} belongs to {n} memories." for id, n in ids.items() if n > 1]
    # On a server others change what is compared.
    return problems or (list(_index_faults(whole, store)) if isinstance(store, FileStore) else [])


async def renew_ids(backend: Backend) -> int:
    """Give new ids to all but the oldest of the memories that share one. Returns how many got
    one.
    """

    def work(store: Store) -> int:
        owners: dict[str, Memory] = {}
        memories = reversed(store.newest(ALL))
        others = [m.key for m in memories if owners.setdefault(m.id, m) is not m]
        return store.renew_ids(others) if others else 0

    return await backend.run(work) or 0


def traces(folder: Path, forgotten: Sequence[Memory], living: Sequence[Memory]) -> list[Path]:
    """The files in `folder` in which an id of `forgotten`, or a text, can still be read.

    What a living memory says as well does not count.
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
    # This version stores more of a text than 1.3.
    words = (ranking.indexed(memory.content), ranking.words(memory.content))
    if store.info.words and record.words not in words:
        return "its words are not those of its text"
    if len(record.vector) != store.info.model.dimensions:
        return f"its vector has {len(record.vector)} numbers"
    if not abs(math.hypot(*record.vector) - 1) <= _TOLERANCE:  # also when it is not a number
        return "its vector is not whole"
    return None


def _finds_itself(memory: Memory, store: Store) -> bool:
    """Whether a search by its own vector, through an index, finds it."""
    question = Question(memory.embedding)
    then = Where(since=memory.timestamp, until=memory.timestamp)
    try:
        for where, limit in ((then, _ALIKE), (Where(ids=(memory.id,)), _ALIKE)):
            [found] = store.nearest(question, [where], limit)
            for each in found:
                if each.key == memory.key:
                    return (each.score or 0) >= 1 - _TOLERANCE
    except StorageError:  # it does not find all
        pass
    return store.get([memory.key]).get(memory.key) != memory  # another has changed it


def _index_faults(memories: Sequence[Memory], store: FileStore) -> Iterator[str]:
    tags = Counter(tag for memory in memories for tag in memory.tags)
    for tag, number in tags.items():
        indexed = store.count(Where(tags=(tag,)))
        if indexed != number:
            yield f"The index of tags has {indexed} of {number} memories of one tag."
    times = [memory.timestamp for memory in store.newest(len(memories) + 1)]
    if times != sorted((memory.timestamp for memory in memories), reverse=True):
        yield "The index of times does not agree with the times of the memories."
    if len(memories) < store.info.memories:
        yield f"{len(memories)} of {store.info.memories} memories can be read."
