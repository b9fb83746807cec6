"""Memories in files: what `export` writes and `import` reads."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_semantic import InputError

from .formats import ImportFileError, entries

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage


def export_lines(agent: str, memories: Sequence["Memory"]) -> Iterator[bytes]:
    """The lines of an export of `memories`: see `memory_semantic.exchange`."""
    from memory_semantic import exchange

    yield exchange.Header(agent=agent, exported=datetime.now(UTC), memories=len(memories)).line()
    for memory in memories:
        yield exchange.line_of(memory.dict_for_storage())


async def drop_open_links(memories: Sequence["Memory"], storage: "MemoryStorage") -> int:
    """Let those hold whose corrections are neither among these memories nor in the store, or lead
    back to them; returns how many these are.
    """
    by_key = {memory.key: memory for memory in memories}
    circles = 0
    for memory in memories:
        later, passed = memory, {memory.key}
        while later and later.replaced_by and later.replaced_by not in passed:
            passed.add(later.replaced_by)
            later = by_key.get(later.replaced_by)
        if later and later.replaced_by == memory.key:
            memory.replaced_by, circles = None, circles + 1
    linked = {memory.replaced_by for memory in memories} - {memory.key for memory in memories}
    keys = [key for key in linked if key]
    present = await storage.run(lambda store: store.get(keys).keys(), ()) if keys else ()
    loose = [memory for memory in memories if memory.replaced_by in {*keys}.difference(present)]
    for memory in loose:
        memory.replaced_by = None
    return circles + len(loose)


def read(
    data: bytes, name: str, storage: "MemoryStorage", tags: Sequence[str] = (), pin: bool = False
) -> tuple[list[tuple[str, "Memory"]], int]:
    """The memories in a file, each with its place there, to be restored to `storage`. The file is
    an export, other JSON, YAML of the dev-memory bundle, or text with one memory per line; packed
    with gzip or not; in UTF-8, or in UTF-16 or UTF-32 with a byte order mark. All get `tags`,
    and with `pin` are pinned.

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
                memory.pinned = memory.pinned or pin
                found.append((place, memory))
                masked += number
    except RecursionError:
        raise ImportFileError(["It is nested too deeply to hold memories."]) from None
    if faults:
        raise ImportFileError(faults)
    return found, masked
