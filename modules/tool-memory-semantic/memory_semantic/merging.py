"""What happens to a new memory if the store already knows its text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from .errors import UNCHANGED, InputError, StorageError
from .identity import of_project
from .limits import MAX_TAGS
from .memory import Memory
from .points import Point, point_of

# What a store holds of a text, given what is stored now and what is known of it.
Merge = Callable[[Memory, Memory | None], Memory]

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
    if len(tags) > MAX_TAGS:
        raise InputError(
            f"With the tags it already has, this memory would have {len(tags)}; at most {MAX_TAGS} "
            "are allowed.",
            UNCHANGED,
            "Store it again with fewer new tags.",
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
            "quote": new.quote or known.quote,
            "replaced_by": replaced_by,
            "expires": expires,
        }
    )


def restate(new: Memory, known: Memory | None) -> Memory:
    """Like `merge`, for a text that is said now: whatever had replaced it, it holds again,
    until the time that is said now; but only the user ends what the user said, or changes where it
    holds: said in two projects, it holds in all. A rule that was replaced is no rule by that, nor
    is one that has expired, unless the user says it.
    """
    merged = merge(new, known)
    kept = known is not None and known.of_user and not new.by_user
    expired = known is not None and known.expired(new.timestamp)
    ended = known is not None and (known.replaced_by or (expired and kept))
    pinned = new.pinned or (merged.pinned and not ended)
    expires = known.expires if known and kept and not expired else new.expires
    change = {"replaced_by": None, "expires": expires, "pinned": pinned}
    holds = known is not None and not (known.replaced_by or (expired and new.by_user))
    if known and holds and known.of_user and known.project_id != new.project_id:
        change["metadata"] = of_project(merged.metadata, known.metadata if kept else {})
    return merged.model_copy(update=change)


@dataclass(frozen=True)
class Stored:
    """What became of one stored text. `known` means that the memory existed and was merged;
    `changed` is False if that made no difference. `model` is the store's embedding model.
    `replaced` is the id of the memory that it now replaces; `refused`, of the one that it does not
    replace, because that is the user's. `masked` is how many credentials were masked in it;
    `new_store` means that there was no store before; `alike` are the memories that hold and are
    most alike, if they were asked for.
    """

    id: str
    known: bool
    changed: bool
    model: str
    replaced: str = ""
    refused: str = ""
    masked: int = 0
    new_store: bool = False
    alike: Sequence[Memory] = ()


def merge_all(
    new: Sequence[Memory], known: Mapping[UUID, Memory], model: str, merge: Merge
) -> tuple[list[Point], list[Stored]]:
    """The points to write when `new` are stored in order and some texts are `known`, and what
    becomes of each. Raises StorageError for a memory that is not known and has no vector.
    """
    keys = [memory.key for memory in new]  # once, because each is worked out from the text
    merged: dict[UUID, Memory] = {}
    for key, memory in zip(keys, new, strict=True):
        merged[key] = merge(memory, merged.get(key) or known.get(key))
    if not all(memory.embedding or key in known for key, memory in merged.items()):
        raise StorageError("A memory was deleted while this call was running.")
    points = [point_of(memory, _changed(memory, known.get(key))) for key, memory in merged.items()]
    points = [point for point in points if point.changed is None or point.changed]
    changed = {point.key for point in points}
    stored = [Stored(merged[key].id, key in known, key in changed, model) for key in keys]
    return points, stored


def _changed(memory: Memory, known: Memory | None) -> set[str] | None:
    if known is None:
        return None
    fields, before = memory.dict_for_storage(), known.dict_for_storage()
    names = fields.keys() | before.keys()
    return {name for name in names if fields.get(name) != before.get(name)}
