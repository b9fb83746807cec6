"""The vector engine: only this file and `query` import it.

A shard is a folder of Qdrant Edge, Qdrant's storage engine running in this process. It is opened
under its store's lock: a handle does not survive a fork, and two handles on one shard lose writes.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from ..errors import REPAIR, DamagedStoreError, StorageError, exhausted
from ..memory import Memory
from ..ranking import indexed, rarity_of_unknown
from ..resources import denied, named, shortage
from ..store import EVERYWHERE, Question, Record, StoreInfo, Where
from . import disk
from .query import WORDS, condition, containing, similarity, sparse

logger = logging.getLogger(__name__)

# Points read and written at once, so that reading a large store takes little memory.
_BATCH = 500

# How often a write is sent until it reads as written. Each kill inside a flush costs one more.
_SENDS = 100

# The files that a search reads in full: the vectors and the indexes. No more, because each file
# takes a descriptor; these are five, and two more for every 10,000 memories.
_READ_ALWAYS = (
    "segments/*/vector_storage/vectors/*.mmap",
    "segments/*/payload_index/*/page_*.dat",
    "segments/*/payload_index/*/tracker.dat",
    "segments/*/payload_index/*/*/flags_*.dat",
)


class Shard:
    """The open shard in the folder `path`, with or without `words` for each text. Must be closed.

    Every method raises DamagedStoreError if the engine fails or panics, or ResourceError if that is
    for lack of memory or the like.
    """

    def __init__(self, path: Path, words: bool) -> None:
        self._words = words
        # The engine takes a segment without this file for an unfinished one and deletes it. Ours
        # are finished before they get their names.
        for segment in path.glob("segments/*/"):
            if not (segment / "version.info").is_file():
                raise DamagedStoreError(
                    f"The store is damaged: a version.info is missing. {REPAIR}"
                )
        self._read_always = [file for name in _READ_ALWAYS for file in path.glob(name)]
        self._cached = ExitStack()
        with _engine_errors("open the store"):
            self._handle = edge.EdgeShard.load(str(path))

    def close(self) -> None:
        """Release the files. All writes are flushed, so nothing is lost if that fails."""
        with self._cached:
            try:
                with _engine_errors("close the store"):
                    self._handle.close()
            except StorageError:
                logger.warning("The vector engine failed to close a store.")

    @classmethod
    def create(cls, path: Path, info: StoreInfo) -> "Shard":
        """A new shard, as `info` describes it, in the folder `path`, which is made."""
        # float16 halves the file and keeps the ranking. No write-ahead log, because every write is
        # flushed before it counts. Cold, because storing need not read in all vectors, and a search
        # reads them as it goes, which was faster up to 10,000 memories. One thread, because a shard
        # has one segment: otherwise each open would start four per processor for nothing.
        vectors = edge.EdgeVectorParams(
            info.model.dimensions,
            edge.Distance.Cosine,
            datatype=edge.VectorStorageDatatype.Float16,
            memory=edge.Memory.Cold,
        )
        rarity = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
        words = {WORDS: rarity} if info.words else None
        config = edge.EdgeConfig(
            vectors={"": vectors}, sparse_vectors=words, max_search_threads=1, wal_enabled=False
        )
        path.mkdir(mode=0o700)  # the engine would make it open to all
        with _engine_errors("create the store's shard"):
            handle = edge.EdgeShard.create(str(path), config)
            # order_by needs it. Other filters scan all memories, which takes less than an index
            # takes at each opening.
            index = edge.UpdateOperation.create_field_index
            handle.update(index("timestamp", edge.PayloadSchemaType.Datetime))
            handle.flush()
            handle.close()
        return cls(path, bool(info.words))

    def count(self, where: Where = EVERYWHERE) -> int:
        """How many memories there are."""
        with _engine_errors("count the memories"):
            return self._handle.count(edge.CountRequest(exact=True, filter=condition(where)))

    def upsert(self, memories: Iterable[Memory]) -> None:
        """Insert or replace memories by their keys. They are on disk when this returns.

        The engine numbers operations from a file that a flush writes last. If a process was killed
        inside a flush, the numbers begin again too low, and the engine silently skips what it takes
        for known: so it is read back, and sent again with the next number.
        """
        left = [
            Record(memory.key, memory.dict_for_storage(), memory.embedding) for memory in memories
        ]
        for _ in range(_SENDS):
            self.fill(left)
            self.flush()
            found = {each.key: each.payload for each in self.get([r.key for r in left], False)}
            left = [record for record in left if found.get(record.key) != record.payload]
            if not left:
                return
        raise DamagedStoreError(f"The vector engine did not write, {_SENDS} times. {REPAIR}")

    def fill(self, records: Sequence[Record]) -> None:
        """Insert or replace these, which are on disk after `flush`: for a shard that is being made.
        In one that is in use, only `upsert` is safe.
        """
        points = [edge.Point(each.key, self._vectors(each), each.payload) for each in records]
        if points:
            with _engine_errors("write to the store"):
                self._handle.update(edge.UpdateOperation.upsert_points(points))

    def flush(self) -> None:
        """Put on disk what was filled in."""
        with _engine_errors("write to the store"):
            self._handle.flush()

    def get(self, keys: Iterable[UUID], with_vectors: bool = True) -> list[Record]:
        """The points under these keys, as far as they exist."""
        with _engine_errors("read the store"):
            return [
                _record(point) for point in self._handle.retrieve(list(keys), True, with_vectors)
            ]

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Record]]:
        """For each question, the `limit` most similar points that pass its filter, best first."""
        # When it closes, the engine drops its files from the page cache: every search would read
        # the vectors from disk again, and a filtered one each of them separately.
        self._cached.enter_context(disk.kept_in_cache(self._read_always))
        self._read_always = []
        answers = self._query([similarity(question, where, limit) for question, where in asked])
        return [
            [_record(point, point.score) for point in answer if point.score > -1.5]
            for answer in answers
        ]

    def rarities(self, words: Sequence[int]) -> list[float]:
        """How rare each word is: the engine's score for a text that shares only this word."""
        answers = self._query([edge.QueryRequest(1, query=containing([word])) for word in words])
        unknown = rarity_of_unknown(self.count())
        return [answer[0].score if answer else unknown for answer in answers]

    def newest(self, limit: int, where: Where) -> list[Record]:
        """The `limit` points with the latest times, latest first."""
        latest = edge.OrderBy("timestamp", edge.Direction.Desc)
        return self._page(limit=limit, filter=condition(where), order_by=latest)[0]

    def scan(self, with_vectors: bool = True) -> Iterator[list[Record]]:
        """Every point, a few hundred at a time, in key order; with vectors three times as slow."""
        offset = None
        while True:
            records, offset = self._page(limit=_BATCH, with_vector=with_vectors, offset=offset)
            yield records
            if offset is None:
                return

    def keys(self) -> list[UUID]:
        """The keys of all points."""
        size = max(1, self.count())
        with _engine_errors("read the store"):
            points, _ = self._handle.scroll(edge.ScrollRequest(limit=size, with_payload=False))
        return [_record(point).key for point in points]

    def readable(self, keys: Sequence[UUID]) -> Iterator[Record]:
        """The points under these keys; if they cannot be read together, one by one, as far as that
        is possible.
        """
        try:
            yield from self.get(keys)
        except DamagedStoreError:
            for key in keys:
                with suppress(DamagedStoreError):
                    yield from self.get([key])

    def _query(self, requests: list[edge.QueryRequest]) -> list[list[Any]]:
        with _engine_errors("search the store"):
            return self._handle.query_batch(edge.QueryBatchRequest(requests))

    def _page(self, **request: Any) -> tuple[list[Record], Any]:
        with _engine_errors("read the store"):
            points, offset = self._handle.scroll(edge.ScrollRequest(with_payload=True, **request))
        return [_record(point) for point in points], offset

    def _vectors(self, record: Record) -> Any:
        if not self._words:
            return record.vector
        return {"": record.vector, WORDS: sparse(indexed(record.payload["content"]))}


def _record(point: Any, score: float | None = None) -> Record:
    vector = point.vector  # each time it is asked for, the engine makes a new list
    kept = vector if isinstance(vector, dict) else {"": vector}
    words = kept[WORDS].indices if WORDS in kept else None
    return Record(point.id, point.payload or {}, kept.get("") or [], words, score)


@contextmanager
def _engine_errors(action: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        # The engine raises bare exceptions, and its panics are not of class Exception. Its message
        # stays in the cause, because it may quote what is stored.
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        failure = f"The vector engine failed to {action}"
        if number := shortage(error):
            raise exhausted(failure, number) from error
        if denied(error):
            raise StorageError(
                f"{failure}: Permission denied. This user may not use some files of the store, "
                "perhaps because a command was run with sudo (then: chown)."
            ) from error
        reason = named(error)
        failure += f": {reason}" if reason else ""
        raise DamagedStoreError(
            f"{failure}. If this happens again, the store's files are damaged. {REPAIR}"
        ) from error
