"""What capture could not store yet: it waits in `waiting.jsonl`, in the agent's folder under this
machine's storage root, wherever the store is kept.

A line is a memory as an export has it, masked. The file has a lock of its own, so that no session
loses what another adds. A text that two of them store is one memory.
"""

import asyncio
import json
import time
from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from .check import Item
from .errors import UNCHANGED, InputError, RefusedTextError, StorageError, explained
from .files import disk
from .files.door import Lock, take_lock
from .limits import LOCK_SECONDS
from .memory import Memory, Speaker
from .workers import run_blocking

if TYPE_CHECKING:
    from .storage import MemoryStorage

# What is said in an outage. After more, nobody reads that nothing is stored.
MAX_WAITING = 100
# How long storing them may hold the lock: others need it, too, before they give up.
_STORE_SECONDS = LOCK_SECONDS / 2


class Waiting:
    """The memories that wait to be stored in `storage`. Methods raise StorageError."""

    def __init__(self, storage: "MemoryStorage") -> None:
        self._storage = storage
        self.path = storage.folder.path / "waiting.jsonl"

    def memories(self) -> list[Memory]:
        """Those that wait, in the order of their coming."""
        memories = []
        with explained(UNCHANGED), suppress(FileNotFoundError):
            self._storage.folder.require_ours()
            for line in self.path.read_bytes().splitlines():
                with suppress(ValueError, RecursionError):  # somebody has edited it
                    memories.append(self._storage.memory_from(json.loads(line))[0])
        return memories

    def add(self, items: Iterable[Item], said_by: Speaker | None = None) -> None:
        """Let texts with tags and metadata wait: all or, with an error, none. On disk on return."""
        names = ("content", "tags", "metadata", "said_by")
        fields = (dict(zip(names, (*each, said_by), strict=True)) for each in items)
        new = [self._storage.memory_from(each)[0] for each in fields]
        folder = self._storage.folder
        with explained(UNCHANGED):
            folder.require_ours()
            folder.make_outermost()
            with self._lock():
                folder.hide()
                memories = [*self.memories(), *new]
                if len(memories) > MAX_WAITING:
                    raise StorageError(f"{MAX_WAITING} texts already wait to be stored.")
                self._write(memories)

    def drop(self, ids: Collection[str]) -> None:
        """Forget those with these ids."""
        with explained(UNCHANGED), self._lock():
            self._write(memory for memory in self.memories() if memory.id not in ids)

    async def store(self) -> list[Memory]:
        """Store them and return them; none if another session is at it, or the file is unusable.
        Those that the embeddings service refuses go on waiting.

        Raises TimeoutError after half of the time that a call waits for a lock.
        """
        with ExitStack() as held:
            try:
                if not self.path.exists():
                    return []
                held.enter_context(self._lock(0))
                waiting = await run_blocking(lambda: self.memories())
            except (OSError, StorageError):
                return []
            async with asyncio.timeout(_STORE_SECONDS):
                try:
                    await self._restore(waiting)
                except RefusedTextError as error:
                    refused = [memory for memory in waiting if memory.key in error.keys]
                    waiting = [memory for memory in waiting if memory.key not in error.keys]
                    await self._restore(waiting)
                    self._write(refused)
                    return waiting
                except InputError:  # one is stored, and has as many tags as one can have
                    for memory in waiting:
                        with suppress(InputError):
                            await self._restore([memory])
            self.path.unlink()
            return waiting

    async def _restore(self, memories: list[Memory]) -> None:
        stored = await self._storage.restore(memories) if memories else []
        for memory, its in zip(memories, stored, strict=True):
            memory.id = its.id

    def _lock(self, seconds: float = LOCK_SECONDS) -> Lock:
        return take_lock(self._storage.folder.path, time.monotonic() + seconds)

    def _write(self, memories: Iterable[Memory]) -> None:
        lines = (json.dumps(memory.dict_for_storage()) + "\n" for memory in memories)
        disk.write_whole(self.path, "".join(lines).encode())
