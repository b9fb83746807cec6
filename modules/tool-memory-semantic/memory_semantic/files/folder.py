"""One agent's folder on disk: who owns it, and what may be in it.

{storage_root}/{agent_id}/      mode 0700
    .gitignore                  *, so that no memory is committed by mistake
    qdrant.tmp/                 a store that is being removed
    rebuild/                    the next shard, while it is built or if that was interrupted
    damaged-<when>/             what a repair has replaced
    moved.json                  moves from here and to here (maintenance/moved.py)
    usage.jsonl                 what searches have found, if that is recorded (usage.py)
    qdrant.db/                  the database
        queue, lock             one process at a time (lock.py)
        manifest.json           what the store is, which shard is valid (info.py)
        shard-1/                the engine's files (shard.py)
        *.tmp                   unfinished work, cleared by the next call
"""

import errno
import logging
import os
import re
import shutil
import stat
from datetime import datetime
from pathlib import Path

from ..errors import UNCHANGED, StorageError, explained
from ..limits import HERE, MIN_FREE_BYTES
from ..settings import StorageConfig
from . import disk
from . import info as manifests

logger = logging.getLogger(__name__)

# Everything that may be in an agent's folder, and in its database.
_IN_FOLDER = re.compile(
    r"qdrant\.(db|tmp)|rebuild(\.tmp)?|damaged-.*|(\.gitignore|moved\.json|usage\.jsonl)(\.tmp)?"
)
_IN_DATABASE = re.compile(r"queue|lock|manifest\.json|shard-[0-9]+|.*\.tmp")
_SHARD_OR_DEBRIS = re.compile(r"shard-[0-9]+|.*\.tmp")


class AgentFolder:
    """The folder of `agent_id` under `root`. Creates nothing until `make` is called."""

    def __init__(self, root: Path, agent_id: str) -> None:
        self.agent_id = agent_id
        self.path = root / agent_id
        self.database = self.path / "qdrant.db"
        self.rebuild = self.path / "rebuild"
        self.removed = self.path / "qdrant.tmp"
        self.root = root

    @property
    def exists(self) -> bool:
        """Whether there is a store, in any state. Raises StorageError if the folder is not safe."""
        with explained(UNCHANGED):
            self.require_ours()
            return _lstat(self.database) is not None

    @property
    def read_only(self) -> bool:
        """Whether there is a store that cannot be written to, as in a snapshot."""
        return _lstat(self.database) is not None and not os.access(self.database, os.W_OK)

    @property
    def holds_memories(self) -> bool:
        """Whether there is more than an early interruption of a creation leaves."""
        return any((*self.database.glob(manifests.NAME), *self.database.glob("shard-*")))

    @property
    def kept(self) -> list[Path]:
        """What repairs have replaced and kept, oldest first."""
        return sorted(self.path.glob("damaged-*"))

    def keep_as(self, moment: datetime) -> Path:
        """The folder in which a repair at `moment` keeps what it replaces."""
        return self.path / f"damaged-{moment:%Y%m%d-%H%M%S}"

    def manifest(self, database: Path | None = None) -> manifests.Manifest | None:
        """The manifest of the database; `database` may be another path to it. Without the lock, the
        manifest may be replaced a moment later.
        """
        with explained(UNCHANGED):
            self.require_ours()
            manifest = manifests.read(database or self.database)
            if manifest and manifest.agent != self.agent_id:
                raise StorageError(
                    f"The store in the folder of {self.agent_id!r} belongs to {manifest.agent!r}. "
                    "Move it back to the folder of that name."
                )
            return manifest

    def make(self) -> None:
        """Create the folders for a new store. There is no lock yet: others may do the same."""
        self.make_outermost()
        if _lstat(self.database):
            return
        self._require_only(_IN_FOLDER, self.path)
        self.database.mkdir(mode=0o700, exist_ok=True)
        disk.sync(self.path)
        disk.sync(self.root)

    def prepare(self) -> None:
        """With the lock held, remove what a deleted store left, and hide the new one from Git."""
        disk.remove(self.removed)
        ignore = self.path / ".gitignore"
        if not _lstat(ignore):
            disk.write_whole(ignore, b"*\n")

    def make_outermost(self) -> None:
        """Create the folder that all the others are in."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)

    def require_writable(self) -> None:
        """Raise StorageError if the store is `read_only`: the engine cannot open it."""
        if self.read_only:
            raise StorageError(
                "The store is read-only here, but the vector engine writes to every store that it "
                "opens. `agent-memory export` can read it. To use it, copy the folder to a place "
                "where you can write, keeping its files sparse (cp -a --sparse=always).",
                UNCHANGED,
            )

    def require_ours(self) -> None:
        """Raise StorageError for folders that others could have put here, or could write to."""
        root = _lstat(self.root) and self.root.stat()
        if root:
            if not stat.S_ISDIR(root.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if root.st_uid not in (os.getuid(), 0):
                raise StorageError(
                    "The storage root belongs to another user. Choose another storage_root."
                )
            if root.st_mode & stat.S_IWOTH and not root.st_mode & stat.S_ISVTX:
                raise StorageError(
                    "Every user of this machine can write to the storage root. Remove that "
                    "permission (chmod o-w), or choose another storage_root."
                )
        folder = _lstat(self.path)
        if folder:
            if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.getuid():
                raise StorageError(
                    f"The folder of {self.agent_id!r} is a link or a file, or belongs to another "
                    "user. Remove it, or choose another agent_identity."
                )
            loose = stat.S_IMODE(folder.st_mode) & 0o077
            if loose and _lstat(self.database) and not self.read_only:
                self.path.chmod(0o700)
                logger.warning("Tightened the folder of agent %r to mode 0700.", self.agent_id)

    def require_none_elsewhere(self, config: StorageConfig) -> None:
        """Raise StorageError if there is no store where `config` keeps it, but one may be
        elsewhere: then none is created, and nothing claims that there is none.
        """
        if config.doubt:
            raise StorageError(
                f"{self.agent_id!r} has no memory on this machine. {UNCHANGED} {config.doubt}"
            )
        if config.qdrant_url != HERE and self.holds_memories:
            raise StorageError(
                f"The server in qdrant_url has no store of {self.agent_id!r}, but this machine has "
                f"one. {UNCHANGED} Move it: agent-memory move --to {config.qdrant_url} (or keep "
                f"using it here: set qdrant_url to {HERE!r})."
            )

    def shards(self) -> list[Path]:
        """The shards in the database. Raises StorageError if it contains anything unexpected."""
        self._require_only(_IN_DATABASE, self.database)
        return list(self.database.glob("shard-*[0-9]"))

    def _require_only(self, ours: re.Pattern[str], folder: Path) -> None:
        for entry in folder.iterdir():
            if not ours.fullmatch(entry.name):
                raise StorageError(
                    f"Unexpected file {entry.relative_to(self.path)} in the folder of "
                    f"{self.agent_id!r}. Move it away, or choose another agent_identity or "
                    "storage_root."
                )


def clear_debris(database: Path, keep: str) -> None:
    """Remove what interrupted work left, and the shards that the shard `keep` has replaced."""
    for entry in list(database.iterdir()):
        if entry.name != keep and _SHARD_OR_DEBRIS.fullmatch(entry.name):
            disk.remove(entry)


def require_space(folder: Path) -> None:
    """Raise StorageError if the disk is too full to use a store on it safely."""
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise StorageError(
            f"The disk with the store has {free // 2**20} MB left, but {MIN_FREE_BYTES // 2**20} "
            "MB are needed to use it safely. Free some space."
        )


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
