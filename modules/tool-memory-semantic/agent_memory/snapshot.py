"""A store that is read-only, read for an export: see `maintenance.Place.memories`."""

from collections.abc import Callable

from memory_semantic import Memory, MemoryStorage, maintenance


def read(storage: MemoryStorage, note: Callable[[str], None]) -> list[Memory]:
    """All memories, newest first; `note` is told of the copy that they are read from."""
    return maintenance.place(storage.backend).memories(note)[::-1]
