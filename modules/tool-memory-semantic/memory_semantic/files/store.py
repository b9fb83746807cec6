"""The store in a folder while its lock is held: its shard, and the journal beside that."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from ..errors import MAYBE_STORED, counted, damage, explained
from ..memory import Memory
from ..merging import merge_all
from ..store import EVERYWHERE, Merge, Question, Record, Stored, StoreInfo, Where, memory_of
from . import info as manifests
from .folder import AgentFolder, clear_debris
from .info import Manifest
from .shard import Shard
from .swap import require_space, swap
from .vectors import forget


class FileStore:
    """The `Store` in `folder`, as `manifest` describes it. Must be closed; closing it twice is
    harmless. It `ends` when nothing more can be done with it: after a swap, or if the journal is
    not whole any more.

    Raises DamagedStoreError if shard, journal and manifest do not agree.
    """

    def __init__(self, folder: AgentFolder, manifest: Manifest) -> None:
        database = folder.database
        self.info = manifest
        self.manifest_identity = manifests.identity(database)
        self.ends = False
        self._folder = folder
        self._path = path = database / manifest.shard
        if not path.is_dir():
            raise damage(manifest.agent, f"its {manifest.shard} is missing")
        self._shard = Shard(path, bool(manifest.words))
        try:
            count = self._shard.count()
            if count < manifest.memories:
                raise damage(
                    manifest.agent, f"it holds {count} of at least {counted(manifest.memories)}"
                )
            folder.journal.check(manifest, count, lambda: self._shard.scan(with_vectors=False))
            self.info = manifest.model_copy(update={"memories": count})
            clear_debris(database, manifest)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the shard's files."""
        self.ends = True
        self._shard.close()

    def count(self, where: Where = EVERYWHERE) -> int:
        """See `Store`."""
        return self._shard.count(where)

    def get(self, keys: Iterable[UUID], with_vectors: bool = True) -> dict[UUID, Memory]:
        """See `Store`. Without the vectors it is twice as fast."""
        records = self._shard.get(keys, with_vectors)
        return {record.key: self._memory(record) for record in records}

    def update(self, memories: Sequence[Memory], merge: Merge) -> list[Stored]:
        """See `Store`. Nobody else can change anything meanwhile. The shard is the truth: what it
        has is stored, even if the journal cannot be written.
        """
        known = self.get({memory.key for memory in memories})
        changed, stored = merge_all(memories, known, self.info, merge)
        if changed:
            with explained(MAYBE_STORED):
                self._folder.journal.tear()
                self._shard.upsert(changed)
                self._note(changed, known.keys())
        return stored

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Memory]]:
        """See `Store`. Raises DamagedStoreError if a search does not find all memories."""
        answers = self._shard.nearest(asked, limit)
        for answer, (_, where) in zip(answers, asked, strict=True):
            self._require_all(len(answer), limit, where)
        if not any(answers):
            self._require_payloads()
        return [
            self._memories(answer, where) for answer, (_, where) in zip(answers, asked, strict=True)
        ]

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """See `Store`. Raises DamagedStoreError if a search does not find all memories."""
        # The engine allocates room for as many as it is asked for.
        most = min(limit, max(1, self.info.memories))
        records = self._shard.newest(most, where)
        self._require_all(len(records), most, where)
        if not records:
            self._require_payloads()
        found = self._memories(records, where)
        return sorted(found, key=lambda memory: memory.timestamp, reverse=True)

    def rarities(self, words: Sequence[int]) -> list[float]:
        """See `Store`."""
        return self._shard.rarities(words)

    def scan(self) -> Iterator[list[Record]]:
        """See `Store`."""
        return self._shard.scan()

    def second_copy(self) -> dict[UUID, Memory] | None:
        """The journal's memories; None if it could not be written."""
        journal = self._folder.journal
        return journal.memories()[0] if journal.is_whole else None

    def keys(self) -> list[UUID]:
        """The keys of all memories."""
        return self._shard.keys()

    def delete(self, memories: Sequence[Memory], changed: Sequence[Memory] = ()) -> None:
        """See `Store`."""
        gone = {memory.key for memory in memories}
        payloads = {memory.key: memory.dict_for_storage() for memory in changed}
        require_space(self._folder, self._path)
        for path in self._folder.gathered:
            forget(path, gone)

        def left(record: Record) -> Record | None:
            if record.key in payloads:
                return record._replace(payload=payloads[record.key])
            return None if record.key in gone else record

        self.swap(self.info, left, self.info.memories - len(gone))

    def swap(
        self,
        info: StoreInfo,
        change: Callable[[Record], Record | None],
        number: int,
        with_vectors: bool = True,
    ) -> None:
        """Replace the shard by one as `info` describes it: what `change` makes of each record, or
        leaves out, which are a `number` of memories. Nothing more can be done with the store.
        """

        def pages() -> Iterator[list[Record]]:
            for page in self._shard.scan(with_vectors):
                yield [record for each in page if (record := change(each))]
            self.close()  # before its files are removed

        require_space(self._folder, self._path)
        lasting = info.model_copy(update={"created": self.info.created})
        swap(self._folder, lasting, pages(), number)

    def _note(self, changed: Sequence[Memory], known: Iterable[UUID]) -> None:
        number, lines = self.info.memories, list[tuple[Memory, int]]()
        for memory in changed:
            number += memory.key not in known
            lines.append((memory, number))
        self._folder.journal.add(lines)
        self.info = self.info.model_copy(update={"memories": number})
        self.ends = not self._folder.journal.is_whole

    def _require_all(self, found: int, limit: int, where: Where) -> None:
        if found < limit and found < self.count(where):  # an index has lost some
            raise damage(self.info.agent, "a search does not find all memories")

    def _require_payloads(self) -> None:
        # If what filters compare is lost, none finds anything. Then reading a page raises.
        self._memories(next(self._shard.scan(with_vectors=False)), EVERYWHERE)

    def _memories(self, records: Iterable[Record], where: Where) -> list[Memory]:
        return [memory for memory in map(self._memory, records) if where.admits(memory)]

    def _memory(self, record: Record) -> Memory:
        return memory_of(record, self.info.agent)
