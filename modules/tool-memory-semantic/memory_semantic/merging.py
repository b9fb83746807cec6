"""What happens to a new memory if the store already knows its text or its id."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from .check import NewMemory
from .errors import UNCHANGED, InputError, StorageError
from .limits import CAPTURED, MAX_TAGS
from .memory import Memory, new_memory_id
from .store import Merge, Store, Stored, StoreInfo, Where

# From the weakest to the strongest. What a page said stays so, even if the agent says it again; a
# person's command, which leaves no speaker, vouches for a text.
_STRENGTH = ("agent", "tool", None, "user")


def merge(new: Memory, known: Memory | None) -> Memory:
    """What a store holds after `new` is stored and its text was `known`: the known id, all tags,
    the pin of either, the stronger of who said it, and the later time with its metadata, what
    replaced it, when it expires and what a newer version adds.
    Raises InputError for too many tags.
    """
    if known is None:
        return new
    tags = dict.fromkeys([*known.tags, *new.tags])
    if not (CAPTURED in known.tags and CAPTURED in new.tags):
        tags.pop(CAPTURED, None)
    if len(tags) > MAX_TAGS:
        raise InputError(
            f"With the tags it already has, this memory would have {len(tags)}; at most {MAX_TAGS} "
            f"are allowed. {UNCHANGED} Store it again with fewer new tags."
        )
    latest = new if new.timestamp > known.timestamp else known
    replaced_by, expires = latest.replaced_by, latest.expires
    added = new.model_extra if new.timestamp >= known.timestamp else None
    if new.timestamp == known.timestamp:  # a copy, which may be of later
        replaced_by, expires = new.replaced_by or replaced_by, new.expires or expires
    return known.model_copy(
        update={
            **(added or {}),
            "tags": list(tags),
            "timestamp": latest.timestamp,
            "metadata": latest.metadata,
            "embedding": new.embedding or known.embedding,
            "pinned": new.pinned or known.pinned,
            "said_by": max(new.said_by, known.said_by, key=_STRENGTH.index),
            "replaced_by": replaced_by,
            "expires": expires,
        }
    )


def restate(new: Memory, known: Memory | None) -> Memory:
    """Like `merge`, for a text that is said now: whatever had replaced it, it holds again,
    until the time that is said now; but only the user ends what the user said. A rule that was
    replaced is no rule by that.
    """
    merged = merge(new, known)
    pinned = new.pinned or (merged.pinned and not (known and known.replaced_by))
    kept = known is not None and known.of_user and not new.by_user
    expires = known.expires if known and kept else new.expires
    change = {"replaced_by": None, "expires": expires, "pinned": pinned}
    return merged.model_copy(update=change)


def relink(new: Memory, known: Memory | None) -> Memory:
    """The `known` memory, replaced by what replaces `new`, which has no vector."""
    return known.model_copy(update={"replaced_by": new.replaced_by}) if known else new


def repin(new: Memory, known: Memory | None) -> Memory:
    """The `known` memory, pinned if `new` is, which has no vector."""
    return known.model_copy(update={"pinned": new.pinned}) if known else new


def merge_all(
    new: Sequence[Memory], known: Mapping[UUID, Memory], info: StoreInfo, merge: Merge
) -> tuple[list[Memory], list[Stored]]:
    """The memories to write when `new` are stored in order and some texts are `known`, and what
    becomes of each. Raises StorageError for a memory that is not known and has no vector.
    """
    keys = [memory.key for memory in new]  # once, because each is worked out from the text
    merged: dict[UUID, Memory] = {}
    for key, memory in zip(keys, new, strict=True):
        merged[key] = merge(memory, merged.get(key) or known.get(key))
    if not all(memory.embedding for memory in merged.values()):
        raise StorageError("A memory was deleted while this call was running.")
    changed = {
        key
        for key, memory in merged.items()
        if key not in known or memory.dict_for_storage() != known[key].dict_for_storage()
    }
    stored = [
        Stored(merged[key].id, key in known, key in changed, info.model.model) for key in keys
    ]
    return [memory for key, memory in merged.items() if key in changed], stored


def adopt(store: Store, memories: Sequence[NewMemory]) -> Collection[UUID]:
    """Adapt the ids and times of memories that are being restored to what the store already holds.
    Returns the keys of the texts that it knows.
    """
    _rename_taken(store, memories)
    known = store.get(memory.key for memory in memories)
    for memory in memories:
        if not memory.dated and memory.key in known:
            memory.timestamp = known[memory.key].timestamp
    return known.keys()


def _rename_taken(store: Store, memories: Sequence[Memory]) -> None:
    """Give a new id to each memory whose id belongs to another text, in the store or among them."""
    ids = tuple(memory.id for memory in memories)
    there = [] if not ids else store.newest(2 * len(ids), Where(ids=ids))
    owners = {memory.id: memory.key for memory in there}
    for memory in memories:
        if owners.setdefault(memory.id, memory.key) != memory.key:
            memory.id = new_memory_id()
