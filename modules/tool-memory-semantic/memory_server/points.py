"""The points of a store on a Qdrant server, which others read and write at the same time.

A new text is inserted by a write that only inserts, and of a known one only those fields are
written that changed. So what two clients change in one memory at the same moment is kept of both,
unless it is the same field.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from memory_semantic.errors import MAYBE, explained
from memory_semantic.limits import PAGE
from memory_semantic.points import Condition, How, Point, Question, StoreInfo
from memory_semantic.ranking import CANDIDATES, NO_COSINE, indexed
from qdrant_client import models

from .connection import Connection

WORDS = "words"  # the name of a memory's sparse vector; `vector_name` is that of the dense one

# Points in a write: 128 vectors of 1,536 numbers are 4 MB of JSON, and the server accepts 32.
_BATCH = 128
# All writes go through one copy of a collection, so that all copies see them in the same order.
_ORDER = models.WriteOrdering.MEDIUM


def vector_name(info: StoreInfo) -> str:
    """The name of the vector in each point. That of another model has another name: the server
    refuses a call that began before the store was removed and made again with another model.
    """
    return sha256(json.dumps([*info.model, info.endpoint]).encode()).hexdigest()[:12]


class ServerPoints:
    """The `Points` in the collection `name`, which `info` describes; its `memories` may be out of
    date.
    """

    def __init__(self, name: str, info: StoreInfo, connection: Connection) -> None:
        self.info = info
        self._name = name
        self._ask = connection.ask
        self._vector = vector_name(info)
        self._vectors = [self._vector, *([WORDS] if info.words else [])]

    def upsert(self, points: Sequence[Point]) -> None:
        """See `Points`. Durable means that the server has applied it to more than half of the
        copies. Of a text that another client inserts at the same moment, only that one's is kept.
        """
        with explained(MAYBE):
            for start in range(0, len(points), _BATCH):
                some = points[start : start + _BATCH]
                new = [self._struct(point) for point in some if point.changed is None]
                insert = models.PointsList(points=new, update_mode=models.UpdateMode.INSERT_ONLY)
                inserts = [models.UpsertOperation(upsert=insert)] if new else []
                self._write([*inserts, *_changes(some)])

    def get(self, keys: Sequence[UUID], vectors: bool = False) -> list[Point]:
        """See `Points`."""
        names, found = vectors and self._vectors, list[Any]()
        for start in range(0, len(keys), PAGE):
            ids = [str(key) for key in keys[start : start + PAGE]]
            found += self._ask(
                lambda client, ids=ids: client.retrieve(self._name, ids, with_vectors=names)
            )
        return [self._point(each) for each in found]

    def query(self, asked: Sequence[Question], limit: int) -> list[list[Point]]:
        """See `Points`."""
        requests = [_request(question, self._vector, limit) for question in asked]
        answers = self._ask(lambda client: client.query_batch_points(self._name, requests))
        return [[self._point(each) for each in answer.points] for answer in answers]

    def page(
        self,
        where: Sequence[Condition],
        limit: int,
        *,
        after: UUID | None = None,
        newest: bool = False,
        vectors: bool = False,
    ) -> list[Point]:
        """See `Points`. Those written meanwhile may or may not be included."""
        latest = models.OrderBy(key="timestamp", direction=models.Direction.DESC)
        found, _ = self._ask(
            lambda client: client.scroll(
                self._name,
                _filter(where),
                limit,
                latest if newest else None,
                str(UUID(int=after.int + 1)) if after else None,
                with_vectors=vectors and self._vectors,
            )
        )
        return [self._point(each) for each in found]

    def count(self) -> int:
        """See `Points`."""
        return self._ask(lambda client: client.count(self._name)).count

    def forget(self, points: Sequence[Point], relinked: Sequence[Point]) -> None:
        """See `Points`. A text that was deleted and stored again meanwhile has another id, and
        stays. The server removes the bytes when it next rewrites its files. The links are written
        first: if the call ends between the two, none leads to nothing.
        """
        keys = models.HasIdCondition(has_id=[str(point.key) for point in points])
        ids = _CONDITIONS["any"]("id", [point.payload["id"] for point in points])
        doomed = models.FilterSelector(filter=models.Filter(must=[keys, ids]))
        with explained(MAYBE):
            self._write([*_changes(relinked), models.DeleteOperation(delete=doomed)])

    def _write(self, operations: Sequence[Any]) -> None:
        self._ask(
            lambda client: client.batch_update_points(self._name, operations, ordering=_ORDER)
        )

    def _struct(self, point: Point) -> models.PointStruct:
        vectors: dict[str, Any] = {self._vector: point.vector}
        if self.info.words:
            vectors[WORDS] = _sparse(indexed(point.payload["content"]))
        return models.PointStruct(id=str(point.key), vector=vectors, payload=point.payload)

    def _point(self, found: Any) -> Point:
        vectors, words = found.vector or {}, None
        if self.info.words:  # a text may have none
            words = vectors[WORDS].indices if WORDS in vectors else []
        vector, score = vectors.get(self._vector) or [], getattr(found, "score", None)
        return Point(UUID(str(found.id)), found.payload or {}, vector, words, score)


def _changes(points: Sequence[Point]) -> Iterator[Any]:
    """What writes the fields of known points that changed, and takes away those that are gone; one
    operation for all that change alike.
    """
    alike: dict[str, tuple[dict[str, Any], list[str], list[Any]]] = {}
    for point in points:
        if point.changed:
            fields = {name: point.payload.get(name) for name in sorted(point.changed)}
            there = {name: value for name, value in fields.items() if value is not None}
            gone = sorted(fields.keys() - there.keys())
            alike.setdefault(json.dumps(fields), (there, gone, []))[2].append(str(point.key))
    for there, gone, ids in alike.values():
        if there:
            change = models.SetPayload(payload=there, points=ids)
            yield models.SetPayloadOperation(set_payload=change)
        if gone:
            loss = models.DeletePayload(keys=gone, points=ids)
            yield models.DeletePayloadOperation(delete_payload=loss)


def _request(question: Question, vector: str, limit: int) -> models.QueryRequest:
    """The `limit` points with the highest score, as `ranking` defines it."""
    words, filter = _sparse(question.words), _filter(question.where)
    if not (question.vector and question.words and question.rarity):
        query, using = (list(question.vector), vector) if question.vector else (words, WORDS)
        return models.QueryRequest(
            query=query, using=using, filter=filter, limit=limit, with_payload=True
        )
    meaning: dict[str, Any] = {"query": list(question.vector), "using": vector}
    nearest = models.Prefetch(**meaning, filter=filter, limit=CANDIDATES)
    by_words = models.Prefetch(query=words, using=WORDS, filter=filter, limit=CANDIDATES)
    both = models.Prefetch(**meaning, limit=2 * CANDIDATES, prefetch=[nearest, by_words])
    return models.QueryRequest(
        prefetch=[both, by_words],
        query=_formula(question.weight, question.rarity),
        limit=limit,
        with_payload=True,
    )


def _sparse(words: Sequence[int]) -> models.SparseVector:
    return models.SparseVector(indices=list(words), values=[1.0] * len(words))


def _empty(field: str) -> models.IsEmptyCondition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=field))


_CONDITIONS: dict[How, Callable[[str, Any], models.Condition]] = {
    "any": lambda f, v: models.FieldCondition(key=f, match=models.MatchAny(any=list(v))),
    "from": lambda f, v: models.FieldCondition(key=f, range=models.DatetimeRange(gte=v)),
    "to": lambda f, v: models.FieldCondition(key=f, range=models.DatetimeRange(lte=v)),
    "set": lambda field, _: models.Filter(must_not=[_empty(field)]),
    "unset": lambda field, _: _empty(field),
}


def _filter(where: Sequence[Condition]) -> models.Filter | None:
    must = [_CONDITIONS[how](field, value) for field, how, value in where]
    return models.Filter(must=must) if must else None


def _formula(weight: float, rarity: float) -> models.FormulaQuery:
    """The similarity of `ranking`, from the scores of two prefetches: cosines, and the added
    rarities of the words that a text contains.
    """
    cosine, contained = "$score[0]", "$score[1]"
    overlap = models.MultExpression(mult=[weight / rarity**2, contained, contained])
    total = models.SumExpression(sum=[cosine, overlap])
    no_cosine = NO_COSINE * (1 + weight)  # whatever the words add
    return models.FormulaQuery(
        formula=models.MultExpression(mult=[1 / (1 + weight), total]),
        defaults={cosine: no_cosine, contained: 0.0},
    )
