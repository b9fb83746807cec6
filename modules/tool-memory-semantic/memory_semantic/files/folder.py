"""One agent's folder on disk: who owns it, and what may be in it.

{storage_root}/{agent_id}/      mode 0700
    .gitignore                  *, so that no memory is committed by mistake
    memories.jsonl              the journal, a second whole copy (journal.py)
    damaged-1/                  a shard that a repair could not read whole (repair.py)
    usage.jsonl, usage.old.jsonl  what searches have found, if that is recorded (usage.py)
    qdrant.db/                  the database
        queue, lock             one process at a time (door.py)
        manifest.json           what the store is, which shard is valid
        shard-1/                the engine's files (edge.py)
        <hash>-<n>.vectors      of another model, while they are gathered (vectors.py)
        shard.tmp and the like  unfinished work, cleared by the next call

What others put beside these files is left alone.
"""

import errno
import json
import logging
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..errors import (
    REPAIR_COMMAND,
    UNCHANGED,
    DamagedStoreError,
    StorageError,
    counted,
    explained,
    newer,
)
from ..exchange import SHARD, number_of
from ..glance import DATABASE, MANIFEST, moved_root
from ..limits import ENGINE, HERE
from ..points import StoreInfo
from . import disk
from .journal import Journal
from .vectors import path_of

logger = logging.getLogger(__name__)

# What the calls on a store make and remove in its database: nothing else in it is touched.
_VECTORS = r"[0-9a-f]{16}-[0-9]{1,6}\.vectors"
_SHARD_OR_DEBRIS = re.compile(rf"shard-[0-9]{{1,9}}(\.tmp)?|(shard|manifest\.json|{_VECTORS})\.tmp")
# The shard that is being made.
UNFINISHED = "shard.tmp"
_FORMAT = 5


class Manifest(StoreInfo):
    """The contents of `manifest.json`, which is written when a shard is put in place, and never by
    a store. `memories` is how many there were then: a shard that has fewer has lost some.
    """

    format: Annotated[int, Field(ge=_FORMAT)] = _FORMAT
    engine: str = ENGINE
    shard: Annotated[str, Field(pattern=SHARD)]
    memories: Annotated[int, Field(ge=0, strict=True)] = 0


class AgentFolder:
    """The folder of `agent_id` under `root`. Creates nothing until `make` is called."""

    def __init__(self, root: Path, agent_id: str) -> None:
        self.agent_id = agent_id
        self.path = root / agent_id
        self.database = self.path / DATABASE
        self.journal = Journal(self.path, agent_id)
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
    def shards(self) -> list[Path]:
        """The shards in the database, the newest last."""
        return _numbered(self.database, SHARD)

    @property
    def damaged(self) -> list[Path]:
        """The shards that repairs have put aside and could not read whole, the newest last."""
        return _numbered(self.path, r"^damaged-[0-9]{1,9}$")

    @property
    def gathered(self) -> list[Path]:
        """The files of vectors that are gathered for another model."""
        return [path for path in _in(self.database) if re.fullmatch(_VECTORS, path.name)]

    def next_shard(self) -> str:
        """The name of a new shard: no other, wherever one is named, has as high a number."""
        header = self.journal.ends()[0]
        names = [path.name for path in (*self.shards, *self.damaged)]
        return f"shard-{1 + max(map(number_of, (header and header.shard, *names)))}"

    def shard_that_counts(self) -> Path | None:
        """The shard of the store, put aside or not: that of the manifest, or a newer one if it is
        missing; without a manifest, the newest that is not older than the journal. Others may hold
        what was forgotten. Of two of one number, the one in the database: a backup was put back.
        """
        header, manifest = self.journal.ends()[0], self.readable_manifest()
        least = number_of(manifest.shard if manifest else header and header.shard)
        found = [path for path in (*self.shards, *self.damaged) if number_of(path.name) >= least]
        if manifest:
            found = [path for path in found if number_of(path.name) == least] or found
        return max(found, key=lambda path: number_of(path.name), default=None)

    def manifest(self) -> Manifest | None:
        """The manifest of the database, if there is one. Without the lock, it may be replaced a
        moment later. Raises DamagedStoreError if it is damaged, or another series of the engine
        wrote the shard; StorageError if it is another agent's.
        """
        with explained(UNCHANGED):
            self.require_ours()
            manifest = self._manifest()
            if manifest is None:
                self._require_not_moved()
                self._require_not_lost()
                return None
            if manifest.engine != ENGINE:
                raise DamagedStoreError(
                    f"The store's files were written by {manifest.engine[:40]!r}; this version "
                    f"works only with {ENGINE!r}.",
                    remedy=f"`{REPAIR_COMMAND}` makes a new store from its texts.",
                )
            if manifest.agent != self.agent_id:
                raise StorageError(
                    f"The store in the folder of {self.agent_id!r} belongs to "
                    f"{manifest.agent!r}. Move it back to the folder of that name."
                )
            return manifest

    def readable_manifest(self) -> Manifest | None:
        """The manifest, if it can be read, whichever engine wrote the shard."""
        with suppress(DamagedStoreError):
            return self._manifest()
        return None

    def write_manifest(self, manifest: Manifest) -> None:
        """Write this manifest; it is on disk on return."""
        told = manifest.model_dump(mode="json", by_alias=True)
        fields = {"format": manifest.format, **told}  # first, for who opens it
        disk.write_whole(self.database / MANIFEST, json.dumps(fields, indent=1).encode())

    def identity(self) -> tuple[int, int]:
        """What tells this manifest from any other. Raises FileNotFoundError without one."""
        found = (self.database / MANIFEST).stat()
        return found.st_ino, found.st_mtime_ns

    def put_aside(self, shard: Path) -> None:
        """Move this `shard` of the database out of it, as `damaged-3`. Raises StorageError if an
        earlier repair has left another by that name.
        """
        aside = self.path / shard.name.replace("shard", "damaged")
        if aside.exists():
            raise StorageError(f"An earlier repair has left {aside}. Move it away, and try again.")
        shard.rename(aside)
        disk.sync(self.database)
        disk.sync(self.path)

    def clear_debris(self, manifest: Manifest) -> None:
        """Remove what interrupted work has left, and what the shard of `manifest` has replaced."""
        disk.discard(self.journal.path)
        done = path_of(self.database, manifest).name  # its vectors are in the shard
        for entry in list(self.database.iterdir()):
            debris = _SHARD_OR_DEBRIS.fullmatch(entry.name) or entry.name == done
            if entry.name != manifest.shard and debris:
                disk.remove(entry)

    def discard_gathered(self) -> None:
        """Remove all vectors that are gathered; if that fails, the next run tries again."""
        for path in self.gathered:
            with suppress(OSError):
                disk.remove(path)

    def require_space(self, shard: Path | None = None) -> None:
        """Raise StorageError if the disk is too full to use a store on it safely, or to hold
        another shard like this one, and its journal.
        """
        rewritten = 0
        if shard:
            journal = self.journal.path.stat().st_size if self.journal.path.is_file() else 0
            rewritten = 2 * (disk.size(shard, holes=False) + journal)
        disk.require_space(self.database, rewritten)

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
        for folder in (*reversed(self.path.parents), self.path):  # each private, whatever the umask
            folder.mkdir(mode=0o700, exist_ok=True)

    def require_writable(self) -> None:
        """Raise StorageError if the store is `read_only`: the engine cannot open it."""
        if self.read_only:
            raise StorageError(
                "The store is read-only here, but the vector engine writes to every store that it "
                "opens. `agent-memory export` can read it. To use it, copy the folder to a place "
                "where you can write, keeping its files sparse (cp -r --no-preserve=mode "
                "--sparse=always).",
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
        # An early interruption of a creation leaves none of these.
        if url != HERE and (_lstat(self.database / MANIFEST) or self.shards):
            mine = f"memories.jsonl --agent {self.agent_id}"
            export = f"agent-memory export {mine} --root {shlex.quote(str(self.root))}"
            raise StorageError(
                f"The server in qdrant_url has no store of {self.agent_id!r}, but this machine has "
                f"one. {UNCHANGED} To take it there: `{export}`, move qdrant.db and memories.jsonl "
                f"out of {self.path}, and `agent-memory import {mine}`. To keep using it here: set "
                f"qdrant_url to {HERE!r}."
            )

    def lost(self, where: str, number: int) -> DamagedStoreError:
        """The error for a store without its manifest; there are a `number` of memories `where`."""
        left = number or self.shards or self.damaged
        mend = f"`{REPAIR_COMMAND}` makes a store from what is left. Or, to" if left else "To"
        return DamagedStoreError(
            f"The store of {self.agent_id!r} has lost its {MANIFEST}; {where} {counted(number)}.",
            remedy=f"{mend} begin anew, move {self.path} away.",
        )

    def _manifest(self) -> Manifest | None:
        try:
            text = (self.database / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        try:
            fields = json.loads(text)
            if fields["format"] > _FORMAT:
                raise newer(fields["format"])
            return Manifest.model_validate(fields)
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedStoreError(
                f"The store's {MANIFEST} is damaged; its memories are untouched.",
                remedy=f"`{REPAIR_COMMAND}` makes another.",
            ) from error

    def _require_not_lost(self) -> None:
        # A new store would replace the only copy of its memories.
        if not self.journal.path.exists():
            return
        number = len(self.journal.memories()[0])
        if number or not self.journal.ends()[0]:
            raise self.lost("its journal has", number)

    def _require_not_moved(self) -> None:
        moved = moved_root(self.root)
        away = moved and moved / self.agent_id
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


def _numbered(folder: Path, pattern: str) -> list[Path]:
    found = (path for path in _in(folder) if re.match(pattern, path.name))
    return sorted(found, key=lambda path: number_of(path.name))


def _in(folder: Path) -> Iterator[Path]:
    with suppress(OSError):  # it is a file, or may not be read
        yield from folder.iterdir()


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
