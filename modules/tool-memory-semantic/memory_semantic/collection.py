"""What a store asks of a vector engine: `local_collection` answers with files of this machine, the
package `memory_server` with a Qdrant server.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID


class Point(NamedTuple):
    """What is stored: the key, the vector (a list as long as the collection's dimensions), the
    rest. `words` is what is read back of the words, None if the collection has none.
    """

    id: UUID
    vector: list[float]
    payload: dict[str, Any]
    words: list[int] | None = None


class Hit(NamedTuple):
    """What is found; `similarity` is the one to the question, from -1 to 1, if there was one."""

    id: UUID
    payload: dict[str, Any]
    similarity: float = 0.0


@dataclass(frozen=True)
class Where:
    """Which points count: stored at `since` or later, at `until` or earlier, with any of `tags`,
    with one of the `ids` (of memories, not of points). None or empty: all.
    """

    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


EVERYWHERE = Where()


class Collection(Protocol):
    """The points of one agent, while a store is open. Every method raises StorageError.

    `exclusive` tells that nobody else can write as long as it is open. `outcome` is what an error
    has to say, at this moment, about what was changed.
    """

    exclusive: bool
    outcome: str

    def count(self, where: Where = EVERYWHERE) -> int:
        """How many points there are."""
        ...

    def write(self, points: Sequence[Point], before: Mapping[UUID, Point]) -> set[UUID]:
        """Insert the points, in place of what was read `before`. They are durable on return, but
        for those that are returned: others changed them meanwhile, and they are as others left
        them.
        """
        ...

    def nearest(
        self,
        vector: list[float],
        limit: int,
        places: Sequence[Where],
        asked: Sequence[int] = (),
        weight: float = 0.0,
    ) -> list[list[Hit]]:
        """For each of `places` the `limit` points most similar to `vector` and, by `weight`, to the
        words `asked`, best first. The similarity is that of `ranking`; a collection without words
        has the cosine alone.
        """
        ...

    def newest(self, limit: int, where: Where) -> list[Hit]:
        """The `limit` most recently stored points, any number of them."""
        ...

    def retrieve(self, ids: Sequence[UUID]) -> list[Point]:
        """Those of the points `ids` that exist."""
        ...

    def points(self) -> Iterator[list[Point]]:
        """Every point, vector included, some hundred at a time."""
        ...

    def delete(self, doomed: Sequence[Hit]) -> None:
        """Take these points out for good, unless they are other memories by now."""
        ...
