"""An open store on a Qdrant server, in which others may work at the same time.

Every point has a `revision`, a random number that changes with each write. A write takes effect
only on points that are new or still have the revision that was read before; whether it did is then
read back. (This is Qdrant's conditional update, `update_filter`.)
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

# Points in a request: 128 vectors of 1,536 numbers are 4 MB of JSON, and the server accepts 32.
_BATCH = 128
# If more of the newest are wanted, they are sorted here: the server does not page sorted results.
_SORTED = 1_000
# How often memories are merged again because others changed them at the same moment: each time, one
# of the others got through.
_MERGES = 20
# A delete is repeated if the memory was copied into another collection meanwhile.
_DELETES = 3
# Only a memory without a vector has a lower similarity.
_LOWEST = -1.5
# All writes go through one copy of a collection, so that all copies see them in the same order.
_ORDER = models.WriteOrdering.MEDIUM


class ServerStore:
    """The store that `info` describes, in the collection or alias `name`.

    `replaced` says whether the name now stands for another collection. If so, a call that reads or
    writes vectors raises ReplacedStoreError, because the vector is named after the shard.
    """

    def __init__(
        self, name: str, info: ServerInfo, connection: Connection, replaced: Callable[[], bool]
    ) -> None:
        self.info = info
        self._name = name
        # A node that is cut off from the others would acknowledge a write that it alone has, and
        # that is lost when it joins them again. So many copies must have what is read back.
        self._copies = info.write_consistency
        self._connection = connection
        self._replaced = replaced

    def count(self, where: Where = EVERYWHERE) -> int:
        """See `Store`."""
        return self._count(condition(where))

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """See `Store`."""
        return {record.key: self._memory(record) for record in self._read(keys)}

    def update(self, memories: Sequence[Memory]) -> list[Stored]:
        """See `Store`. Changes that others make at the same moment are merged, too. Durable means
        that the server has applied the write to as many copies as it must.
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
                except InputError as error:  # it says that nothing was changed
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
        raise StorageError(
            "Others keep changing the same memories, or the server's copies of them differ, which "
            "agent-memory reembed mends.",
            outcome,
        )

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
        else:
            latest = models.OrderBy(key="timestamp", direction=models.Direction.DESC)
            points, _ = self._ask(
                lambda client: client.scroll(self._name, condition(where), limit, latest)
            )
            memories = [self._memory(self._record(point)) for point in points]
        # A collection that is not ready lacks memories, and a question without a vector does not
        # notice that the name now stands for one.
        if len(memories) < (len(where.ids) or limit) and self._replaced():
            raise _replaced_error()
        return memories[:limit]

    def rarities(self, words: Sequence[int]) -> list[float]:
        """See `Store`. The score for a single word is its rarity; for a word that no memory has, it
        is computed from the approximate number of memories in the info.
        """
        alone = [models.QueryRequest(query=sparse([word]), using=WORDS, limit=1) for word in words]
        answers = self._ask(lambda client: client.query_batch_points(self._name, alone))
        unknown = ranking.rarity_of_unknown(self.info.memories)
        return [answer.points[0].score if answer.points else unknown for answer in answers]

    def scan(self, with_vectors: bool = True) -> Iterator[list[Record]]:
        """See `Store`. Records written meanwhile may or may not be included."""
        return self._pages(EVERYWHERE, with_vectors)

    def renew_ids(self, keys: Sequence[UUID]) -> int:
        """See `Store`. Memories that others change at the same moment keep their ids."""
        with explained(errors.MAYBE_STORED):
            records = self._read(keys)
            memories = [self._memory(record) for record in records]
            for memory in memories:
                memory.id = new_memory_id()
            return len(memories) - len(self._write(memories, records))

    def delete(self, memories: Sequence[Memory]) -> None:
        """See `Store`. Texts that were deleted and stored again meanwhile stay. The server removes
        the bytes when it next rewrites its files.
        """
        with explained(errors.MAYBE_DELETED):
            for some in _batches(memories):
                self._delete(some)

    def _delete(self, memories: Sequence[Memory]) -> None:
        # Deleting a memory and storing its text again gives another memory, with another id.
        same = [
            models.HasIdCondition(has_id=[str(memory.key) for memory in memories]),
            any_of("id", [memory.id for memory in memories]),
        ]
        # In a collection that is not ready, the vector has another name: nothing is deleted there.
        here = models.HasVectorCondition(has_vector=self.info.shard)
        doomed = models.FilterSelector(filter=models.Filter(must=[*same, here]))
        for _ in range(_DELETES):
            self._ask(lambda client: client.delete(self._name, doomed, wait=True, ordering=_ORDER))
            replaced = self._replaced()  # this waits until it is ready
            if not self._remain(models.Filter(must=[*same])):
                return
            if replaced:
                raise _replaced_error()
        raise StorageError("Memories were restored while they were being deleted.")

    def _remain(self, doomed: models.Filter) -> bool:
        found, _ = self._ask(
            lambda client: client.scroll(
                self._name, doomed, limit=1, with_payload=False, consistency=self._copies
            )
        )
        return bool(found)

    def _count(self, filter: models.Filter | None) -> int:
        return self._ask(lambda client: client.count(self._name, filter)).count

    def _write(self, memories: Sequence[Memory], before: Sequence[Record]) -> set[UUID]:
        """Replace the records read `before` with `memories`. Returns the keys of those that others
        have changed meanwhile; these are left alone.
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
        """The points under these keys, as far as they exist, with their vectors."""
        records = [record for some in _batches(list(keys)) for record in self._retrieve(some)]
        if not all(record.vector for record in records) and self._replaced():
            raise _replaced_error()
        return records

    def _retrieve(
        self, keys: Iterable[UUID], payload: bool | list[str] = True, vectors: bool = True
    ) -> list[Record]:
        ids = [str(key) for key in keys]
        found = self._ask(
            lambda client: client.retrieve(
                self._name, ids, payload, vectors, consistency=self._copies
            )
        )
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
