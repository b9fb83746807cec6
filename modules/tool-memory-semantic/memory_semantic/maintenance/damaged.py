"""A store that cannot be trusted: the texts that are still in its files."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import TypeVar
from uuid import UUID

from ..errors import UNCHANGED, StorageError, explained
from ..files import disk
from ..files import info as manifests
from ..files.backend import FileBackend
from ..files.info import Manifest
from ..files.lock import take_lock
from ..memory import Memory, utc_now
from ..store import Record
from ..workers import run_blocking
from .salvage import Salvaged, salvage

T = TypeVar("T")


class DamagedFiles:
    """The damaged files from which a repair builds a new shard. Use them only within `run`."""

    def __init__(self, backend: FileBackend) -> None:
        self._backend = backend
        self._folder = backend.folder
        self._memories: dict[UUID, Memory] = {}

    async def run(self, work: Callable[["DamagedFiles"], T]) -> T:
        """Run `work` on these files, off the event loop and under the lock; returns its result."""

        def locked(cancelled: Event) -> T:
            end = time.monotonic() + self._backend.lock_seconds
            with explained(UNCHANGED), take_lock(self._folder.database, end, cancelled):
                return work(self)

        return await run_blocking(locked)

    def salvaged(self) -> Salvaged:
        """What can be read in the shard that the manifest names, or else in the fullest one. If an
        interrupted swap left several, one may hold what was deleted from another.
        """
        try:
            manifest = manifests.described(self._folder.database)
        except StorageError:
            manifest = None
        found = {shard.name: salvage(shard, self._folder.agent_id) for shard in self._shards()}
        if manifest and manifest.shard in found and found[manifest.shard].memories:
            return found[manifest.shard]
        return max(found.values(), key=lambda each: len(each.memories), default=Salvaged([], 0, 0))

    def scan(self, with_vectors: bool) -> Iterator[list[Record]]:
        """See `Store`. Reads what can be read now, without vectors."""
        self._memories = {memory.key: memory for memory in self.salvaged().memories}
        yield [Record(key, memory.dict_for_storage()) for key, memory in self._memories.items()]

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """See `Store`. Finds only what the last `scan` has read."""
        return {key: self._memories[key] for key in keys if key in self._memories}

    def replace_shard(self, folder: Path, manifest: Manifest) -> None:
        """See `FileStore`. What is replaced is kept beside the database."""
        database, shards = self._folder.database, self._shards()
        kept = self._folder.keep_as(utc_now())
        ignored = shutil.ignore_patterns("*.tmp")
        shutil.copytree(database, kept, copy_function=os.link, ignore=ignored)
        disk.make_private(kept)
        number = max((int(old.name.rpartition("-")[2]) for old in shards), default=0) + 1
        folder.rename(database / f"shard-{number}")
        disk.sync(database)
        manifests.write(database, manifest.model_copy(update={"shard": f"shard-{number}"}))
        for old in shards:
            disk.remove(old)

    def _shards(self) -> list[Path]:
        return list(self._folder.database.glob("shard-*[0-9]"))
