"""A collection on a Qdrant server, which others write to at the same time.

Every point has a `revision`, drawn anew at each write. A write takes effect only on points that are
new, or whose revision is the one that was read before; whether it did is read back. (That is
Qdrant's conditional update, `update_filter`.)
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from memory_semantic.collection import EVERYWHERE, Hit, Point, Where
from memory_semantic.errors import (
    MAYBE_DELETED,
    MAYBE_STORED,
    UNCHANGED,
    ReplacedStoreError,
    StorageError,
)
from memory_semantic.manifest import Manifest
from memory_semantic.ranking import CANDIDATES, NO_COSINE, rarity_of_unknown, words

from .connection import RefusedError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

T = TypeVar("T")

# The fields of a point that are filtered by or sorted by, and their indexes.
INDEXES = {"id": "keyword", "tags": "keyword", "revision": "keyword", "timestamp": "datetime"}
WORDS = "words"  # the sparse vector; the dense one has the name of the shard

# Points in a request: 128 of 1,536 numbers are 4 MB of JSON, and the server takes 32.
_BATCH = 128
# More than so many of the newest are sorted here: the server does not page what it sorts.
_SORTED = 1_000
# Twice as many as are asked for are found by the quantized vectors, and compared by the true ones.
_OVERSAMPLING = 2.0
# A delete is made again where the memory was copied into another collection meanwhile.
_DELETES = 3


class ServerCollection:
    """The collection that `name`, an alias, stands for; `ask` makes requests, `replaced` tells
    whether the name stands for another by now.
    """

    exclusive = False

    def __init__(
        self,
        name: str,
        manifest: Manifest,
        ask: Callable[[Callable[["QdrantClient"], Any]], Any],
        replaced: Callable[[], bool],
    ) -> None:
        self.outcome = UNCHANGED
        self._name = name
        self._manifest = manifest
        self._request = ask
        self._replaced = replaced

    def count(self, where: Where = EVERYWHERE) -> int:
        """As `Collection` says."""
        filter = _filter(where)
        return self._ask(lambda client: client.count(self._name, filter, exact=True)).count

    def write(self, points: Sequence[Point], before: Mapping[UUID, Point]) -> set[UUID]:
        """As `Collection` says, once the server has applied it to as many copies as it must."""
        self.outcome = MAYBE_STORED
        left: set[UUID] = set()
        for start in range(0, len(points), _BATCH):
            left |= self._write(points[start : start + _BATCH], before)
        return left

    def _write(self, points: Sequence[Point], before: Mapping[UUID, Point]) -> set[UUID]:
        from qdrant_client import models

        ids = [str(point.id) for point in points]
        revisions = {point.id: secrets.token_hex(8) for point in points}
        structs = [
            models.PointStruct(
                id=id,
                vector=self._vectors(point),
                payload={**point.payload, "revision": revisions[point.id]},
            )
            for id, point in zip(ids, points, strict=True)
        ]
        read = [before[p.id].payload.get("revision", "") for p in points if p.id in before]
        unchanged = models.Filter(must=[_any("revision", read)])
        self._ask(
            lambda client: client.upsert(
                self._name,
                structs,
                wait=True,
                # Through one of the copies, so that all see writes in the same order.
                ordering=models.WriteOrdering.MEDIUM,
                update_filter=unchanged,
            )
        )
        records = self._ask(
            lambda client: client.retrieve(self._name, ids, with_payload=["revision"])
        )
        found = {_uuid(record): (record.payload or {}).get("revision") for record in records}
        return {id for id, revision in revisions.items() if found.get(id) != revision}

    def nearest(
        self,
        vector: list[float],
        limit: int,
        places: Sequence[Where],
        asked: Sequence[int] = (),
        weight: float = 0.0,
    ) -> list[list[Hit]]:
        """As `Collection` says."""
        from qdrant_client import models

        name = self._manifest.shard
        params = models.SearchParams(
            quantization=models.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
        )
        similarity = None
        if asked and weight and self._manifest.words:
            similarity = _similarity(weight, self._rarity(asked))

        def request(where: Where) -> "models.QueryRequest":
            filter = _filter(where)
            if not similarity:
                return models.QueryRequest(
                    query=vector,
                    using=name,
                    filter=filter,
                    params=params,
                    limit=limit,
                    with_payload=True,
                )
            by_meaning = models.Prefetch(
                query=vector, using=name, filter=filter, params=params, limit=CANDIDATES
            )
            by_words = models.Prefetch(
                query=_sparse(asked), using=WORDS, filter=filter, limit=CANDIDATES
            )
            their_meaning = models.Prefetch(
                query=vector,
                using=name,
                params=models.SearchParams(exact=True),
                limit=CANDIDATES,
                prefetch=[by_words],
            )
            return models.QueryRequest(
                prefetch=[by_meaning, by_words, their_meaning],
                query=similarity,
                limit=limit,
                with_payload=True,
            )

        requests = [request(where) for where in places]
        answers = self._ask(lambda client: client.query_batch_points(self._name, requests))
        return [
            [_hit(point, point.score) for point in answer.points if point.score > -1.5]
            for answer in answers
        ]

    def newest(self, limit: int, where: Where) -> list[Hit]:
        """As `Collection` says."""
        from qdrant_client import models

        if limit > _SORTED:
            hits = [_hit(record) for page in self._pages(where) for record in page]
            hits.sort(key=lambda hit: hit.payload.get("timestamp", ""), reverse=True)
            return hits[:limit]
        latest = models.OrderBy(key="timestamp", direction=models.Direction.DESC)
        filter = _filter(where)
        records, _ = self._ask(
            lambda client: client.scroll(self._name, filter, limit=limit, order_by=latest)
        )
        return [_hit(record) for record in records]

    def retrieve(self, ids: Sequence[UUID]) -> list[Point]:
        """As `Collection` says."""
        found: list[Point] = []
        for start in range(0, len(ids), _BATCH):
            keys = [str(id) for id in ids[start : start + _BATCH]]
            records = self._ask(
                lambda client, keys=keys: client.retrieve(self._name, keys, with_vectors=True)
            )
            found += [self._point(record) for record in records]
        return found

    def points(self) -> Iterator[list[Point]]:
        """As `Collection` says; what is written meanwhile may be among them or not."""
        for records in self._pages(EVERYWHERE, with_vectors=True):
            yield [self._point(record) for record in records]

    def delete(self, doomed: Sequence[Hit]) -> None:
        """As `Collection` says; the server removes them from its files when it next rewrites
        these.
        """
        self.outcome = MAYBE_DELETED
        for start in range(0, len(doomed), _BATCH):
            self._delete(doomed[start : start + _BATCH])

    def _delete(self, doomed: Sequence[Hit]) -> None:
        from qdrant_client import models

        keys = models.HasIdCondition(has_id=[str(hit.id) for hit in doomed])
        # Who deletes one of them and stores its text again has another memory, with another id.
        ids = _any("id", [hit.payload["id"] for hit in doomed])
        same = models.Filter(must=[keys, ids])
        # One that is not ready has the vector under another name: nothing is deleted there.
        here = models.HasVectorCondition(has_vector=self._manifest.shard)
        doomed_here = models.Filter(must=[keys, ids, here])
        for _ in range(_DELETES):
            self._ask(
                lambda client: client.delete(
                    self._name,
                    models.FilterSelector(filter=doomed_here),
                    wait=True,
                    ordering=models.WriteOrdering.MEDIUM,
                )
            )
            replaced = self._replaced()  # as soon as it is ready
            if not self._ask(lambda client: client.count(self._name, same, exact=True)).count:
                return
            if replaced:
                raise _replaced_error()
        raise StorageError("Memories were restored while they were deleted.")

    def _pages(self, where: Where, with_vectors: bool = False) -> Iterator[list[Any]]:
        filter, offset = _filter(where), None
        while True:
            records, offset = self._ask(
                lambda client, offset=offset: client.scroll(
                    self._name, filter, limit=_BATCH, offset=offset, with_vectors=with_vectors
                )
            )
            yield records
            if offset is None:
                return

    def _ask(self, request: Callable[["QdrantClient"], T]) -> T:
        try:
            return self._request(request)
        except RefusedError as error:
            # The vector has the name of the shard, so that one of another model is refused.
            if self._replaced():
                raise _replaced_error() from error
            raise

    def _vectors(self, point: Point) -> Any:
        vectors: dict[str, Any] = {self._manifest.shard: list(point.vector)}
        if self._manifest.words:
            vectors[WORDS] = _sparse(words(point.payload["content"]))
        return vectors

    def _point(self, record: Any) -> Point:
        vectors = record.vector or {}
        contained = vectors[WORDS].indices if WORDS in vectors else []  # a text may have none
        vector = vectors.get(self._manifest.shard) or []
        return Point(
            _uuid(record), vector, record.payload or {}, contained if self._manifest.words else None
        )

    def _rarity(self, asked: Sequence[int]) -> float:
        """The sum of the rarities of these words, each of which is what a text that has the word
        scores by it alone.
        """
        from qdrant_client import models

        alone = [models.QueryRequest(query=_sparse([word]), using=WORDS, limit=1) for word in asked]
        answers = self._ask(lambda client: client.query_batch_points(self._name, alone))
        known = [answer.points[0].score for answer in answers if answer.points]
        unknown = len(answers) - len(known)
        return sum(known) + (unknown * rarity_of_unknown(self.count()) if unknown else 0)


def _replaced_error() -> ReplacedStoreError:
    return ReplacedStoreError("The memory was made anew while this call was running. Try again.")


def _sparse(asked: Sequence[int]) -> "models.SparseVector":
    from qdrant_client import models

    return models.SparseVector(indices=list(asked), values=[1.0] * len(asked))


def _similarity(weight: float, rarity: float) -> "models.FormulaQuery":
    """`ranking`'s similarity, of three prefetches: cosines of the nearest, sums of the rarities of
    the words contained, cosines of those.
    """
    from qdrant_client import models

    nearest, contained, cosine = (f"$score[{i}]" for i in range(3))
    # The larger of the two is half of their sum and their distance; Max is newer than 1.19.
    distance = models.AbsExpression(
        abs=models.SumExpression(sum=[nearest, models.NegExpression(neg=cosine)])
    )
    larger = models.MultExpression(
        mult=[0.5, models.SumExpression(sum=[nearest, cosine, distance])]
    )
    overlap = models.MultExpression(mult=[weight / rarity, contained])
    total = models.SumExpression(sum=[larger, overlap])
    return models.FormulaQuery(
        formula=models.MultExpression(mult=[1 / (1 + weight), total]),
        defaults={nearest: NO_COSINE, contained: 0.0, cosine: NO_COSINE},
    )


def _filter(where: Where) -> "models.Filter | None":
    from qdrant_client import models

    must: list[Any] = []
    if where.since or where.until:
        bounds = models.DatetimeRange(gte=where.since, lte=where.until)
        must.append(models.FieldCondition(key="timestamp", range=bounds))
    for name, values in (("tags", where.tags), ("id", where.ids)):
        if values:
            must.append(_any(name, values))
    return models.Filter(must=must) if must else None


def _any(name: str, values: Sequence[str]) -> "models.FieldCondition":
    from qdrant_client import models

    return models.FieldCondition(key=name, match=models.MatchAny(any=list(values)))


def _uuid(point: Any) -> UUID:
    return UUID(str(point.id))


def _hit(point: Any, similarity: float = 0.0) -> Hit:
    return Hit(_uuid(point), point.payload or {}, similarity)
