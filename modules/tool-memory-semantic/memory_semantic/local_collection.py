"""A collection in a folder: the shard that the manifest names, and the manifest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from . import disk
from . import manifest as manifests
from .collection import Hit, Point, Where
from .errors import MAYBE_DELETED, MAYBE_STORED, UNCHANGED, damage
from .manifest import Manifest
from .shard import ENGINE, Shard


class LocalCollection(Shard):
    """The collection in the folder `database`, its lock held, its shard opened as `handle`."""

    exclusive = True

    def __init__(self, handle: Any, database: Path, manifest: Manifest) -> None:
        super().__init__(handle, manifest.words)
        self.outcome = UNCHANGED
        self._database = database
        self._manifest = manifest

    def verify_count(self) -> None:
        """Raise StorageError if memories are missing; count in those of an interrupted write."""
        count, known = self.count(), self._manifest.memories
        if count < known:
            raise damage(self._manifest.agent, f"it holds {count} of at least {known} memories")
        if count > known:
            self.use(self._manifest.shard, count)

    def write(self, points: Sequence[Point], before: Mapping[UUID, Point]) -> set[UUID]:
        """As `Collection` says; nobody else can have changed any."""
        self.outcome = MAYBE_STORED
        self.upsert(points)
        self.use(self._manifest.shard, self.count())
        return set()

    def newest(self, limit: int, where: Where) -> list[Hit]:
        """As `Collection` says; the engine makes room for as many as it is asked for."""
        return super().newest(min(limit, max(1, self._manifest.memories)), where)

    def delete(self, doomed: Sequence[Hit]) -> None:
        """As `Collection` says; nothing of them remains in the files."""
        self._rewrite({hit.id for hit in doomed}, self._manifest.words, MAYBE_DELETED)

    def add_words(self) -> None:
        """Hold the words of the texts from now on; vectors stay as they are."""
        self._rewrite(set(), True, UNCHANGED)

    def _rewrite(self, leave_out: set[UUID], with_words: bool, outcome: str) -> None:
        """A new shard takes the place of the present one, whose files are removed when it is
        closed. The one write of the manifest is the swap.
        """
        name = self._next_shard()
        self.copy_to(
            self._database / name,
            self._manifest.embedding.dimensions,
            leave_out=leave_out,
            with_words=with_words,
        )
        disk.settle(self._database / name)
        self.outcome = outcome
        self._manifest.words = with_words
        self.use(name, self._manifest.memories - len(leave_out))

    def replace(self, shard: Path, manifest: Manifest) -> None:
        """Let the shard in the folder `shard`, which is moved here, take the place of the present
        one; `manifest` describes it.
        """
        name = self._next_shard()
        shard.rename(self._database / name)
        self._manifest.words = manifest.words
        self._manifest.embedding = manifest.embedding
        self._manifest.endpoint = manifest.endpoint
        self.outcome = "Run `agent-memory doctor`."
        self.use(name, manifest.memories)

    def _next_shard(self) -> str:
        return f"shard-{int(self._manifest.shard.rpartition('-')[2]) + 1}"

    def use(self, shard: str, memories: int) -> None:
        """Let the store be the shard of this name, which holds so many memories: the swap, and
        the acknowledgement of a write. The files of another are removed when the store is closed.
        """
        self._manifest.shard = shard
        self._manifest.engine = ENGINE
        self._manifest.memories = memories
        manifests.write(self._database, self._manifest)
