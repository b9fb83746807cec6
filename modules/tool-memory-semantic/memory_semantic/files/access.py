"""How a call reaches a store on this machine: through this process's one door to it, and then
under the store's lock.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeVar

from ..errors import UNCHANGED, ReplacedStoreError, counted, explained
from ..store import StoreInfo
from ..workers import run_blocking
from . import disk
from . import info as manifests
from .door import Door, door_of
from .folder import AgentFolder
from .info import Manifest
from .lock import Lock, take_lock
from .shard import Shard
from .store import FileStore
from .swap import swap

T = TypeVar("T")


class FileAccess:
    """How calls reach the store in `folder`. A call waits at most `lock_seconds` for others."""

    def __init__(self, folder: AgentFolder, lock_seconds: float) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds

    async def info(self) -> Manifest | None:
        """See `Backend`."""
        return await run_blocking(lambda: self.folder.manifest())

    async def run(
        self,
        work: Callable[[FileStore], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Backend`."""
        wanted = create or expect
        if create:  # so that every call waits for the lock in the line, as long as it may
            await run_blocking(lambda: self.folder.make())

        def operation(visit: Visit) -> T | None:
            with explained(UNCHANGED):
                store = visit.store(create)
                if store is None:
                    return None
                if wanted and store.info.embedder != wanted.embedder:
                    raise ReplacedStoreError("The store was given another model meanwhile.")
                return work(store)

        return await self._door().run(operation, self.lock_seconds)

    async def close(self) -> None:
        """See `Backend`."""
        await run_blocking(lambda: self._door().close())

    def _door(self) -> "Door[Visit]":
        # The root may be a link. An agent's folder may not: resolved, it would lead to another
        # agent's door, and nobody would notice.
        real = AgentFolder(Path(os.path.realpath(self.folder.root)), self.folder.agent_id)
        return door_of(real.database, partial(Visit, self.folder))


class Visit:
    """The store of `folder` while its lock is held. Waits for the lock until `deadline` (in
    time.monotonic) or until `cancelled` is set.
    """

    def __init__(self, folder: AgentFolder, deadline: float, cancelled: Event) -> None:
        self._folder = folder
        self._lock: Lock | None = None
        self._held = ExitStack()
        self._store: FileStore | None = None
        if folder.exists:
            folder.require_writable()
            with explained(UNCHANGED):
                lock = take_lock(folder.database, deadline, cancelled)
                self._lock = self._held.enter_context(lock)

    def store(self, create: StoreInfo | None) -> FileStore | None:
        """The store; if there is none, a new one as `create` describes, or None without that."""
        if not self._lock:
            if create:  # the folder made for it came too late, or was deleted
                raise ReplacedStoreError("The store's folder was deleted meanwhile.")
            return None
        database = self._folder.database
        disk.require_space(database)
        if self._store:
            return self._store
        manifest = self._folder.manifest()
        if manifest is None:
            self._require_no_memories()
            if create:
                self._folder.hide()
                manifest = swap(self._folder, create, [], 0)
        if manifest:
            self._store = FileStore(self._folder, manifest)
        return self._store

    def wanted(self) -> bool:
        """Whether anyone else is waiting for the lock."""
        with suppress(FileNotFoundError):
            return self._lock is not None and self._lock.wanted()
        # The folder is being deleted. Closing the store now would write into it.
        return False

    def still_valid(self) -> bool:
        """Whether the store still exists, and more can be done with it."""
        with suppress(FileNotFoundError):
            identity = manifests.identity(self._folder.database)
            store = self._store
            return store is not None and not store.ends and identity == store.manifest_identity
        return False

    def close(self) -> None:
        """Close the store and release the lock."""
        with self._held:
            if self._store:
                self._store.close()
                with suppress(FileNotFoundError):  # deleted meanwhile, or replaced
                    disk.make_private(self._folder.database / self._store.info.shard)

    def _require_no_memories(self) -> None:
        # Without a manifest, only what an interrupted creation leaves may be here: unfinished work,
        # or a shard without memories.
        for folder in self._folder.shards:
            if not any(path.is_file() for path in folder.rglob("*")):
                continue  # the rest of a shard that was being removed
            with closing(Shard(folder, words=False)) as shard:
                count = shard.count()
            if count:
                raise self._folder.lost(f"{folder.name} holds {counted(count)}")
