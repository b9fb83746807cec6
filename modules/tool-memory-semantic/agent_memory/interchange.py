"""The memories that `import` makes of all that it reads."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memory_semantic import InputError, limits

from .formats import Entry

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage


class Item(NamedTuple):
    """A memory and its place in a file; `own` if that is an export of the same agent's."""

    place: str
    memory: "Memory"
    own: bool


def read(
    found: Iterable[Entry], storage: "MemoryStorage", tags: Sequence[str] = ()
) -> tuple[list[Item], int, Counter[str]]:
    """The memories that the entries hold, to be restored to `storage`; how many credentials were
    masked; and the fields that were left out, with how many have each. All get `tags`, and those
    without a time get that of their file. Raises InputError, with a line for each place, if an
    entry cannot become a memory.
    """
    from memory_semantic import exchange

    items: list[Item] = []
    faults, masked, left = list[str](), 0, Counter[str]()
    try:
        for place, fields, written, tag, agent in found:
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
            items.append(Item(place, memory, bool(tag) or agent == storage.agent_id))
            masked += number
            others = fields.keys() - {*exchange.FIELDS, "score"}  # which a search adds
            left.update(name for name in others if fields[name])
    except RecursionError:
        raise InputError("It is nested too deeply to hold memories.") from None
    if faults:
        raise InputError("\n".join(faults))
    return items, masked, left


async def fit(
    items: Sequence[Item], undo: Collection[str], storage: "MemoryStorage", believed: bool
) -> int:
    """Fit the memories to the store: a file of others that is not `believed` makes no rules, and
    does not change what replaces a known text and when it expires; a text that the store has gets
    none of the tags that `undo` the import, so that this takes back no more than was brought; and
    those hold whose corrections are neither there nor among them. Returns how many these are.
    Raises InputError, naming each place, if a text would have too many tags.
    """
    brought = {memory.key for _, memory, _ in items}
    linked = {memory.replaced_by for _, memory, _ in items if memory.replaced_by}
    known = await storage.run(lambda store: store.get(brought | linked), {})
    missing, loose = linked - brought - known.keys(), 0
    for place, memory, own in items:
        if there := known.get(memory.key):
            memory.tags = [tag for tag in memory.tags if tag not in undo]
            if (number := len({*memory.tags, *there.tags})) > limits.MAX_TAGS:
                raise InputError(f"{place}: with the tags in the store, it would have {number}.")
        if not (own or believed):
            memory.pinned = False
            memory.said_by = None if memory.said_by == "user" else memory.said_by
            memory.replaced_by = there and there.replaced_by
            memory.expires = there.expires if there else memory.expires
        elif memory.replaced_by in missing:
            memory.replaced_by, loose = None, loose + 1
    return loose
