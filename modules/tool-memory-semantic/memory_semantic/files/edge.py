"""The vector engine: only this file imports it.

A shard is a folder of Qdrant Edge, Qdrant's storage engine running in this process. It is opened
under its store's lock: a handle does not survive a fork, and two handles on one shard lose writes.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

from ..errors import DamagedStoreError, StorageError, denied, exhausted, named, shortage
from ..points import Condition, How, Point, Question, StoreInfo
from ..ranking import CANDIDATES, NO_COSINE, indexed
from . import disk

logger = logging.getLogger(__name__)

# The name of the sparse vector that holds a text's words; the dense one has none.
WORDS = "words"

# How often a write is sent until it reads as written. Each kill inside a flush costs one more.
_SENDS = 100

# From so many memories on, a new shard with words is made to open fast: an open, a search and a
# close take .56 of the processor at 5,000 memories; at 1,000 it would be more than without. Without
# words there is little to read at an opening, and it would be 1.2 at 10,000.
LARGE = 5_000

# The files that a search reads in full: the vectors and the indexes. No more, because each file
# takes a descriptor; these are five, and two more for every 10,000 memories.
_READ_ALWAYS = (
    "segments/*/vector_storage/vectors/*.mmap",
    "segments/*/payload_index/*/page_*.dat",
    "segments/*/payload_index/*/tracker.dat",
    "segments/*/payload_index/*/*/flags_*.dat",
)
# Those of an immutable segment, whose vectors the engine reads at each opening.
_READ_AT_OPENING = "segments/*/vector_storage/matrix.dat"
_ALSO_READ = (
    "segments/*/payload_index/*/*.bin",
    f"segments/*/vector_index-{WORDS}/inverted_index.dat",
)


class Shard:
    """The open shard in the folder `path`, with or without `words` for each text. Must be closed.

    Every method raises DamagedStoreError if the engine fails or panics, or ResourceError if that is
    for lack of memory or the like.
    """

    def __init__(self, path: Path, words: bool) -> None:
        self._words = words
        # Without the first, the engine takes the shard for an empty one; without the other, a
        # segment for an unfinished one, and deletes it. Ours are finished when they get names.
        segments = list(path.glob("segments/*/"))
        for file in (path / "edge_config.json", *(each / "version.info" for each in segments)):
            if not file.is_file():
                raise DamagedStoreError(f"The store is damaged: its {file.name} is missing.")
        immutable = list(path.glob(_READ_AT_OPENING))
        if len(segments) > len(immutable) + 1:  # one would bring back what the other has forgotten
            raise DamagedStoreError("The store is damaged: its files are a mix of two copies.")
        names = (*_READ_ALWAYS, *(_ALSO_READ if immutable else ()))
        self._read_always = [file for name in names for file in path.glob(name)]
        self._cached = ExitStack()
        self._cached.enter_context(disk.kept_in_cache(immutable))
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
    def create(cls, path: Path, info: StoreInfo, large: bool) -> "Shard":
        """A new shard, as `info` describes it, in the folder `path`, which is made. If it will be
        `large`, call `optimize` once it is filled.
        """
        # float16 halves the file and keeps the ranking. No write-ahead log, because every write is
        # flushed before it counts. Cold, because storing need not read in all vectors, and a search
        # reads them as it goes; from an immutable segment that takes twice as long as to read them
        # at opening. One thread, because a shard has one segment, or one and a small one: otherwise
        # each open would start four per processor for nothing.
        vectors = edge.EdgeVectorParams(
            info.model.dimensions,
            edge.Distance.Cosine,
            datatype=edge.VectorStorageDatatype.Float16,
            memory=edge.Memory.Cached if large else edge.Memory.Cold,
        )
        cold = edge.Memory.Cold if large else None
        rarity = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf, memory=cold)
        words = {WORDS: rarity} if info.words else None
        config = edge.EdgeConfig(
            vectors={"": vectors},
            sparse_vectors=words,
            max_search_threads=1,
            wal_enabled=False,
            **(_immutable() if large else {}),
        )
        path.mkdir(mode=0o700)  # the engine would make it open to all
        with _engine_errors("create the store's shard"):
            handle = edge.EdgeShard.create(str(path), config)
            # order_by needs it. Other filters scan all memories, which takes less than an index
            # takes at each opening.
            index = edge.UpdateOperation.create_field_index
            handle.update(index("timestamp", edge.DatetimeIndexParams(memory=cold)))
            handle.flush()
            handle.close()
        return cls(path, bool(info.words))

    def upsert(self, points: Sequence[Point]) -> None:
        """Insert or replace points by their keys. They are on disk on return.

        The engine numbers operations from a file that a flush writes last. If a process was killed
        inside a flush, the numbers begin again too low, and the engine silently skips what it takes
        for known: so it is read back, and sent again with the next number.
        """
        left = points
        for _ in range(_SENDS):
            self.fill(left)
            self.flush()
            found = {each.key: each.payload for each in self.get([p.key for p in left])}
            left = [point for point in left if found.get(point.key) != point.payload]
            if not left:
                return
        raise DamagedStoreError(f"Told {_SENDS} times to write, the vector engine did not.")

    def fill(self, points: Sequence[Point]) -> None:
        """Insert or replace these, which are on disk after `flush`: for a shard that is being made.
        In one that is in use, only `upsert` is safe.
        """
        sent = [edge.Point(each.key, self._vectors(each), each.payload) for each in points]
        if sent:
            with _engine_errors("write to the store"):
                self._handle.update(edge.UpdateOperation.upsert_points(sent))

    def flush(self) -> None:
        """Put on disk what was filled in."""
        with _engine_errors("write to the store"):
            self._handle.flush()

    def optimize(self) -> None:
        """Put all that was filled in into an immutable segment, whose indexes are not read at each
        opening. What is stored later is in a small segment beside it. Only for a shard that is
        being made: killed in between, it may have lost some.
        """
        with _engine_errors("write to the store"):
            self._handle.optimize()

    def get(self, keys: Sequence[UUID], vectors: bool = False) -> list[Point]:
        """The points under these keys, as far as they exist; with vectors half as fast."""
        with _engine_errors("read the store"):
            return [_point(each) for each in self._handle.retrieve(list(keys), True, vectors)]

    def query(self, asked: Sequence[Question], limit: int) -> list[list[Point]]:
        """See `Points`. A point that lacks its vector is in no answer."""
        if any(question.vector for question in asked):
            # When it closes, the engine drops its files from the page cache: every search would
            # read the vectors from disk again, and a filtered one each of them separately.
            self._cached.enter_context(disk.kept_in_cache(self._read_always))
            self._read_always = []
        take_all = self.versions() <= 2 * CANDIDATES
        requests = edge.QueryBatchRequest([_request(each, limit, take_all) for each in asked])
        with _engine_errors("search the store"):
            answers = self._handle.query_batch(requests)
        return [
            [_point(each, each.score) for each in answer if each.score > -1.5] for answer in answers
        ]

    def page(
        self,
        where: Sequence[Condition],
        limit: int,
        *,
        after: UUID | None = None,
        newest: bool = False,
        vectors: bool = False,
    ) -> list[Point]:
        """See `Points`; with vectors a third as fast."""
        latest = edge.OrderBy("timestamp", edge.Direction.Desc) if newest else None
        request = edge.ScrollRequest(
            limit=limit,
            offset=UUID(int=after.int + 1) if after else None,
            filter=_filter(where),
            order_by=latest,
            with_payload=True,
            with_vector=vectors,
        )
        with _engine_errors("read the store"):
            return [_point(each) for each in self._handle.scroll(request)[0]]

    def count(self, where: Sequence[Condition] = ()) -> int:
        """See `Points`."""
        with _engine_errors("count the memories"):
            return self._handle.count(edge.CountRequest(exact=True, filter=_filter(where)))

    def versions(self) -> int:
        """As `count`, but a text of which a kill inside a flush has left two versions counts twice.
        That is so in a large shard, until it is written again: a filter finds the one that passes.
        """
        with _engine_errors("count the memories"):
            return self._handle.info().points_count

    def keys(self) -> list[UUID]:
        """The keys of all points."""
        size = max(1, self.count())
        with _engine_errors("read the store"):
            points, _ = self._handle.scroll(edge.ScrollRequest(limit=size, with_payload=False))
        return [_point(each).key for each in points]

    def readable(self, keys: Sequence[UUID]) -> Iterator[Point]:
        """The points under these keys, with vectors; if they cannot be read together, one by one,
        as far as that is possible.
        """
        try:
            yield from self.get(keys, vectors=True)
        except DamagedStoreError:
            for key in keys:
                with suppress(DamagedStoreError):
                    yield from self.get([key], vectors=True)

    def _vectors(self, point: Point) -> Any:
        if not self._words:
            return point.vector
        return {"": point.vector, WORDS: _sparse(indexed(point.payload["content"]))}


def is_large(info: StoreInfo, number: int) -> bool:
    """Whether a store with this `number` of memories has an immutable segment."""
    return bool(info.words) and number >= LARGE


def _immutable() -> dict[str, Any]:
    # One segment, immutable however small it is (1 kB), and no graph (m=0): the search stays exact.
    graph = edge.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=10_000_000)
    optimizers = edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=1)
    return {"hnsw_config": graph, "optimizers": optimizers}


def _point(found: Any, score: float | None = None) -> Point:
    vector = found.vector  # each time it is asked for, the engine makes a new list
    by_name = vector if isinstance(vector, dict) else {"": vector}
    words = by_name[WORDS].indices if WORDS in by_name else None
    return Point(found.id, found.payload or {}, by_name.get("") or [], words, score)


_CONDITIONS: dict[How, Callable[[str, Any], Any]] = {
    "any": lambda field, value: edge.FieldCondition(field, match=edge.MatchAny(list(value))),
    "from": lambda field, value: edge.FieldCondition(field, range=edge.RangeDateTime(gte=value)),
    "to": lambda field, value: edge.FieldCondition(field, range=edge.RangeDateTime(lte=value)),
    "set": lambda field, _: edge.Filter(must_not=[edge.IsEmptyCondition(field)]),
    "unset": lambda field, _: edge.IsEmptyCondition(field),
}


def _filter(where: Sequence[Condition]) -> edge.Filter | None:
    must = [_CONDITIONS[how](field, value) for field, how, value in where]
    return edge.Filter(must=must) if must else None


def _request(question: Question, limit: int, take_all: bool) -> edge.QueryRequest:
    """The `limit` points with the highest score, as `ranking` defines it; with `take_all`, each of
    them is a candidate, of which there are at most twice as many as else.
    """
    filter = _filter(question.where)
    by_meaning = edge.Query.Nearest(list(question.vector))
    by_words = edge.Query.Nearest(_sparse(question.words), using=WORDS)
    if not (question.vector and question.words and question.rarity):
        query = by_meaning if question.vector else by_words
        return edge.QueryRequest(limit, query=query, filter=filter, with_payload=True)
    number = 2 * CANDIDATES if take_all else CANDIDATES
    nearest = edge.Prefetch(number, query=by_meaning, filter=filter)
    sharing_words = edge.Prefetch(number, query=by_words, filter=filter)
    cosines = edge.Prefetch(CANDIDATES, query=by_meaning, prefetches=[sharing_words])
    return edge.QueryRequest(
        limit,
        prefetches=[nearest, sharing_words, *([] if take_all else [cosines])],
        query=_formula(question),
        with_payload=True,
    )


def _sparse(words: Iterable[int]) -> edge.SparseVector:
    indices = list(words)
    return edge.SparseVector(indices, [1.0] * len(indices))


def _formula(question: Question) -> edge.Formula:
    # The scores of three prefetches: cosines of the nearest, added rarities of the words that a
    # text contains, cosines of those texts.
    nearest, contained, cosine = (edge.Expression.Variable(f"$score[{i}]") for i in range(3))
    share = edge.Expression.Mult([edge.Expression.Constant(1 / question.rarity), contained])
    overlap = edge.Expression.Mult([edge.Expression.Constant(question.weight), share, share])
    total = edge.Expression.Sum([edge.Expression.Max([nearest, cosine]), overlap])
    nothing = NO_COSINE * (1 + question.weight)
    return edge.Formula(
        edge.Expression.Mult([edge.Expression.Constant(1 / (1 + question.weight)), total]),
        {"$score[0]": nothing, "$score[1]": 0.0, "$score[2]": nothing},
    )


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
            f"{failure}. If this happens again, the store's files are damaged."
        ) from error
