"""What holds: which memory replaces which, and which are pinned.

The memory that was replaced names the text that replaced it. A memory that is stored holds, and is
replaced by none, so links never form a circle.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from .errors import MAYBE_STORED, UNCHANGED, InputError, explained
from .memory import Memory
from .merging import Stored, restate
from .store import Store


def replace(store: Store, memory_id: str, new: Memory) -> Stored:
    """Store `new` in place of the memory with this id, or of what has replaced it since; beside it
    if that is the user's, and `new` is not; pinned if that was. Raises InputError if there is none.
    """
    old = _to_replace(store, memory_id, new)
    [stored] = store.put([new], restate)
    if old is None:
        return stored
    if old.of_user and not new.by_user:
        return dataclasses.replace(stored, refused=old.id)
    with explained(MAYBE_STORED):
        link(store, [old], new)
        pin(store, [new] if old.pinned else [])
    return dataclasses.replace(stored, replaced=old.id)


def _to_replace(store: Store, memory_id: str, new: Memory) -> Memory | None:
    found = store.with_ids([memory_id])
    if not found or found[0].key == new.key:
        what = "It is this text's own" if found else "No memory has it"
        raise InputError(f"The id to replace is {memory_id}. {what}. {UNCHANGED}")
    old = store.current(found[0])
    return None if old.key == new.key else old


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
