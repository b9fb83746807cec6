"""The memories that `import` makes of all that it reads."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from memory_semantic import InputError, limits

from .formats import Entry

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage


def read(
    found: Iterable[Entry], storage: "MemoryStorage", tags: Sequence[str] = (), pin: bool = False
) -> tuple[list[tuple[str, "Memory"]], int, Counter[str]]:
    """The memories that the entries hold, to be restored to `storage`, each with its place; how
    many credentials were masked; and the fields that were left out, with how many have each. All
    get `tags`, with `pin` they are pinned, and those without a time get that of their file. Raises
    InputError, with a line for each place, if an entry cannot become a memory.
    """
    from memory_semantic import exchange

    memories: list[tuple[str, Memory]] = []
    faults, masked, left = list[str](), 0, Counter[str]()
    try:
        for place, fields, written, tag in found:
            try:
                memory, number = storage.memory_from(fields, [*tags, *([tag] if tag else [])])
            except InputError as error:
                faults.append(f"{place}: {error}")
                continue
            if written and fields.get("timestamp") is None:
                memory.timestamp = written
                memory.model_fields_set.discard("timestamp")  # a known text keeps the store's time
            if tag:
                memory.metadata = {"stored_by": "agent-memory import", "kind": place}
            memory.pinned = memory.pinned or pin
            memories.append((place, memory))
            masked += number
            others = fields.keys() - {*exchange.FIELDS, "score"}  # which a search adds
            left.update(name for name in others if fields[name])
    except RecursionError:
        raise InputError("It is nested too deeply to hold memories.") from None
    if faults:
        raise InputError("\n".join(faults))
    return memories, masked, left


async def fit(
    memories: Sequence[tuple[str, "Memory"]], undo: Collection[str], storage: "MemoryStorage"
) -> int:
    """Fit the memories to the store: a text that it has gets none of the tags that `undo` the
    import, so that this takes back no more than was brought; and those hold whose corrections are
    neither there nor among them. Returns how many these are. Raises InputError, naming each
    place, if a text would have too many tags.
    """
    brought = {memory.key for _, memory in memories}
    linked = {memory.replaced_by for _, memory in memories if memory.replaced_by}
    known = await storage.run(lambda store: store.get(brought | linked), {})
    missing, loose = linked - brought - known.keys(), 0
    for place, memory in memories:
        if there := known.get(memory.key):
            memory.tags = [tag for tag in memory.tags if tag not in undo]
            if (number := len({*memory.tags, *there.tags})) > limits.MAX_TAGS:
                raise InputError(f"{place}: with the tags in the store, it would have {number}.")
        if memory.replaced_by in missing:
            memory.replaced_by, loose = None, loose + 1
    return loose
