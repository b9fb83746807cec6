"""One agent's folder on disk: who owns it, and what may be in it.

{storage_root}/{agent_id}/      mode 0700
    .gitignore                  *, so that no memory is committed by mistake
    rebuild/                    the next shard, while it is built or if that was interrupted
    damaged-<when>/             what a repair has replaced
    backup.jsonl                an export, of a day ago at most (backup.py)
    usage.jsonl, usage.old.jsonl  what searches have found, if that is recorded (usage.py)
    waiting.jsonl, queue, lock  what capture could not store yet (waiting.py)
    qdrant.db/                  the database
        queue, lock             one process at a time (lock.py)
        manifest.json           what the store is, which shard is valid (info.py)
        shard-1/                the engine's files (shard.py)
        shard.tmp and the like  unfinished work, cleared by the next call

What others put beside these files is left alone.
"""

import errno
import logging
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ..errors import UNCHANGED, DamagedStoreError, StorageError, counted, explained
from ..limits import HERE
from . import disk
from . import info as manifests
from .backup import Backup

logger = logging.getLogger(__name__)

# All that we make in an agent's folder, and in its database.
_IN_FOLDER = re.compile(
    r"qdrant\.db|rebuild(\.tmp)?|damaged-.*|queue|lock|"
    r"(\.gitignore|(backup|usage(\.old)?|waiting)\.jsonl)(\.tmp)?"
)
_SHARD = re.compile(r"shard-[0-9]+")
_SHARD_OR_DEBRIS = re.compile(r"shard-[0-9]+(\.tmp)?|(shard|manifest\.json)\.tmp")
_IN_DATABASE = re.compile(rf"queue|lock|manifest\.json|{_SHARD_OR_DEBRIS.pattern}")


class AgentFolder:
    """The folder of `agent_id` under `root`. Creates nothing until `make` is called. What a rebuild
    makes is a store without a backup.
    """

    def __init__(self, root: Path, agent_id: str, *, backed_up: bool = True) -> None:
        self.agent_id = agent_id
        self.path = root / agent_id
        self.database = self.path / "qdrant.db"
        self.rebuild = self.path / "rebuild"
        self.backup = Backup(self.path, agent_id) if backed_up else None
        self.root = root

    @property
    def exists(self) -> bool:
        """Whether there is a store, in any state. Raises StorageError if the folder is not safe, or
        if another bundle has moved it away.
        """
        with explained(UNCHANGED):
            self.require_ours()
            found = _lstat(self.database) is not None
            if not found:
                self._require_not_moved()
                self._require_not_lost()
            return found

    @property
    def read_only(self) -> bool:
        """Whether there is a store that cannot be written to, as in a snapshot."""
        return _lstat(self.database) is not None and not os.access(self.database, os.W_OK)

    @property
    def holds_memories(self) -> bool:
        """Whether there is more than an early interruption of a creation leaves."""
        return any((*self.database.glob(manifests.NAME), *self.shards))

    @property
    def shards(self) -> list[Path]:
        """The shards in the database, the newest last."""
        found = (path for path in self.database.glob("shard-*") if _SHARD.fullmatch(path.name))
        return sorted(found, key=number_of)

    @property
    def moved_root(self) -> Path | None:
        """Where Amplifier's memory bundle offers to move the default storage root, which it takes
        for an older one of its own; None for any other root.
        """
        default = self.root.parts[-2:] == (".amplifier", "memory")
        return self.root.parent.with_name(".amplifier-memory") if default else None

    @property
    def kept(self) -> list[Path]:
        """What repairs have replaced and kept, oldest first."""
        return sorted(self.path.glob("damaged-*"))

    def keep_as(self, moment: datetime) -> Path:
        """The folder in which a repair at `moment` keeps what it replaces."""
        return self.path / f"damaged-{moment:%Y%m%d-%H%M%S}"

    def manifest(self) -> manifests.Manifest | None:
        """The manifest of the database. Without the lock, it may be replaced a moment later."""
        with explained(UNCHANGED):
            self.require_ours()
            manifest = manifests.read(self.database)
            if manifest is None:
                self._require_not_moved()
                self._require_not_lost()
            elif manifest.agent != self.agent_id:
                raise StorageError(
                    f"The store in the folder of {self.agent_id!r} belongs to {manifest.agent!r}. "
                    "Move it back to the folder of that name."
                )
            return manifest

    def make(self) -> None:
        """Create the folders for a new store. There is no lock yet: others may do the same."""
        if self.exists:
            return
        with explained(UNCHANGED):
            self.make_outermost()
            self.database.mkdir(mode=0o700, exist_ok=True)
            disk.sync(self.path)
            disk.sync(self.root)

    def hide(self) -> None:
        """Hide the folder from Git."""
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
            its = f"The folder of {self.agent_id!r}"
            if stat.S_ISLNK(folder.st_mode):
                raise StorageError(
                    f"{its} is a link, which could lead to another agent's memories. Put the "
                    "folder itself in its place, or choose another agent_identity."
                )
            if not stat.S_ISDIR(folder.st_mode):
                raise StorageError(
                    f"{its} is a file. Move it away, or choose another agent_identity."
                )
            if folder.st_uid != os.getuid():
                raise StorageError(
                    f"{its} belongs to another user (uid {folder.st_uid}). Work as that user; or, "
                    "if it is yours and a restore or sudo has left it so, take it back: "
                    f"`sudo chown -R {os.getuid()} {shlex.quote(str(self.path))}`."
                )
            loose = stat.S_IMODE(folder.st_mode) & 0o077
            if loose and _lstat(self.database) and not self.read_only:
                self.path.chmod(0o700)
                logger.warning("Tightened the folder of agent %r to mode 0700.", self.agent_id)

    def require_none_elsewhere(self, url: str) -> None:
        """Raise StorageError if there is no store at `url`, which is a value of the setting
        qdrant_url, but one may be elsewhere: then none is created, and nothing claims that there is
        none.
        """
        if url != HERE and self.holds_memories:
            mine = f"memories.jsonl --agent {self.agent_id}"
            export = f"agent-memory export {mine} --root {shlex.quote(str(self.root))}"
            raise StorageError(
                f"The server in qdrant_url has no store of {self.agent_id!r}, but this machine has "
                f"one. {UNCHANGED} To take it there: `{export}`, move qdrant.db and backup.jsonl "
                f"out of {self.path}, and `agent-memory import {mine}`. To keep using it here: set "
                f"qdrant_url to {HERE!r}."
            )

    def of_others(self) -> tuple[list[Path], list[Path]]:
        """What others have put beside the agents' folders, and into this one and its database."""
        beside = (
            path
            for path in _in(self.root)
            if path != self.path and not any(_IN_FOLDER.fullmatch(each.name) for each in _in(path))
        )
        within = (path for path in _in(self.path) if not _IN_FOLDER.fullmatch(path.name))
        inmost = (path for path in _in(self.database) if not _IN_DATABASE.fullmatch(path.name))
        return sorted(beside), sorted((*within, *inmost))

    def _require_not_lost(self) -> None:
        # A new store would soon replace the only copy of its memories.
        if not self.backup or not self.backup.path.exists():
            return
        header = self.backup.header()
        if header and not header.memories:
            return
        of = f" of {header.exported:%Y-%m-%d %H:%M} ({counted(header.memories)})" if header else ""
        raise DamagedStoreError(
            f"The store of {self.agent_id!r} is lost: there is a backup{of}, but no "
            f"{manifests.NAME}. `agent-memory doctor --repair` makes a store from what is left. "
            f"Or, to begin anew, move {self.path} away."
        )

    def _require_not_moved(self) -> None:
        away = self.moved_root and self.moved_root / self.agent_id
        if not away or _lstat(self.database) or not (away / self.database.name).is_dir():
            return
        root, here, there = (shlex.quote(str(path)) for path in (self.root, self.path, away))
        # The folder can be back already, with something else in it.
        back = f"mv -n {there}/* {here}/" if _lstat(self.path) else f"mv {there} {root}/"
        raise StorageError(
            f"The memories of {self.agent_id!r} were moved from {self.path} to {away}, probably "
            "by Amplifier's memory bundle, which takes that folder for an older one of its own. "
            f"This brings them back: `mkdir -p {root} && {back}`."
        )


def number_of(shard: Path) -> int:
    """The number in the name of a shard's folder; newer ones have higher numbers."""
    return int(shard.name.removeprefix("shard-"))


def clear_debris(database: Path, keep: str) -> None:
    """Remove what interrupted work left, and the shards that the shard `keep` has replaced."""
    for entry in list(database.iterdir()):
        if entry.name != keep and _SHARD_OR_DEBRIS.fullmatch(entry.name):
            disk.remove(entry)


def _in(folder: Path) -> Iterator[Path]:
    with suppress(OSError):  # it is a file, or may not be read
        yield from folder.iterdir()


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
