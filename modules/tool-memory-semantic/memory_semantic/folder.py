"""The folder of one agent on disk: whose it is, who may work in it, what state it is in.

{storage_root}/{agent_id}/      mode 0700
    .gitignore                  *, so that no memory is committed by mistake
    qdrant.tmp/                 a store that is being removed
    rebuild/                    the next store, while it is made or after that was interrupted
    damaged-<when>/             what a repair has replaced
    qdrant.db/                  the database
        queue, lock             one operation at a time (lock.py)
        manifest.json           what the store is, which shard counts (manifest.py)
        shard-1/                the engine's files (shard.py)
        *.tmp                   unfinished work, cleared by whoever sees it next
"""

import errno
import logging
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event

from . import disk
from . import manifest as manifests
from .errors import REPAIR, UNCHANGED, DamagedStoreError, StorageError, explained
from .local_collection import LocalCollection
from .lock import NAMES, locked
from .manifest import Manifest
from .models import MIN_FREE_BYTES
from .open_store import OpenStore
from .shard import Shard

logger = logging.getLogger(__name__)

_SHARD_NAME = re.compile(r"shard-[0-9]+")
_IGNORE_NAME = ".gitignore"
_DATABASE_NAME = "qdrant.db"
_REMOVED_NAME = "qdrant.tmp"
_REBUILD_NAME = "rebuild"
_KEPT_PREFIX = "damaged-"
# Everything that may stand in the folder of an agent.
_OURS = (_DATABASE_NAME, _REMOVED_NAME, _IGNORE_NAME, f"{_IGNORE_NAME}.tmp", f"{_KEPT_PREFIX}*")
_OURS += (_REBUILD_NAME, f"{_REBUILD_NAME}.tmp")


class AgentFolder:
    """The folder of `agent_id` under `root`, `path`, and what is in it: the `database`, what is
    left of a `removed` one, the place for a `rebuild`. Nothing is created before `open(create=…)`.
    """

    def __init__(self, root: Path, agent_id: str, lock_seconds: float) -> None:
        self._agent_id = agent_id
        self.path = root / agent_id
        self.database = self.path / _DATABASE_NAME
        self.rebuild = self.path / _REBUILD_NAME
        self.removed = self.path / _REMOVED_NAME
        self._root = root
        self._lock_seconds = lock_seconds

    @property
    def exists(self) -> bool:
        """Whether there is a store, in whatever state. Raises StorageError if none may look."""
        with explained(lambda: UNCHANGED):
            self._require_ours()
            return _lstat(self.database) is not None

    @property
    def read_only(self) -> bool:
        """Whether there is a store that cannot be written to, as in a snapshot."""
        return _lstat(self.database) is not None and not os.access(self.database, os.W_OK)

    def require_writable(self) -> None:
        """Raise StorageError for a store that is `read_only`: nothing in it can be opened."""
        if self.read_only:
            raise StorageError(
                "The store is read-only here, and the vector engine writes to each store that it "
                "opens. `agent-memory export` can read it. To use it, copy the folder to where "
                "you can write, with the holes in its files (cp -a --sparse=always). "
                f"{UNCHANGED}"
            )

    @property
    def holds_memories(self) -> bool:
        """Whether there is more than what an interrupted creation leaves at its beginning."""
        return any((*self.database.glob(manifests.NAME), *self.database.glob("shard-*")))

    @property
    def kept(self) -> list[Path]:
        """What repairs have replaced and kept, the oldest first."""
        return sorted(self.path.glob(f"{_KEPT_PREFIX}*"))

    def keep_as(self, moment: datetime) -> Path:
        """The folder in which a repair at that `moment` keeps what it replaces."""
        return self.path / f"{_KEPT_PREFIX}{moment:%Y%m%d-%H%M%S}"

    def peek(self, cancelled: Event | None = None) -> Manifest | None:
        """The manifest as it is now. Without the lock it may be another a moment later."""
        with explained(lambda: UNCHANGED):
            self._require_ours()
            return self._manifest(self.database)

    @contextmanager
    def open(
        self, cancelled: Event, create: Manifest | None = None
    ) -> Iterator[OpenStore[LocalCollection] | None]:
        """The store for one operation, under its lock; None if there is none and none is created.

        Once `cancelled` is set the waiting for the lock ends. `create` describes the store to make
        if there is none.

        Raises StorageError, which says what was changed, if the store cannot be trusted or used.
        """
        collection: LocalCollection | None = None
        with explained(lambda: collection.outcome if collection else UNCHANGED):
            self._require_ours()
            self.require_writable()
            if create:
                self._make_folders()
            elif not _lstat(self.database):
                yield None
                return
            with (
                disk.pinned(self.database) as database,
                locked(database, self._lock_seconds, cancelled),
            ):
                _require_space(database)
                manifest = self._manifest(database)
                if manifest is None:
                    self._require_no_memories(database)
                    if create is None:
                        yield None
                        return
                    ignore = self.path / _IGNORE_NAME
                    if not _lstat(ignore):
                        disk.write_whole(ignore, b"*\n")
                    manifest = _create(database, create)
                shard = database / manifest.shard
                if not _lstat(shard):
                    self._require_no_memories(database)
                with Shard.handle(shard) as handle:
                    collection = LocalCollection(handle, database, manifest)
                    collection.verify_count()
                    _clear_debris(database, keep=shard)
                    yield OpenStore(manifest, collection)
                if manifest.shard != shard.name:
                    _clear_debris(database, keep=database / manifest.shard)
                disk.make_private(database / manifest.shard)

    def remove(self, agreed: Callable[[OpenStore[LocalCollection]], bool]) -> bool:
        """Delete the store with its files, if `agreed` says so while its lock is held; returns
        whether it did.
        """
        disk.remove(self.removed)
        with self.open(Event()) as store:
            agrees = store is not None and agreed(store)
            if agrees:
                self.database.rename(self.removed)
        disk.remove(self.removed)
        return agrees

    def _manifest(self, database: Path) -> Manifest | None:
        manifest = manifests.read(database)
        if manifest and manifest.agent != self._agent_id:
            raise StorageError(
                f"The store in the folder of {self._agent_id!r} belongs to {manifest.agent!r}. "
                "Move it back to the folder of that name."
            )
        return manifest

    def _make_folders(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        if _lstat(self.database):
            return
        for entry in self.path.iterdir():
            if not any(fnmatchcase(entry.name, name) for name in _OURS):
                raise self._not_ours(entry.name)
        disk.remove(self.removed)
        self.database.mkdir(mode=0o700, exist_ok=True)
        disk.sync(self.path)
        disk.sync(self._root)

    def _require_ours(self) -> None:
        """Refuse folders that others could have put here, or could write to."""
        root = _lstat(self._root) and self._root.stat()
        if root:
            if not stat.S_ISDIR(root.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if root.st_uid not in (os.getuid(), 0):
                raise StorageError(
                    "The storage root belongs to another user. Choose another storage_root."
                )
            if root.st_mode & stat.S_IWOTH and not root.st_mode & stat.S_ISVTX:
                raise StorageError(
                    "Every user of this machine can write to the storage root. Take that right "
                    "away (chmod o-w), or choose another storage_root."
                )
        folder = _lstat(self.path)
        if folder:
            if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.getuid():
                raise StorageError(
                    f"The folder of {self._agent_id!r} is a link or a file, or belongs to another "
                    "user. Remove it, or choose another agent_identity."
                )
            loose = stat.S_IMODE(folder.st_mode) & 0o077
            if loose and _lstat(self.database) and not self.read_only:
                self.path.chmod(0o700)
                logger.warning("Tightened the folder of agent %r to mode 0700.", self._agent_id)

    def _require_no_memories(self, database: Path) -> None:
        """Where no manifest names a shard that is there, nothing may be but what an interrupted
        creation leaves: unfinished work, or a shard without memories.
        """
        for entry in database.iterdir():
            if _SHARD_NAME.fullmatch(entry.name):
                if not any(path.is_file() for path in entry.rglob("*")):
                    continue  # what remains of one that was being removed
                with Shard.handle(entry) as handle:
                    count = Shard(handle).count()
                if count:
                    raise DamagedStoreError(
                        f"The store of {self._agent_id!r} has lost its {manifests.NAME}, or has an "
                        f"old one: it does not name {entry.name}, which holds {count} memories. "
                        f"{REPAIR}"
                    )
            elif entry.name not in (*NAMES, manifests.NAME) and not entry.name.endswith(".tmp"):
                raise self._not_ours(f"qdrant.db/{entry.name}")

    def _not_ours(self, name: str) -> StorageError:
        return StorageError(
            f"The folder of {self._agent_id!r} holds {name}, which belongs to no memory here. "
            "Take it away, or choose another agent_identity or storage_root."
        )


def _create(database: Path, manifest: Manifest) -> Manifest:
    target = database / manifest.shard
    disk.remove(target)  # an empty one, of a creation that was interrupted before its manifest
    unfinished = target.with_suffix(".tmp")
    disk.remove(unfinished)
    Shard.create(unfinished, manifest.embedding.dimensions, manifest.words)
    disk.settle(unfinished)
    unfinished.rename(target)
    manifests.write(database, manifest)
    return manifest


def _clear_debris(database: Path, keep: Path) -> None:
    """Remove what interrupted work left, and the shards that `keep` has replaced."""
    for entry in list(database.iterdir()):
        replaced = _SHARD_NAME.fullmatch(entry.name) and entry != keep
        if replaced or entry.name.endswith(".tmp"):
            disk.remove(entry)


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise StorageError(
            f"The disk of the memory store has {free // 2**20} MB left, and "
            f"{MIN_FREE_BYTES // 2**20} MB are needed to use it safely. Free some space."
        )


def _lstat(path: Path) -> os.stat_result | None:
    """What is at `path`, a link not being followed; None if nothing is."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
