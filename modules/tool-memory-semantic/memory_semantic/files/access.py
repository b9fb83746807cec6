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

from ..errors import REPAIR, UNCHANGED, DamagedStoreError, ReplacedStoreError, counted, explained
from ..store import StoreInfo
from ..workers import run_blocking
from . import disk
from . import info as manifests
from .door import Door, door_of
from .folder import AgentFolder, clear_debris
from .info import Manifest
from .lock import Lock, take_lock
from .shard import Shard
from .store import FileStore

T = TypeVar("T")


class FileAccess:
    """The `Access` to the store in `folder`. A call waits at most `lock_seconds` for others."""

    def __init__(self, folder: AgentFolder, lock_seconds: float) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds

    async def info(self) -> Manifest | None:
        """See `Access`."""
        return await run_blocking(lambda: self.folder.manifest())

    async def run(
        self,
        work: Callable[[FileStore], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Access`."""
        wanted = create or expect
        if create:  # so that every call waits for the lock in the line, as long as it may
            await run_blocking(lambda: self.folder.make())

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
        """See `Access`."""
        await run_blocking(lambda: self._door().close())

    def _door(self) -> "Door[Visit]":
        # The root may be a link. An agent's folder may not: resolved, it would lead to another
        # agent's door, and nobody would notice.
        database = self.folder.database
        path = Path(
            os.path.realpath(self.folder.root), *database.relative_to(self.folder.root).parts
        )
        return door_of(path, partial(Visit, self.folder))


class Visit:
    """The store of `folder` while its lock is held. Waits for the lock until `deadline` (in
    time.monotonic) or until `cancelled` is set.
    """

    def __init__(self, folder: AgentFolder, deadline: float, cancelled: Event) -> None:
        self._folder = folder
        self.stays = folder.backup is None  # a rebuild calls often, and nobody else does
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
        if manifest is None or not (database / manifest.shard).exists():
            self._require_no_memories()
        if manifest is None and create:
            self._folder.hide()
            manifest = _create(database, create)
        if manifest:
            self._store = FileStore(database, manifest, self._folder.backup)
            clear_debris(database, keep=manifest.shard)
        return self._store

    def wanted(self) -> bool:
        """Whether anyone else is waiting for the lock."""
        with suppress(FileNotFoundError):
            return self._lock is not None and self._lock.wanted()
        # The folder is being deleted. Closing the store now would write into it.
        return False

    def still_valid(self) -> bool:
        """Whether the store still exists, as this visit left it. Where a backup is due, the visit
        ends, so that no import puts it off.
        """
        return self._is_ours() and bool(self._store and not self._store.backup_is_due)

    def close(self) -> None:
        """Back the store up if that is due, close it and release the lock."""
        with self._held:
            if self._store:
                if self._is_ours():
                    self._store.back_up()
                self._store.close()
                with suppress(FileNotFoundError):  # deleted meanwhile
                    disk.make_private(self._folder.database / self._store.info.shard)

    def _is_ours(self) -> bool:
        if self._store is None:
            return False
        with suppress(FileNotFoundError):
            return manifests.identity(self._folder.database) == self._store.manifest_identity
        return False

    def _require_no_memories(self) -> None:
        # If no manifest names an existing shard, only what an interrupted creation leaves may be
        # here: unfinished work, or a shard without memories.
        for folder in self._folder.shards:
            if not any(path.is_file() for path in folder.rglob("*")):
                continue  # the rest of a shard that was being removed
            with closing(Shard(folder, words=False)) as shard:
                count = shard.count()
            if count:
                raise DamagedStoreError(
                    f"The store of {self._folder.agent_id!r} has lost its {manifests.NAME}, or has "
                    f"an old one: it does not name {folder.name}, which holds {counted(count)}. "
                    f"{REPAIR}"
                )


def _create(database: Path, info: StoreInfo) -> Manifest:
    lasting = {"agent", "model", "endpoint", "words", "created"}
    manifest = Manifest(**info.model_dump(include=lasting))
    clear_debris(database, keep="")  # from a creation interrupted before its manifest
    unfinished = database / "shard.tmp"
    unfinished.mkdir(mode=0o700)  # the engine would make a deleted database again, open to all
    Shard.create(unfinished, manifest)
    disk.settle(unfinished)
    unfinished.rename(database / manifest.shard)
    manifests.write(database, manifest)
    return manifest
