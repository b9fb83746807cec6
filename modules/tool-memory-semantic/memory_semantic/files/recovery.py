"""What is left of a store that is damaged or lost: what the engine can read, and its backup."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TypeVar
from uuid import UUID

from ..errors import UNCHANGED, DamagedStoreError, StorageError, counted, explained
from ..memory import Memory, utc_now
from ..store import Record, StoreInfo, memory_of
from ..workers import run_cancellable
from . import disk
from . import info as manifests
from .access import FileAccess
from .apart import run_apart
from .folder import number_of
from .info import Manifest
from .lock import take_lock
from .shard import Shard

T = TypeVar("T")


class Recovery:
    """The source from which a repair builds a new store. Use it only within `run`. `found` says how
    many `memories` were read, for who decides whether to repair.
    """

    def __init__(self, access: FileAccess) -> None:
        self._access = access
        self._folder = access.folder
        self.memories: dict[UUID, Memory] = {}
        self.found = ""

    async def run(self, work: Callable[["Recovery"], T]) -> T:
        """Run `work` on what is left, off the event loop and under the lock; returns its result."""

        def locked(cancelled: Event) -> T:
            end = time.monotonic() + self._access.lock_seconds
            with explained(UNCHANGED), take_lock(self._folder.database, end, cancelled):
                return work(self)

        return await run_cancellable(locked)

    @property
    def manifest(self) -> Manifest | None:
        """The manifest, if it can be read, whichever engine wrote the shard."""
        try:
            return manifests.described(self._folder.database)
        except DamagedStoreError:
            return None

    @property
    def info(self) -> StoreInfo | None:
        """What the store was, by its manifest or else by its backup."""
        header = self._folder.backup and self._folder.backup.header()
        if self.manifest or not (header and header.embedding):
            return self.manifest
        return StoreInfo(
            agent=header.agent,
            embedding=header.embedding,
            endpoint=header.endpoint,
            words=header.words or False,
            created=header.exported,
        )

    def read(self) -> None:
        """Read all `memories` that are left; of a text that both have, the later one."""
        stored, read = self._read_shard()
        backup = self._folder.backup
        self.memories = {memory.key: memory for memory in read}
        backed_up = list(backup.memories()) if backup else []
        for memory in backed_up:
            known = self.memories.get(memory.key)
            if known is None or known.timestamp < memory.timestamp:
                self.memories[memory.key] = memory
        header, manifest = backup and backup.header(), self.manifest
        promised = header.memories if header else 0, manifest.memories if manifest else 0
        most = max(stored, len(self.memories), *promised)
        second = "there is no backup that can be read"
        if header:
            second = f"the backup of {header.exported:%Y-%m-%d %H:%M} UTC holds {len(backed_up):,}"
        self.found = (
            f"The engine can read {counted(len(read))}, {second}. Of at least {most:,} that were "
            f"stored, {len(self.memories):,} will be there."
        )

    def scan(self, with_vectors: bool) -> Iterator[list[Record]]:
        """See `Store`. Reads what can be read now, without vectors."""
        self.read()
        yield [Record(key, memory.dict_for_storage()) for key, memory in self.memories.items()]

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """See `Store`. Finds only what was last `read`."""
        return {key: self.memories[key] for key in keys if key in self.memories}

    def replace_shard(self, folder: Path, manifest: Manifest) -> None:
        """See `FileStore`. What is replaced is kept beside the database."""
        database, shards = self._folder.database, self._folder.shards
        if shards:
            kept = self._folder.keep_as(utc_now())
            ignored = shutil.ignore_patterns("*.tmp")
            shutil.copytree(database, kept, copy_function=os.link, ignore=ignored)
            disk.make_private(kept)
        name = f"shard-{number_of(shards[-1]) + 1 if shards else 1}"
        folder.rename(database / name)
        disk.sync(database)
        manifests.write(database, manifest.model_copy(update={"shard": name}))
        for old in shards:
            disk.remove(old)

    def _read_shard(self) -> tuple[int, list[Memory]]:
        """How many memories the shard that the manifest names had, and those that can be read. If
        there is none, the newest: others may hold what was deleted from it.
        """
        named = self.manifest and self._folder.database / self.manifest.shard
        for shard in [named] if named and named.exists() else self._folder.shards[::-1]:
            stored, memories = self._read_copy(shard)
            if memories:
                return stored, memories
        return 0, []

    def _read_copy(self, shard: Path) -> tuple[int, list[Memory]]:
        # The engine changes what it opens.
        copy = self._folder.rebuild / "read"
        disk.require_space(self._folder.database, disk.size(shard, holes=False))
        disk.remove(copy)
        shutil.copytree(shard, copy, copy_function=disk.copy_sparse)
        try:
            return run_apart(_readable, copy, self._folder.agent_id, size=disk.size(copy))
        except DamagedStoreError:
            return 0, []
        finally:
            disk.remove(copy)


def _readable(shard: Path, agent: str) -> tuple[int, list[Memory]]:
    memories: list[Memory] = []
    with closing(Shard(shard, words=False)) as opened:
        keys = opened.keys()
        for record in opened.readable(keys):
            try:
                memory = memory_of(record, agent)
            except StorageError:
                continue
            if memory.agent_id == agent:
                memories.append(memory)
    return len(keys), memories
