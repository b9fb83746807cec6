"""The store in a folder while its lock is held: the manifest, and the shard that it names."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from uuid import UUID

from .. import ranking
from ..errors import MAYBE_DELETED, MAYBE_STORED, counted, damage, explained
from ..limits import LOCAL_MODEL
from ..memory import Memory
from ..merging import merge_all
from ..store import EVERYWHERE, Merge, Question, Record, Stored, Where, memory_of
from . import disk
from . import info as manifests
from .backup import Backup
from .folder import clear_debris, number_of
from .info import Manifest
from .shard import Shard


class FileStore:
    """The `Store` in the folder `database`. Must be closed; closing it twice is harmless.

    `manifest_identity` identifies the manifest that it last read or wrote, and `changed` says
    whether its memories were changed. Raises DamagedStoreError if the store holds fewer memories
    than it should.
    """

    is_ours_alone = True

    def __init__(self, database: Path, manifest: Manifest, backup: Backup | None = None) -> None:
        self.info = manifest
        self.changed = False
        self._backup = backup
        self.manifest_identity = manifests.identity(database)
        self._database = database
        self._shard = Shard(database / manifest.shard, manifest.words)
        try:
            count = self.count()
            self._header = backup and backup.header()  # which nobody changes under the lock
            least = max(manifest.memories, self._header.memories if self._header else 0)
            if count < least:
                raise damage(manifest.agent, f"it holds {count} of at least {counted(least)}")
            # There are more after an interrupted write.
            self._describe(memories=count)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the shard's files."""
        self._shard.close()

    def count(self, where: Where = EVERYWHERE) -> int:
        """See `Store`."""
        return self._shard.count(where)

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """See `Store`."""
        return {record.key: self._memory(record) for record in self._shard.get(keys)}

    def update(self, memories: Sequence[Memory], merge: Merge) -> list[Stored]:
        """See `Store`. Nobody else can change anything meanwhile."""
        known = self.get({memory.key for memory in memories})
        changed, stored = merge_all(memories, known, self.info, merge)
        if changed:
            with explained(MAYBE_STORED):
                self.changed = True
                self._shard.upsert(changed)
                self._describe(memories=self.count(), common=self._common(changed))
        return stored

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Memory]]:
        """See `Store`. Raises DamagedStoreError if a search does not find all memories."""
        answers = self._shard.nearest(asked, limit)
        for answer, (_, where) in zip(answers, asked, strict=True):
            if len(answer) < limit and len(answer) < self.count(where):
                raise damage(self.info.agent, "a search does not find all memories")
        return [[self._memory(record) for record in answer] for answer in answers]

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """See `Store`."""
        # The engine allocates room for as many as it is asked for.
        most = min(limit, max(1, self.info.memories))
        return [self._memory(record) for record in self._shard.newest(most, where)]

    def rarities(self, words: Sequence[int]) -> list[float]:
        """See `Store`."""
        return self._shard.rarities(words)

    def scan(self, with_vectors: bool = True) -> Iterator[list[Record]]:
        """See `Store`."""
        return self._shard.scan(with_vectors)

    def delete(self, memories: Sequence[Memory]) -> None:
        """See `Store`. Their bytes stay, and the manifest says so until a rebuild is complete, for
        which there must be space. They leave the backup first: the other way round, an interruption
        would leave there what is in no answer.
        """
        disk.require_space(self._database, disk.size(self._database / self.info.shard, holes=False))
        if self._backup:
            ids, texts = ({getattr(m, name) for m in memories} for name in ("id", "content"))
            self._backup.drop(ids, texts)
            self._header = self._backup.header()
        with explained(MAYBE_DELETED):
            self.changed = True
            self._describe(memories=self.info.memories - len(memories), erasing=True)
            self._shard.delete(memory.key for memory in memories)

    @property
    def backup_is_due(self) -> bool:
        """Whether `back_up` would write the backup."""
        if not self._backup:
            return False
        return self._backup.is_due(self._header, self.info.memories, changed=self.changed)

    def back_up(self) -> None:
        """Write the backup if it is due. If that fails, a log says so."""
        if self._backup and self.backup_is_due:
            self._backup.write(self.info, self._all_readable())

    def replace_shard(self, folder: Path, manifest: Manifest) -> None:
        """Replace the current shard with the one in `folder`, which `manifest` describes. Writing
        the manifest is the swap; then the old files are removed. This closes the store.
        """
        self.close()
        name = f"shard-{number_of(Path(self.info.shard)) + 1}"
        folder.rename(self._database / name)
        disk.sync(self._database)
        changes = {"shard": name, "created": self.info.created}
        manifests.write(self._database, manifest.model_copy(update=changes))
        clear_debris(self._database, keep=name)

    def _all_readable(self) -> Iterator[Record]:
        yield from self._shard.readable(self._shard.keys())

    def _describe(self, **changes: object) -> None:
        described = self.info.model_copy(update=changes)
        if described != self.info:
            manifests.write(self._database, described)
            self.info, self.manifest_identity = described, manifests.identity(self._database)

    def _common(self, changed: Sequence[Memory]) -> tuple[int, ...] | None:
        # With the built-in model, a search is fast enough to work them out itself.
        if not self.info.words or self.info.model.model == LOCAL_MODEL:
            return None
        words = {word for memory in changed for word in ranking.indexed(memory.content)}
        words = sorted(words.union(self.info.common or ()))
        rarities = self.rarities(words)
        return tuple(sorted(ranking.common(words, rarities, self.info.memories)))

    def _memory(self, record: Record) -> Memory:
        return memory_of(record, self.info.agent)
