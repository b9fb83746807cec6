"""The points of a store on a Qdrant server, which others read and write at the same time.

Every point has a `revision`, a random number that changes with each write. A write takes effect
only on points that are new or still have the revision that was read before; whether it did is then
read back. (This is Qdrant's conditional update, `update_filter`.)
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from memory_semantic.errors import StorageError
from memory_semantic.memory import Memory
from memory_semantic.store import Record, Where
from qdrant_client import QdrantClient, models

from .connection import Connection
from .info import ServerInfo
from .requests import any_of, condition, point_of, record_of

T = TypeVar("T")

# Points in a request: 128 vectors of 1,536 numbers are 4 MB of JSON, and the server accepts 32.
_BATCH = 128
# A delete is repeated if others have brought the memory back meanwhile, as an import does.
_DELETES = 3
# All writes go through one copy of a collection, so that all copies see them in the same order.
_ORDER = models.WriteOrdering.MEDIUM


class Points:
    """The points of the store `info`, which the alias `name` stands for; `ask` sends any other
    request.
    """

    def __init__(self, name: str, info: ServerInfo, connection: Connection) -> None:
        self.name = name
        self.ask = connection.ask
        self._info = info
        # A node cut off from the others would acknowledge a write that only it has, and lose it on
        # rejoining. What is read back must be on this many copies.
        self._copies = info.write_consistency

    def read(self, keys: Collection[UUID], to_write: bool = False) -> list[Record]:
        """The points under these keys, as far as they exist, with their vectors. With `to_write`,
        raises StorageError if a write could not be read back from enough copies.
        """
        if to_write and self._copies > 1:
            self._agreed(keys)
        found = [self._retrieve(some, with_vectors=True) for some in _batches(list(keys))]
        return [record_of(point, self._info) for points in found for point in points]

    def pages(self, where: Where, with_vectors: bool = False) -> Iterator[list[Record]]:
        """All points, some at a time. Those written meanwhile may or may not be included."""
        filter, offset = condition(where), None
        while True:
            points, offset = self.ask(
                lambda client, offset=offset: client.scroll(
                    self.name, filter, _BATCH, offset=offset, with_vectors=with_vectors
                )
            )
            yield [record_of(point, self._info) for point in points]
            if offset is None:
                return

    def write(self, memories: Sequence[Memory], before: Sequence[Record]) -> set[UUID]:
        """Replace the points read `before` with `memories`. Returns the keys of those that others
        have changed meanwhile; these are left alone.
        """
        unchanged = models.Filter(must=[any_of("revision", [_revision(each) for each in before])])
        lost: set[UUID] = set()
        for some in _batches(memories):
            points = [point_of(memory, self._info) for memory in some]
            self.ask(
                lambda client, points=points: client.upsert(
                    self.name, points, wait=True, ordering=_ORDER, update_filter=unchanged
                )
            )
            written = {_revision(point) for point in points}
            agreed = self._agreed([memory.key for memory in some])
            lost |= {memory.key for memory in some if agreed.get(memory.key) not in written}
        return lost

    def delete(self, memories: Sequence[Memory]) -> None:
        """Delete these memories; texts that were deleted and stored again meanwhile stay."""
        for some in _batches(memories):
            self._delete(some)

    def _delete(self, memories: Sequence[Memory]) -> None:
        # Deleting a memory and storing its text again gives another memory, with another id.
        keys = models.HasIdCondition(has_id=[str(memory.key) for memory in memories])
        doomed = models.Filter(must=[keys, any_of("id", [memory.id for memory in memories])])
        selected = models.FilterSelector(filter=doomed)

        def delete(client: QdrantClient) -> bool:
            """Whether some are left. If that cannot be read, they are deleted once more."""
            client.delete(self.name, selected, wait=True, ordering=_ORDER)
            found, _ = client.scroll(
                self.name,
                doomed,
                limit=len(memories),
                with_payload=False,
                consistency=self._copies,
            )
            return bool(found)

        for _ in range(_DELETES):
            if not self.ask(delete):
                return
        raise StorageError("Memories were restored while they were being deleted.")

    def _agreed(self, keys: Collection[UUID]) -> dict[UUID, str]:
        """The revisions on which as many copies agree as a write must reach. Raises StorageError if
        so many cannot be read.
        """
        found = [
            self._retrieve(some, ["revision"], consistency=self._copies)
            for some in _batches(list(keys))
        ]
        return {UUID(str(point.id)): _revision(point) for points in found for point in points}

    def _retrieve(
        self, keys: Sequence[UUID], payload: bool | list[str] = True, **how: Any
    ) -> list[models.Record]:
        ids = [str(key) for key in keys]
        return self.ask(lambda client: client.retrieve(self.name, ids, payload, **how))


def _revision(found: Record | models.Record | models.PointStruct) -> str:
    return (found.payload or {}).get("revision", "")


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
