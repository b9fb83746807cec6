"""The vector engine: the only file that imports it, and all that is asked of it.

A shard is a folder of Qdrant Edge, Qdrant's own storage engine running in this process. It is
opened for one operation at a time, under the lock of its store, and never held: a handle does not
survive a fork, and two handles on one shard lose writes.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from . import disk
from .collection import EVERYWHERE, Hit, Point, Where
from .errors import REPAIR, DamagedStoreError, StorageError, exhausted
from .models import (
    ENGINE_BYTES,
    ENGINE_DESCRIPTORS,
    MIN_FREE_BYTES,
    NEW_STORE_BYTES,
    timestamp_text,
)
from .ranking import CANDIDATES, NO_COSINE, rarity_of_unknown, words
from .resources import denied, require_descriptors, require_file_size, require_memory, shortage

logger = logging.getLogger(__name__)

# The series of the engine that wrote a store. It is in beta: its files are promised to itself only.
ENGINE = "qdrant-edge 0.9"

# Points read at once, so that going through a large store stays small in memory.
_BATCH = 256

# What is read from its beginning to its end in every operation: the vectors and the indexes. No
# more, because each file takes a descriptor; these are thirteen, one more for each 10,000 memories.
_READ_ALWAYS = (
    "segments/*/vector_storage/vectors/*.mmap",
    "segments/*/payload_index/*/page_*.dat",
    "segments/*/payload_index/*/tracker.dat",
    "segments/*/payload_index/*/*/flags_*.dat",
)

# The name of the sparse vector that holds a text's words; the dense one has none.
_WORDS = "words"


class Shard:
    """An open shard. Every method raises DamagedStoreError if the engine fails, or panics, and
    ResourceError if that is for want of memory or the like.

    `with_words`: beside its vector, it holds of each text which words it has.
    """

    def __init__(self, handle: edge.EdgeShard, with_words: bool = False) -> None:
        self._handle = handle
        self._with_words = with_words

    @staticmethod
    def create(path: Path, dimensions: int, with_words: bool) -> None:
        """Make an empty shard, its indexes included, in the folder `path` that must not exist."""
        # float16 halves the file and keeps the ranking; no write-ahead log, because every write is
        # flushed before it counts. Cold: a store need not read all vectors in, and a search reads
        # them as it goes, which was faster up to 10,000 memories.
        vectors = edge.EdgeVectorParams(
            dimensions,
            edge.Distance.Cosine,
            datatype=edge.VectorStorageDatatype.Float16,
            memory=edge.Memory.Cold,
        )
        _require_resources(NEW_STORE_BYTES, 0)
        with _engine_errors("create the store's shard"):
            rarity = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
            handle = edge.EdgeShard.create(
                str(path),
                edge.EdgeConfig(
                    vectors={"": vectors},
                    sparse_vectors={_WORDS: rarity} if with_words else None,
                    wal_enabled=False,
                ),
            )
            for name, kind in (
                ("id", edge.PayloadSchemaType.Keyword),
                ("tags", edge.PayloadSchemaType.Keyword),
                ("timestamp", edge.PayloadSchemaType.Datetime),
            ):
                handle.update(edge.UpdateOperation.create_field_index(name, kind))
            handle.flush()
            handle.close()

    @staticmethod
    @contextmanager
    def handle(path: Path) -> Iterator[edge.EdgeShard]:
        """What a shard is made with: the engine's, in the folder `path`, closed again at the end of
        the block.
        """
        # Without this file the engine takes a segment for one that was never finished, and deletes
        # it. Ours are finished before they get their name.
        for segment in path.glob("segments/*/"):
            if not (segment / "version.info").is_file():
                raise DamagedStoreError(
                    f"The store is damaged: a version.info is missing. {REPAIR}"
                )
        # At closing the engine drops its files from the page cache, so that every operation would
        # read the vectors from the disk anew, and a filtered search each one by itself.
        read = [file for name in _READ_ALWAYS for file in path.glob(name)]
        _require_resources(disk.size(path), len(read))
        with disk.kept_in_cache(read):
            with _engine_errors("open the store"):
                handle = edge.EdgeShard.load(str(path))
            try:
                yield handle
            finally:
                try:
                    with _engine_errors("close the store"):
                        handle.close()
                except StorageError:  # what was written is flushed, so nothing is lost by this
                    logger.warning("The vector engine failed to close a store.")

    def count(self, where: Where = EVERYWHERE) -> int:
        """How many points there are."""
        with _engine_errors("count the memories"):
            return self._handle.count(edge.CountRequest(exact=True, filter=_filter(where)))

    def upsert(self, points: Sequence[Point]) -> None:
        """Insert or replace `points`. They are on disk when this returns."""
        with _engine_errors("write to the store"):
            self._handle.update(
                edge.UpdateOperation.upsert_points(
                    [edge.Point(point.id, self._vectors(point), point.payload) for point in points]
                )
            )
            self._handle.flush()

    def nearest(
        self,
        vector: list[float],
        limit: int,
        places: Sequence[Where],
        asked: Sequence[int] = (),
        weight: float = 0.0,
    ) -> list[list[Hit]]:
        """As `Collection` says."""
        meaning = edge.Query.Nearest(list(vector))
        similarity = None

        def request(where: Where) -> edge.QueryRequest:
            filter = _filter(where)
            if not similarity:
                return edge.QueryRequest(limit, query=meaning, filter=filter, with_payload=True)
            return edge.QueryRequest(
                limit,
                prefetches=[
                    edge.Prefetch(CANDIDATES, query=meaning, filter=filter),
                    by_words := edge.Prefetch(CANDIDATES, query=_containing(asked), filter=filter),
                    edge.Prefetch(CANDIDATES, query=meaning, prefetches=[by_words]),
                ],
                query=similarity,
                with_payload=True,
            )

        with _engine_errors("search the store"):
            if asked and weight and self._with_words:
                # One for all places: the rarity of a word is that in the whole store.
                similarity = _similarity(weight, self._rarity(asked))
            answers = self._handle.query_batch(
                edge.QueryBatchRequest([request(where) for where in places])
            )
        return [
            [_hit(point, point.score) for point in answer if point.score > -1.5]
            for answer in answers
        ]

    def newest(self, limit: int, where: Where) -> list[Hit]:
        """The `limit` most recently stored points."""
        with _engine_errors("read the store"):
            records, _ = self._handle.scroll(
                edge.ScrollRequest(
                    limit=limit,
                    filter=_filter(where),
                    with_payload=True,
                    order_by=edge.OrderBy("timestamp", edge.Direction.Desc),
                )
            )
        return [_hit(record) for record in records]

    def retrieve(self, ids: Sequence[UUID]) -> list[Point]:
        """Those of the points `ids` that exist."""
        with _engine_errors("read the store"):
            records = self._handle.retrieve(list(ids), True, True)
        return [_point(record) for record in records]

    def points(self) -> Iterator[list[Point]]:
        """Every point, vector included, some hundred at a time."""
        offset = None
        while True:
            records: list[Any]
            with _engine_errors("read the store"):
                records, offset = self._handle.scroll(
                    edge.ScrollRequest(
                        limit=_BATCH, offset=offset, with_payload=True, with_vector=True
                    )
                )
            yield [_point(record) for record in records]
            if offset is None:
                return

    def copy_to(
        self, path: Path, dimensions: int, *, leave_out: set[UUID], with_words: bool
    ) -> None:
        """Make a new shard in `path` with every point but `leave_out`, vectors as they are.

        The engine's own delete only hides: text and vectors would stay in the files.
        """
        self.create(path, dimensions, with_words)
        with Shard.handle(path) as handle:
            copy = Shard(handle, with_words)
            for points in self.points():
                copy.upsert([point for point in points if point.id not in leave_out])

    def _vectors(self, point: Point) -> Any:
        if not self._with_words:
            return list(point.vector)
        return {"": list(point.vector), _WORDS: _sparse(words(point.payload["content"]))}

    def _rarity(self, asked: Sequence[int]) -> float:
        """The sum of the rarities of these words. The engine tells each: it is what a text that has
        the word scores by it alone.
        """
        alone = [edge.QueryRequest(1, query=_containing([word])) for word in asked]
        answers = self._handle.query_batch(edge.QueryBatchRequest(alone))
        unknown = rarity_of_unknown(self.count())
        return sum(answer[0].score if answer else unknown for answer in answers)


def _sparse(asked: Sequence[int]) -> edge.SparseVector:
    return edge.SparseVector(list(asked), [1.0] * len(asked))


def _containing(asked: Sequence[int]) -> edge.Query:
    return edge.Query.Nearest(_sparse(asked), using=_WORDS)


def _similarity(weight: float, rarity: float) -> edge.Formula:
    """`ranking`'s similarity, of three prefetches: cosines of the nearest, sums of the rarities of
    the words contained, cosines of those.
    """
    nearest, contained, cosine = (edge.Expression.Variable(f"$score[{i}]") for i in range(3))
    overlap = edge.Expression.Mult([edge.Expression.Constant(weight / rarity), contained])
    total = edge.Expression.Sum([edge.Expression.Max([nearest, cosine]), overlap])
    return edge.Formula(
        edge.Expression.Mult([edge.Expression.Constant(1 / (1 + weight)), total]),
        {"$score[0]": NO_COSINE, "$score[1]": 0.0, "$score[2]": NO_COSINE},
    )


def _filter(where: Where) -> edge.Filter | None:
    must: list[Any] = []
    if where.since or where.until:
        bounds = edge.RangeDateTime(
            gte=timestamp_text(where.since) if where.since else None,
            lte=timestamp_text(where.until) if where.until else None,
        )
        must.append(edge.FieldCondition("timestamp", range=bounds))
    for name, values in (("tags", where.tags), ("id", where.ids)):
        if values:
            must.append(edge.FieldCondition(name, match=edge.MatchAny(list(values))))
    return edge.Filter(must=must) if must else None


def _point(record: Any) -> Point:
    kept = record.vector if isinstance(record.vector, dict) else {"": record.vector}
    contained = kept[_WORDS].indices if _WORDS in kept else None
    return Point(record.id, kept.get("") or [], record.payload or {}, contained)


def _hit(point: Any, similarity: float = 0.0) -> Hit:
    return Hit(point.id, point.payload or {}, similarity)


def _require_resources(size: int, files: int) -> None:
    """Raise OSError unless the engine can open a shard of `size` bytes, so many `files` of which
    are kept in the cache.
    """
    require_memory(2 * size + ENGINE_BYTES)
    require_descriptors(files + ENGINE_DESCRIPTORS)
    require_file_size(MIN_FREE_BYTES)


@contextmanager
def _engine_errors(action: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        # The engine raises bare exceptions, and panics as something that is no Exception. Its
        # words stay in the cause: they may quote what is stored.
        panicked = type(error).__module__ == "pyo3_runtime"
        if isinstance(error, Exception) or panicked:
            number = shortage(error)
            if number:
                raise exhausted(f"The vector engine failed to {action}", number) from error
            if denied(error):
                raise StorageError(
                    f"The vector engine failed to {action}: Permission denied. Files of the store "
                    "may not be used by this user, as after a command run with sudo (then: chown)."
                ) from error
            raise DamagedStoreError(
                f"The vector engine failed to {action}. If it does so again, the store's files are "
                f"damaged. {REPAIR}"
            ) from error
        raise
