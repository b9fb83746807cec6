"""The folder of one agent on disk: whose it is, who may work in it, what state it is in.

{storage_root}/{agent_id}/      mode 0700
    .gitignore                  *, so that no memory is committed by mistake
    qdrant.db/                  the database
        queue, lock             one operation at a time (lock.py)
        manifest.json           what the store is, which shard counts (manifest.py)
        shard-1/                the engine's files (shard.py)
        *.tmp                   unfinished work, cleared by whoever sees it next
"""

import logging
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from . import disk, lock
from . import manifest as manifests
from .errors import StorageError
from .lock import locked
from .manifest import Manifest
from .models import MIN_FREE_BYTES
from .open_store import UNCHANGED, OpenStore
from .shard import Shard

logger = logging.getLogger(__name__)

_SHARD_NAME = re.compile(r"shard-[0-9]+")
_IGNORE_NAME = ".gitignore"


class AgentFolder:
    """The folder of `agent_id` under `root`. Nothing is created before `open(create=…)`."""

    def __init__(self, root: Path, agent_id: str, lock_seconds: float) -> None:
        self._agent_id = agent_id
        self._agent_folder = root / agent_id
        self._database = self._agent_folder / "qdrant.db"
        self._root = root
        self._lock_seconds = lock_seconds

    def peek(self) -> Manifest | None:
        """The manifest as it is now. Without the lock it may be another a moment later."""
        with _explained(lambda: UNCHANGED):
            self._require_ours()
            return self._manifest()

    @contextmanager
    def open(
        self, cancelled: Event, started: float, create: Manifest | None = None
    ) -> Iterator[OpenStore | None]:
        """The store for one operation, under its lock; None if there is none and none is created.

        `started` is when the caller began to wait, by `time.monotonic`; once `cancelled` is set
        the waiting ends. `create` describes the store to make if there is none.

        Raises StorageError, which says what was changed, if the store cannot be trusted or used.
        """
        store: OpenStore | None = None
        with _explained(lambda: store.outcome if store else UNCHANGED):
            self._require_ours()
            if create:
                self._make_folders()
            elif not self._database.exists():  # and the lock must not make it
                yield None
                return
            with locked(self._database, self._lock_seconds, started, cancelled):
                _require_space(self._database)
                manifest = self._manifest()
                if manifest is None:
                    self._refuse_what_is_not_ours()
                    if create is None:
                        yield None
                        return
                    manifest = self._create(create)
                self._clear_debris(manifest)
                shard_name = manifest.shard
                with Shard.open(self._database / shard_name) as shard:
                    store = OpenStore(self._database, manifest, shard)
                    store.verify_count()
                    yield store
                if manifest.shard != shard_name:
                    self._clear_debris(manifest)
                disk.make_private(self._database / manifest.shard)

    def _manifest(self) -> Manifest | None:
        manifest = manifests.read(self._database)
        if manifest and manifest.agent != self._agent_id:
            raise StorageError(
                f"The store in the folder of {self._agent_id!r} belongs to {manifest.agent!r}. "
                "Move it back to the folder of that name."
            )
        return manifest

    def _clear_debris(self, manifest: Manifest) -> None:
        """Remove what interrupted work left: unfinished folders and shards no longer named."""
        for entry in list(self._database.iterdir()):
            superseded = _SHARD_NAME.fullmatch(entry.name) and entry.name != manifest.shard
            if superseded or entry.name.endswith(".tmp"):
                _remove(entry)

    def _make_folders(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._agent_folder.mkdir(mode=0o700, exist_ok=True)
        if self._database.exists():
            return
        for entry in self._agent_folder.iterdir():
            if entry.name not in (self._database.name, _IGNORE_NAME):
                raise self._not_ours(entry.name)
        ignore = self._agent_folder / _IGNORE_NAME
        ignore.touch(mode=0o600)
        ignore.write_text("*\n")
        self._database.mkdir(mode=0o700, exist_ok=True)
        disk.sync(self._agent_folder)
        disk.sync(self._root)

    def _require_ours(self) -> None:
        """Refuse folders that others could have put here, or could write to."""
        if self._root.exists():
            root = self._root.stat()
            if root.st_uid not in (os.getuid(), 0):
                raise StorageError(
                    "The storage root belongs to another user. Choose another storage_root."
                )
            if root.st_mode & stat.S_IWOTH and not root.st_mode & stat.S_ISVTX:
                raise StorageError(
                    "Every user of this machine can write to the storage root. Take that right "
                    "away (chmod o-w), or choose another storage_root."
                )
        if os.path.lexists(self._agent_folder):
            folder = self._agent_folder.lstat()
            if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.getuid():
                raise StorageError(
                    f"The folder of {self._agent_id!r} is a link or a file, or belongs to another "
                    "user. Remove it, or choose another agent_identity."
                )
            if stat.S_IMODE(folder.st_mode) & 0o077:
                self._agent_folder.chmod(0o700)
                logger.warning("Tightened the folder of agent %r to mode 0700.", self._agent_id)

    def _create(self, manifest: Manifest) -> Manifest:
        target = self._database / manifest.shard
        unfinished = target.with_suffix(".tmp")
        for left in (target, unfinished):  # by a creation that was interrupted: both are empty
            _remove(left)
        Shard.create(unfinished, manifest.embedding.dimensions)
        disk.make_private(unfinished)
        disk.sync_tree(unfinished)
        unfinished.rename(target)
        manifests.write(self._database, manifest)
        return manifest

    def _refuse_what_is_not_ours(self) -> None:
        """Without a manifest the folder may hold only what an interrupted creation leaves."""
        for entry in self._database.iterdir():
            if _SHARD_NAME.fullmatch(entry.name):
                with Shard.open(entry) as shard:
                    count = shard.count()
                if count:
                    raise StorageError(
                        f"The store of {self._agent_id!r} has lost its {manifests.NAME}, but "
                        f"{entry.name} holds {count} memories. Restore the file from a backup."
                    )
            elif entry.name not in lock.NAMES and not entry.name.endswith(".tmp"):
                raise self._not_ours(f"{self._database.name}/{entry.name}")

    def _not_ours(self, name: str) -> StorageError:
        return StorageError(
            f"The folder of {self._agent_id!r} holds {name}, which is not agent-memory's. "
            "Choose another agent_identity or storage_root."
        )


@contextmanager
def _explained(outcome: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{error} {outcome()}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageError(f"The store's folder cannot be used: {reason}. {outcome()}") from error


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise StorageError(
            f"The disk of the memory store has {free // 2**20} MB left, and "
            f"{MIN_FREE_BYTES // 2**20} MB are needed to use it safely. Free some space."
        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
