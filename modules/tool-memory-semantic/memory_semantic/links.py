"""What holds: which memory replaces which, and which are pinned.

The memory that was replaced names the text that replaced it. A memory that is stored holds, and is
replaced by none, so links never form a circle.
"""

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from .errors import MAYBE, UNCHANGED, InputError, explained
from .identity import of_project
from .memory import Memory
from .merging import Stored, restate
from .store import Store


def say(store: Store, memories: Sequence[Memory], now: datetime) -> list[Stored]:
    """Store memories that are said now: see `restate`. But what the user has corrected stays
    corrected, and what the user said does not end, unless it is the user who says so; else the
    result names what holds as `refused`.
    """
    holds: dict[UUID, Memory] = {}

    def merged(new: Memory, known: Memory | None) -> Memory:
        said = restate(new, known)
        if known is None or new.by_user:
            return said
        later = store.current(known)
        corrected = later.key != known.key
        if later.of_user and not later.expired(now) and (corrected or new.expires):
            holds[new.key] = later
        if not (corrected and new.key in holds):
            return said
        stays = {name: getattr(known, name) for name in ("replaced_by", "pinned", "expires")}
        return said.model_copy(update=stays)

    stored = store.put(memories, merged)
    return [
        dataclasses.replace(each, refused=holds[memory.key].id) if memory.key in holds else each
        for each, memory in zip(stored, memories, strict=True)
    ]


def replace(store: Store, memory_id: str, new: Memory, now: datetime) -> Stored:
    """Store `new` in place of the memory with this id, or of what has replaced it since; beside it
    if that is the user's, and `new` is not. It holds wherever that did, and is pinned if that was.
    Raises InputError if there is none.
    """
    old = _to_replace(store, memory_id, new)
    refused = old.id if old and old.of_user and not (new.by_user or old.expired(now)) else ""
    if old and not refused:
        new.pinned = new.pinned or (old.pinned and new.by_user)
        if new.project_id or new.said_by is None:  # a command is run in no project
            new.metadata = of_project(new.metadata, old.metadata)
    [stored] = say(store, [new], now)
    if old is None or refused or stored.refused:
        return dataclasses.replace(stored, refused=refused or stored.refused)
    with explained(MAYBE):
        link(store, [old], new)
    return dataclasses.replace(stored, replaced=old.id)


def _to_replace(store: Store, memory_id: str, new: Memory) -> Memory | None:
    found = store.with_ids([memory_id])
    if not found:
        raise not_there(memory_id)
    if found[0].key == new.key:
        raise not_there(memory_id, "It is this text's own")
    old = store.current(found[0])
    return None if old.key == new.key else old


def not_there(memory_id: str, what: str = "No memory has it") -> InputError:
    """The error for an id that cannot be replaced, and `what` is wrong with it."""
    return InputError(f"The id to replace is {memory_id}. {what}. {UNCHANGED}")


def link(store: Store, olds: Sequence[Memory], new: Memory | None) -> None:
    """Let `new` replace all of `olds`; with None, nothing replaces them, and they hold again."""
    _change(store, olds, replaced_by=new.key if new else None)


def pin(store: Store, memories: Sequence[Memory], pinned: bool = True) -> None:
    """Pin these memories, or no longer."""
    _change(store, memories, pinned=pinned)


def _change(store: Store, memories: Sequence[Memory], **fields: Any) -> None:
    if memories:
        store.put(memories, lambda new, known: (known or new).model_copy(update=fields))


def replaced(store: Store, memories: Sequence[Memory]) -> list[Memory]:
    """What these memories replace, newest first."""
    keys = [str(memory.key) for memory in memories]
    return store.newest(where=[("replaced_by", "any", keys)]) if keys else []


def relinked(store: Store, doomed: Sequence[Memory]) -> list[Memory]:
    """The memories whose links lead to those that are to be deleted, as they must be written: what
    these replaced is replaced by what had replaced them, or holds again.
    """
    gone = {memory.key: memory for memory in doomed}
    changed = []
    for memory in replaced(store, doomed):
        if memory.key not in gone:
            last = store.current(memory, gone)
            later = None if last is memory else last.key
            changed.append(memory.model_copy(update={"replaced_by": later}))
    return changed
