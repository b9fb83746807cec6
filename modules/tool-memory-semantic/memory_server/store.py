"""An open store on a Qdrant server, in which others may work at the same time; see `points`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from memory_semantic import errors, ranking
from memory_semantic.errors import InputError, StorageError, explained
from memory_semantic.memory import Memory
from memory_semantic.merging import merge_all, relink
from memory_semantic.store import EVERYWHERE, Merge, Question, Record, Stored, Where, memory_of
from qdrant_client import models

from .connection import Connection
from .info import ServerInfo
from .points import Points
from .requests import WORDS, condition, record_of, similarity, sparse

# If more of the newest are wanted, they are sorted here: the server does not page sorted results.
_SORTED = 1_000
# How often memories are merged again because others changed them at the same moment: each time, one
# of the others got through.
_MERGES = 20
# Only a memory without a vector has a lower similarity.
_LOWEST = -1.5


class ServerStore:
    """The store that `info` describes, which the alias `name` stands for; see `Points`."""

    def __init__(self, name: str, info: ServerInfo, connection: Connection) -> None:
        self.info = info
        self._points = Points(name, info, connection)

    def count(self, where: Where = EVERYWHERE) -> int:
        """See `Store`."""
        found = self._points.ask(lambda client: client.count(self._points.name, condition(where)))
        return found.count

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """See `Store`."""
        return {record.key: self._memory(record) for record in self._points.read(list(keys))}

    def update(self, memories: Sequence[Memory], merge: Merge) -> list[Stored]:
        """See `Store`. Changes that others make at the same moment are merged, too. Durable means
        that the server has applied the write to as many copies as it must.
        """
        return self._update(memories, merge, errors.MAYBE_STORED)

    def _update(self, memories: Sequence[Memory], merge: Merge, begun: str) -> list[Stored]:
        """See `update`; `begun` is the outcome of an error once something may be written."""
        done: dict[UUID, Stored] = {}
        outcome = errors.UNCHANGED
        for _ in range(_MERGES):
            left = [memory for memory in memories if memory.key not in done]
            with explained(outcome):
                records = self._points.read({memory.key for memory in left}, to_write=True)
                known = {record.key: self._memory(record) for record in records}
                try:
                    changed, stored = merge_all(left, known, self.info, merge)
                except InputError as error:  # it says that nothing was changed
                    told = str(error).replace(errors.UNCHANGED, outcome)
                    raise InputError(told) from None
            outcome = begun
            with explained(outcome):
                lost = self._points.write(changed, records)
            done |= {
                memory.key: each
                for memory, each in zip(left, stored, strict=True)
                if memory.key not in lost
            }
            if not lost:
                return [done[memory.key] for memory in memories]
        differ = "Others keep changing the same memories, or the server's copies of them differ."
        raise StorageError(differ, outcome)

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Memory]]:
        """See `Store`."""
        requests = [similarity(each, self.info.vector, where, limit) for each, where in asked]
        answers = self._points.ask(
            lambda client: client.query_batch_points(self._points.name, requests)
        )
        return [
            self._memories(point for point in answer.points if point.score >= _LOWEST)
            for answer in answers
        ]

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        """See `Store`."""
        if limit > _SORTED:
            pages = self._points.pages(where)
            memories = [self._memory(record) for page in pages for record in page]
            memories.sort(key=lambda memory: memory.timestamp, reverse=True)
        else:
            latest = models.OrderBy(key="timestamp", direction=models.Direction.DESC)
            points, _ = self._points.ask(
                lambda client: client.scroll(self._points.name, condition(where), limit, latest)
            )
            memories = self._memories(points)
        return memories[:limit]

    def rarities(self, words: Sequence[int]) -> list[float]:
        """See `Store`. The score for a single word is its rarity; for a word that no memory has, it
        is computed from the approximate number of memories in the info.
        """
        alone = [models.QueryRequest(query=sparse([word]), using=WORDS, limit=1) for word in words]
        answers = self._points.ask(
            lambda client: client.query_batch_points(self._points.name, alone)
        )
        unknown = ranking.rarity_of_unknown(self.info.memories)
        return [answer.points[0].score if answer.points else unknown for answer in answers]

    def scan(self) -> Iterator[list[Record]]:
        """See `Store`. Records written meanwhile may or may not be included."""
        for page in self._points.pages(EVERYWHERE, with_vectors=True):
            yield [_own(record) for record in page]

    def second_copy(self) -> None:
        """See `Store`. Copies of a collection are the server's own affair."""

    def delete(self, memories: Sequence[Memory], changed: Sequence[Memory] = ()) -> None:
        """See `Store`. Texts that were deleted and stored again meanwhile stay. The server removes
        the bytes when it next rewrites its files.

        The links are written first: if the call ends between the two, none leads to nothing.
        """
        self._update(changed, relink, errors.MAYBE_DELETED)
        with explained(errors.MAYBE_DELETED):
            self._points.delete(memories)

    def _memories(self, points: Iterable[Any]) -> list[Memory]:
        return [self._memory(record_of(point, self.info)) for point in points]

    def _memory(self, record: Record) -> Memory:
        return memory_of(_own(record), self.info.agent)


def _own(record: Record) -> Record:
    """The record without what `Points` keeps with it."""
    payload = {name: value for name, value in record.payload.items() if name != "revision"}
    return record._replace(payload=payload)
