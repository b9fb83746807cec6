"""Where the store of an agent is on this machine, and how a call gets at it: through the one door
of this process, and behind it under the lock of the store.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import TypeVar

from ..errors import REPAIR, UNCHANGED, DamagedStoreError, ReplacedStoreError, explained
from ..limits import LOCK_SECONDS
from ..store import Store, StoreInfo
from ..workers import run_blocking
from . import disk
from . import info as manifests
from .door import Door, door_of
from .folder import AgentFolder, clear_debris, require_expected, require_space
from .info import Manifest
from .lock import Lock, take_lock
from .shard import Shard
from .store import FileStore

T = TypeVar("T")


class FileBackend:
    """The store in `folder`, as `Backend` says. A call waits at most `lock_seconds` for others."""

    def __init__(self, folder: AgentFolder, lock_seconds: float) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds

    async def info(self) -> Manifest | None:
        """As `Backend` says."""
        return await run_blocking(lambda _: self.folder.manifest())

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """As `Backend` says."""
        wanted = create or expect

        def operation(visit: Visit) -> T | None:
            with explained(UNCHANGED):
                store = visit.store(create)
                if store is None:
                    return None
                if wanted and store.info.model != wanted.model:
                    raise ReplacedStoreError("The store was given another model meanwhile.")
                return work(store)

        return await self._door().run(operation, self.lock_seconds)

    async def close(self) -> None:
        """Return when this process has nothing of the store open; the next call opens it again."""
        await run_blocking(lambda _: self._door().close())

    def _door(self) -> "Door[Visit]":
        def enter(deadline: float, cancelled: Event) -> Visit:
            with explained(UNCHANGED):
                return Visit(self.folder, deadline, cancelled)

        return door_of(self.folder.database, enter)


class Visit:
    """The store of `folder` from when its lock is taken, for which it waits until `deadline` (of
    time.monotonic) or until `cancelled` is set, to when that is released.
    """

    def __init__(self, folder: AgentFolder, deadline: float, cancelled: Event) -> None:
        self._folder = folder
        self._lock: Lock | None = None
        self._held = ExitStack()
        self._store: FileStore | None = None
        folder.require_ours()
        folder.require_writable()
        if os.path.lexists(folder.database):
            self._take_lock(deadline, cancelled)

    def store(self, create: StoreInfo | None) -> FileStore | None:
        """The store; None if there is none and none is to be made as `create` says."""
        if self._store and self._store.is_open:
            require_space(self._database)
            return self._store
        if not self._lock and create:
            self._folder.make()
            self._take_lock(time.monotonic() + LOCK_SECONDS, Event())
        if not self._lock:
            return None
        require_space(self._database)
        manifest = self._folder.manifest_in(self._database)
        if manifest is None or not (self._database / manifest.shard).exists():
            self._require_no_memories(self._database)
        if manifest is None and create:
            manifest = _create(self._database, create)
        if manifest is None:
            return None
        self._store = FileStore(self._database, manifest)
        clear_debris(self._database, keep=manifest.shard)
        return self._store

    def wanted(self) -> bool:
        """Whether anyone else waits for the lock."""
        try:
            return self._lock is not None and self._lock.wanted()
        except FileNotFoundError:  # the folder was deleted
            return True

    def still_valid(self) -> bool:
        """Whether the store is as this visit left it."""
        if not (self._store and self._store.is_open):
            return False
        try:
            return self._store.is_as_left(self._folder.database)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the store, let go of the lock."""
        with self._held:
            if self._store:
                self._store.close()
                with suppress(FileNotFoundError):  # deleted meanwhile
                    disk.make_private(self._database / self._store.info.shard)

    def _take_lock(self, deadline: float, cancelled: Event) -> None:
        self._database = self._held.enter_context(disk.pinned(self._folder.database))
        self._lock = self._held.enter_context(take_lock(self._database, deadline, cancelled))

    def _require_no_memories(self, database: Path) -> None:
        """Where no manifest names a shard that is there, nothing may be but what an interrupted
        creation leaves: unfinished work, or a shard without memories.
        """
        for folder in require_expected(self._folder, database):
            if not any(path.is_file() for path in folder.rglob("*")):
                continue  # what remains of one that was being removed
            shard = Shard(folder, words=False)
            try:
                count = shard.count()
            finally:
                shard.close()
            if count:
                raise DamagedStoreError(
                    f"The store of {self._folder.agent_id!r} has lost its {manifests.NAME}, or has "
                    f"an old one: it does not name {folder.name}, which holds {count} memories. "
                    f"{REPAIR}"
                )


def _create(database: Path, info: StoreInfo) -> Manifest:
    manifest = Manifest.model_validate(
        info.model_dump(by_alias=True, include={"agent", "model", "endpoint", "words", "created"})
    )
    target = database / manifest.shard
    disk.remove(target)  # an empty one, of a creation that was interrupted before its manifest
    unfinished = target.with_suffix(".tmp")
    disk.remove(unfinished)
    Shard.create(unfinished, manifest.model.dimensions, manifest.words)
    disk.settle(unfinished)
    unfinished.rename(target)
    manifests.write(database, manifest)
    return manifest
