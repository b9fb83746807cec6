"""The folder of one agent on disk: whose it is, and what may stand in it.

{storage_root}/{agent_id}/      mode 0700
    .gitignore                  *, so that no memory is committed by mistake
    qdrant.tmp/                 a store that is being removed
    rebuild/                    the next shard, while it is made or after that was interrupted
    damaged-<when>/             what a repair has replaced
    moved.json                  what was moved elsewhere, or here (maintenance/moved.py)
    usage.jsonl                 what searches have found, if that is recorded (usage.py)
    qdrant.db/                  the database
        queue, lock             one process at a time (lock.py)
        manifest.json           what the store is, which shard counts (info.py)
        shard-1/                the engine's files (shard.py)
        *.tmp                   unfinished work, cleared by whoever sees it next
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

# Everything that may stand in the folder of an agent, and in its database.
_IN_FOLDER = re.compile(
    r"qdrant\.(db|tmp)|rebuild(\.tmp)?|damaged-.*|(\.gitignore|moved\.json|usage\.jsonl)(\.tmp)?"
)
_IN_DATABASE = re.compile(r"queue|lock|manifest\.json|shard-[0-9]+|.*\.tmp")
_SHARD_OR_DEBRIS = re.compile(r"shard-[0-9]+|.*\.tmp")


class AgentFolder:
    """The folder of `agent_id` under `root`, and what is in it. Creates nothing before `make`."""

    def __init__(self, root: Path, agent_id: str) -> None:
        self.agent_id = agent_id
        self.path = root / agent_id
        self.database = self.path / "qdrant.db"
        self.rebuild = self.path / "rebuild"
        self.removed = self.path / "qdrant.tmp"
        self.root = root

    @property
    def exists(self) -> bool:
        """Whether there is a store, in whatever state. Raises StorageError if none may look."""
        with explained(UNCHANGED):
            self.require_ours()
            return _lstat(self.database) is not None

    @property
    def read_only(self) -> bool:
        """Whether there is a store that cannot be written to, as in a snapshot."""
        return _lstat(self.database) is not None and not os.access(self.database, os.W_OK)

    @property
    def holds_memories(self) -> bool:
        """Whether there is more than what an interrupted creation leaves at its beginning."""
        return any((*self.database.glob(manifests.NAME), *self.database.glob("shard-*")))

    @property
    def kept(self) -> list[Path]:
        """What repairs have replaced and kept, the oldest first."""
        return sorted(self.path.glob("damaged-*"))

    def keep_as(self, moment: datetime) -> Path:
        """The folder in which a repair at that `moment` keeps what it replaces."""
        return self.path / f"damaged-{moment:%Y%m%d-%H%M%S}"

    def manifest(self, database: Path | None = None) -> manifests.Manifest | None:
        """The manifest of the `database`, which may be given by another path. Without the lock it
        may be another one a moment later.
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
        """Make the folders of a store that is not there yet."""
        self.make_outermost()
        if _lstat(self.database):
            return
        self._require_only(_IN_FOLDER, self.path)
        disk.remove(self.removed)
        ignore = self.path / ".gitignore"
        if not _lstat(ignore):
            disk.write_whole(ignore, b"*\n")
        self.database.mkdir(mode=0o700, exist_ok=True)
        disk.sync(self.path)
        disk.sync(self.root)

    def make_outermost(self) -> None:
        """Make the folder that all the others are in."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)

    def require_writable(self) -> None:
        """Raise StorageError for a store that is `read_only`: nothing in it can be opened."""
        if self.read_only:
            raise StorageError(
                "The store is read-only here, and the vector engine writes to each store that it "
                "opens. `agent-memory export` can read it. To use it, copy the folder to where "
                "you can write, with the holes in its files (cp -a --sparse=always).",
                UNCHANGED,
            )

    def require_ours(self) -> None:
        """Refuse folders that others could have put here, or could write to."""
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
                    "Every user of this machine can write to the storage root. Take that right "
                    "away (chmod o-w), or choose another storage_root."
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
        """Raise StorageError if there is no store where `config` keeps it, and it may be elsewhere:
        then none is made, and nobody is told that there is none.
        """
        if config.doubt:
            raise StorageError(
                f"{self.agent_id!r} has no memory on this machine. {UNCHANGED} {config.doubt}"
            )
        if config.qdrant_url != HERE and self.holds_memories:
            raise StorageError(
                f"qdrant_url names a server that has no memory of {self.agent_id!r}, but there is "
                f"one on this machine. {UNCHANGED} Move it: agent-memory move --to "
                f"{config.qdrant_url} (or go on here: set qdrant_url to {HERE!r})."
            )

    def shards(self) -> list[Path]:
        """The shards in the database. Raises StorageError if there is anything that is not ours."""
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
    """Remove what interrupted work left, and the shards that the one named `keep` has replaced."""
    for entry in list(database.iterdir()):
        if entry.name != keep and _SHARD_OR_DEBRIS.fullmatch(entry.name):
            disk.remove(entry)


def require_space(folder: Path) -> None:
    """Raise StorageError if the disk is too full to use a store on it safely."""
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise StorageError(
            f"The disk of the memory store has {free // 2**20} MB left, and "
            f"{MIN_FREE_BYTES // 2**20} MB are needed to use it safely. Free some space."
        )


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
