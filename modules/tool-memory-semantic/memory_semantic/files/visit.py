"""The store of a folder while its lock is held, for the calls that one worker runs then."""

from contextlib import ExitStack, closing, suppress
from threading import Event

from ..errors import UNCHANGED, ReplacedStoreError, counted, damage, explained
from ..store import StoreInfo
from . import disk
from . import info as manifests
from .folder import AgentFolder
from .lock import Lock, take_lock
from .shard import Shard
from .store import FileStore
from .swap import swap


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
                raise damage(
                    self._folder.agent_id,
                    f"it has lost its {manifests.NAME}; {folder.name} holds {counted(count)}",
                )
