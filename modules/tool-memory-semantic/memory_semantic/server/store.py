"""An open store on a Qdrant server, in which others work at the same time.

Every point has a `revision`, drawn again at each write. A write takes effect only on points that
are new, or whose revision is the one that was read before; whether it did is read back. (That is
Qdrant's conditional update, `update_filter`.)
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from qdrant_client import QdrantClient, models

from .. import errors, ranking
from ..errors import InputError, ReplacedStoreError, StorageError, explained
from ..memory import Memory, new_memory_id
from ..merging import merge_all
from ..store import EVERYWHERE, Question, Record, Stored, Where, memory_of
from .connection import Connection, RefusedError
from .info import ServerInfo
from .requests import WORDS, any_of, condition, similarity, sparse

T = TypeVar("T")

# Points in a request: 128 of 1,536 numbers are 4 MB of JSON, and the server takes 32.
_BATCH = 128
# More than so many of the newest are sorted here: the server does not page what it sorts.
_SORTED = 1_000
# How often memories are merged again because others changed them at the same moment: each time one
# of the others got through.
_MERGES = 20
# A delete is made again where the memory was copied into another collection meanwhile.
_DELETES = 3
# No similarity is lower, but that of a memory without a vector.
_LOWEST = -1.5
# Writes go through one of the copies of a collection, so that all see them in the same order.
_ORDER = models.WriteOrdering.MEDIUM


class ServerStore:
    """The store that `info` describes, in what `name` stands for, a collection or an alias.

    `replaced` tells whether the name stands for another collection by now. A call that reads or
    writes vectors raises ReplacedStoreError then, since the vector has the name of the shard.
    """

    def __init__(
        self, name: str, info: ServerInfo, connection: Connection, replaced: Callable[[], bool]
    ) -> None:
        self.info = info
        self._name = name
        self._connection = connection
        self._replaced = replaced

    def count(self, where: Where = EVERYWHERE) -> int:
        """See `Store`."""
        return self._count(condition(where))

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """See `Store`."""
        return {record.key: self._memory(record) for record in self._read(keys)}

    def update(self, memories: Sequence[Memory]) -> list[Stored]:
        """As `Store` says; what others change at the same moment is merged, too. Durable means
        that the server has applied it to as many copies as it must.
        """
        done: dict[UUID, Stored] = {}
        outcome = errors.UNCHANGED
        for _ in range(_MERGES):
            left = [memory for memory in memories if memory.key not in done]
            with explained(outcome):
                records = self._read({memory.key for memory in left})
                known = {record.key: self._memory(record) for record in records}
                try:
                    changed, stored = merge_all(left, known, self.info)
                except InputError as error:  # which says that nothing was changed
                    told = str(error).replace(errors.UNCHANGED, outcome)
                    raise InputError(told) from None
            outcome = errors.MAYBE_STORED
            with explained(outcome):
                lost = self._write(changed, records)
            done |= {
                memory.key: each
                for memory, each in zip(left, stored, strict=True)
                if memory.key not in lost
            }
            if not lost:
                return [done[memory.key] for memory in memories]
        raise StorageError("Others keep changing the same memories.", outcome)

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Memory]]:
        """See `Store`."""
        requests = [similarity(each, self.info.shard, where, limit) for each, where in asked]
        answers = self._ask(lambda client: client.query_batch_points(self._name, requests))
        return [
            [self._memory(self._record(point)) for point in answer.points if point.score >= _LOWEST]
            for answer in answers
        ]

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """See `Store`."""
        if limit > _SORTED:
            memories = [self._memory(record) for page in self._pages(where) for record in page]
            memories.sort(key=lambda memory: memory.timestamp, reverse=True)
            return memories[:limit]
        latest = models.OrderBy(key="timestamp", direction=models.Direction.DESC)
        points, _ = self._ask(
            lambda client: client.scroll(self._name, condition(where), limit, latest)
        )
        return [self._memory(self._record(point)) for point in points]

    def rarities(self, words: Sequence[int]) -> list[float]:
        """As `Store` says. A memory scores by a word alone the rarity of the word; that of a word
        that none has is worked out from about how many memories there are, as the info says.
        """
        alone = [models.QueryRequest(query=sparse([word]), using=WORDS, limit=1) for word in words]
        answers = self._ask(lambda client: client.query_batch_points(self._name, alone))
        unknown = ranking.rarity_of_unknown(self.info.memories)
        return [answer.points[0].score if answer.points else unknown for answer in answers]

    def scan(self, with_vectors: bool = True) -> Iterator[list[Record]]:
        """As `Store` says; what is written meanwhile may be among them or not."""
        return self._pages(EVERYWHERE, with_vectors)

    def renew_ids(self, keys: Sequence[UUID]) -> int:
        """As `Store` says; those that others change at the same moment keep theirs."""
        with explained(errors.MAYBE_STORED):
            records = self._read(keys)
            memories = [self._memory(record) for record in records]
            for memory in memories:
                memory.id = new_memory_id()
            return len(memories) - len(self._write(memories, records))

    def delete(self, memories: Sequence[Memory]) -> None:
        """As `Store` says, unless they are other memories by now; the server removes them from its
        files when it next rewrites these.
        """
        with explained(errors.MAYBE_DELETED):
            for some in _batches(memories):
                self._delete(some)

    def _delete(self, memories: Sequence[Memory]) -> None:
        # Who deletes one of them and stores its text again has another memory, with another id.
        same = [
            models.HasIdCondition(has_id=[str(memory.key) for memory in memories]),
            any_of("id", [memory.id for memory in memories]),
        ]
        # One that is not ready has the vector under another name: nothing is deleted there.
        here = models.HasVectorCondition(has_vector=self.info.shard)
        doomed = models.FilterSelector(filter=models.Filter(must=[*same, here]))
        for _ in range(_DELETES):
            self._ask(lambda client: client.delete(self._name, doomed, wait=True, ordering=_ORDER))
            replaced = self._replaced()  # as soon as it is ready
            if not self._count(models.Filter(must=[*same])):
                return
            if replaced:
                raise _replaced_error()
        raise StorageError("Memories were restored while they were deleted.")

    def _count(self, filter: models.Filter | None) -> int:
        return self._ask(lambda client: client.count(self._name, filter)).count

    def _write(self, memories: Sequence[Memory], before: Sequence[Record]) -> set[UUID]:
        """Put the memories in place of what was read `before`. Returns the keys of those that
        others have changed meanwhile, which are as others left them.
        """
        unchanged = models.Filter(must=[any_of("revision", list(map(_revision, before)))])
        lost: set[UUID] = set()
        for some in _batches(memories):
            points = [self._point(memory) for memory in some]
            self._ask(
                lambda client, points=points: client.upsert(
                    self._name, points, wait=True, ordering=_ORDER, update_filter=unchanged
                )
            )
            written = {(point.payload or {})["revision"] for point in points}
            keys = {memory.key for memory in some}
            there = self._retrieve(keys, payload=["revision"], vectors=False)
            lost |= keys - {record.key for record in there if _revision(record) in written}
        return lost

    def _read(self, keys: Iterable[UUID]) -> list[Record]:
        """Those of the points with these keys that exist, with their vectors."""
        records = [record for some in _batches(list(keys)) for record in self._retrieve(some)]
        if not all(record.vector for record in records) and self._replaced():
            raise _replaced_error()
        return records

    def _retrieve(
        self, keys: Iterable[UUID], payload: bool | list[str] = True, vectors: bool = True
    ) -> list[Record]:
        ids = [str(key) for key in keys]
        found = self._ask(lambda client: client.retrieve(self._name, ids, payload, vectors))
        return [self._record(point) for point in found]

    def _pages(self, where: Where, with_vectors: bool = False) -> Iterator[list[Record]]:
        filter, offset = condition(where), None
        while True:
            points, offset = self._ask(
                lambda client, offset=offset: client.scroll(
                    self._name, filter, _BATCH, offset=offset, with_vectors=with_vectors
                )
            )
            yield [self._record(point) for point in points]
            if offset is None:
                return

    def _ask(self, request: Callable[[QdrantClient], T]) -> T:
        try:
            return self._connection.ask(request)
        except RefusedError as error:
            if self._replaced():
                raise _replaced_error() from error
            raise

    def _point(self, memory: Memory) -> models.PointStruct:
        vectors: dict[str, Any] = {self.info.shard: memory.embedding}
        if self.info.words:
            vectors[WORDS] = sparse(ranking.indexed(memory.content))
        payload = {**memory.dict_for_storage(), "revision": secrets.token_hex(8)}
        return models.PointStruct(id=str(memory.key), vector=vectors, payload=payload)

    def _record(self, point: Any) -> Record:
        vectors = point.vector or {}
        words = None
        if self.info.words:
            words = vectors[WORDS].indices if WORDS in vectors else []  # a text may have none
        vector = vectors.get(self.info.shard) or []
        score = getattr(point, "score", None)
        return Record(UUID(str(point.id)), point.payload or {}, vector, words, score)

    def _memory(self, record: Record) -> Memory:
        return memory_of(record, self.info.agent)


def _revision(record: Record) -> str:
    return record.payload.get("revision", "")


def _replaced_error() -> ReplacedStoreError:
    return ReplacedStoreError("The store was rebuilt while this call was running. Try again.")


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
