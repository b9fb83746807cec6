"""Memories in files: what `export` writes and `import` reads.

The export is JSON Lines in UTF-8. The first line says what it is:

    {"format": "agent-memory", "version": 1, "agent": "sam", "exported": "…", "memories": 2}

and each other line is a memory, oldest first:

    {"id": "mem-a3f2b8c1d4e5", "timestamp": "…", "tags": ["database"], "content": "We chose …"}

`metadata`, an object of strings, follows if there is any. `timestamp` is RFC 3339. Vectors are left
out: the text is the truth, and the importing store makes its own. A file of such lines is also read
without the first one; only `content` is required.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_semantic import InputError

from .formats import FORMAT, VERSION, ImportFileError, entries
from .output import memory_json

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage


def export_lines(agent: str, memories: Sequence["Memory"]) -> Iterator[str]:
    """The lines of an export of `memories`, without their line breaks."""
    header = {"format": FORMAT, "version": VERSION, "agent": agent}
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    header |= {"exported": now, "memories": len(memories)}
    yield json.dumps(header, ensure_ascii=False)
    for memory in memories:
        yield json.dumps(memory_json(memory), ensure_ascii=False)


def read(
    data: bytes, name: str, storage: "MemoryStorage", tags: Sequence[str] = ()
) -> tuple[list[tuple[str, "Memory"]], int]:
    """The memories in a file, each with its place there, to be restored to `storage`. The file is
    an export, other JSON, YAML of the dev-memory bundle, or text with one memory per line; packed
    with gzip or not; in UTF-8, or in UTF-16 or UTF-32 with a byte order mark. All get `tags`.

    Also returns how many credentials were masked. Raises ImportFileError, naming each place, if
    anything in the file cannot become a memory.
    """
    found: list[tuple[str, Memory]] = []
    faults, masked = [], 0
    try:
        for place, fields in entries(data, name):
            try:
                memory, number = storage.memory_from(fields, tags)
            except InputError as error:
                faults.append(f"{place}: {error}")
            else:
                found.append((place, memory))
                masked += number
    except RecursionError:
        raise ImportFileError(["It is nested too deeply to hold memories."]) from None
    if faults:
        raise ImportFileError(faults)
    return found, masked
