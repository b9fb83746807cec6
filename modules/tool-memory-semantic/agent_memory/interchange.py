"""The memories that `import` makes of all that it reads."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from memory_semantic import InputError, limits

from .formats import Entry

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage


def read(
    found: Iterable[Entry], storage: "MemoryStorage", tags: Sequence[str] = (), pin: bool = False
) -> tuple[list[tuple[Entry, "Memory"]], list[str], int, Counter[str]]:
    """The memories that the entries hold, to be restored to `storage`; a sentence for each that
    holds none; how many credentials were masked; and the fields that were left out, with how many
    have each. All get `tags`, with `pin` they are pinned, and those without a time get that of
    their file. Raises InputError, with a line for each place, if there are only faults.
    """
    from memory_semantic import exchange

    memories: list[tuple[Entry, Memory]] = []
    faults, masked, left = dict[str, str](), 0, Counter[str]()
    try:
        for entry in found:
            fields, own_tags = entry.fields, [entry.tag] if entry.tag else []
            try:
                if isinstance(fields, InputError):
                    raise fields
                memory, number = storage.memory_from(
                    fields, [*tags, *own_tags], newer=entry.agent is not None
                )
            except InputError as error:
                faults.setdefault(entry.place, f"{entry.place}: {error}")
                continue
            if entry.written and fields.get("timestamp") is None:
                memory.timestamp = entry.written
                memory.model_fields_set.discard("timestamp")  # a known text keeps the store's time
            if entry.tag:
                memory.metadata = {"stored_by": "agent-memory import", "kind": entry.kind}
            memory.pinned = memory.pinned or pin
            masked += number
            others = fields.keys() - {*exchange.FIELDS, "score"}  # which a search adds
            if not entry.agent:  # else a newer version has exported them, and they are kept
                left.update(name for name in others if fields[name])
            memories.append((entry, memory))
    except RecursionError:
        raise InputError("It is nested too deeply to hold memories.") from None
    if faults and not memories:
        raise InputError("\n".join(faults.values()))
    return memories, list(faults.values()), masked, left


async def fit(
    memories: Sequence[tuple[Entry, "Memory"]],
    doubted: Iterable["Memory"],
    storage: "MemoryStorage",
) -> int:
    """Fit the memories to the store: those that are `doubted` make no rules, and change neither
    what replaces a known text nor when it expires; a text that the store has does not get the tag
    by which the import is undone, so that this takes back no more than was brought; and those hold
    whose corrections are neither there nor among them. Returns how many these are. Raises
    InputError, naming the place, if a text would have too many tags.
    """
    brought = {memory.key for _, memory in memories}
    linked = {memory.replaced_by for _, memory in memories if memory.replaced_by}
    known = await storage.run(lambda store: store.get(brought | linked), {})
    for memory in doubted:
        there = known.get(memory.key)
        memory.pinned = False
        if memory.said_by == "user":
            memory.said_by, memory.quote = None, ""
        memory.replaced_by = there and there.replaced_by
        memory.expires = there.expires if there else memory.expires
    missing, loose = linked - brought - known.keys(), 0
    tags = {key: {*each.tags} for key, each in known.items()}
    for entry, memory in memories:
        if memory.key in known:
            memory.tags = [tag for tag in memory.tags if tag != entry.tag]
        together = tags.setdefault(memory.key, set())
        together.update(memory.tags)
        if (number := len(together)) > limits.MAX_TAGS:
            whose = "the store's" if memory.key in known else "the other's"
            raise InputError(f"{entry.place}: with {whose} tags, it would have {number}.")
        if memory.replaced_by in missing:
            memory.replaced_by, loose = None, loose + 1
    return loose
