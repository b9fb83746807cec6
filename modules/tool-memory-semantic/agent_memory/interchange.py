"""Memories in files: what `export` writes and `import` reads."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from memory_semantic import InputError

from .formats import ImportFileError, entries

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage

# What a search adds to a memory.
_READ_OTHERWISE = ("score",)


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


async def keep_apart(
    memories: Sequence["Memory"], tags: Sequence[str], storage: "MemoryStorage"
) -> None:
    """Take the `tags` of an import from texts that the store has without them, so that to forget by
    such a tag undoes no more than the import.
    """
    known = await storage.run(lambda store: store.get(memory.key for memory in memories), {})
    for memory in memories:
        if there := known.get(memory.key):
            memory.tags = [tag for tag in memory.tags if tag not in tags or tag in there.tags]


def read(
    data: bytes,
    name: str,
    storage: "MemoryStorage",
    tags: Sequence[str] = (),
    pin: bool = False,
    written: datetime | None = None,
) -> "Read":
    """The memories in a file of our own, to be restored to `storage`. The file is an export, other
    JSON, YAML of the dev-memory bundle, or text with one memory per line; packed with gzip or not;
    in UTF-8, or in UTF-16 or UTF-32 with a byte order mark. All get `tags`, and with `pin` are
    pinned; those without a time get that of the file, when it was `written`.

    Raises ImportFileError, naming each place, if anything in the file cannot become a memory.
    """
    try:
        found = read_entries(
            (Entry(place, fields, written) for place, fields in entries(data, name)), storage, tags
        )
    except RecursionError:
        raise ImportFileError(["It is nested too deeply to hold memories."]) from None
    if found.faults:
        raise ImportFileError(found.faults)
    for _, memory in found.memories:
        memory.pinned = memory.pinned or pin
    return found


class Entry(NamedTuple):
    """What may be a memory: its place in a file, or its kind; its fields; and when it was written,
    if only its file tells.
    """

    place: str
    fields: Any
    written: datetime | None = None


class Read(NamedTuple):
    """Memories, each with its place; how many credentials were masked; the fields that were left
    out, each with how many have it; and a sentence for each entry that cannot become a memory.
    """

    memories: "list[tuple[str, Memory]]"
    masked: int
    left: Counter[str]
    faults: list[str]


def read_entries(found: Iterable[Entry], storage: "MemoryStorage", tags: Sequence[str]) -> Read:
    """The memories for `storage` that the entries hold."""
    memories: list[tuple[str, Memory]] = []
    faults, masked, left = [], 0, Counter[str]()
    for place, fields, written in found:
        try:
            memory, number = storage.memory_from(fields, tags)
        except InputError as error:
            faults.append(f"{place}: {error}")
            continue
        if written and fields.get("timestamp") is None:
            memory.timestamp = written
            memory.model_fields_set.discard("timestamp")  # a known text keeps the store's time
        memories.append((place, memory))
        masked += number
        left.update(_not_understood(fields, memory))
    return Read(memories, masked, left, faults)


def _not_understood(fields: Mapping[str, Any], memory: "Memory") -> Iterator[str]:
    """The names of fields that tell something which the memory does not have."""
    from memory_semantic import exchange

    for name, value in fields.items():
        if name in exchange.FIELDS:
            lost = value and (memory.id != value if name == "id" else not getattr(memory, name))
        else:
            lost = value not in (None, "", [], {}) and name not in _READ_OTHERWISE
        if lost:
            yield name
