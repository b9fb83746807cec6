"""The port to the points of a store: what every rule is built on, wherever they are."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Protocol
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from .limits import INDEXED, PAGE
from .memory import Memory
from .remembered import point_bytes


class EmbeddingModel(NamedTuple):
    """The model that made a store's vectors; vectors of different models cannot be compared."""

    model: str
    version: str | None  # of a model on this machine; others have it in their names
    dimensions: int

    def __str__(self) -> str:
        version = f" ({self.version})" if self.version else ""
        return f"{self.model!r}{version}, {self.dimensions} dimensions"


class StoreInfo(BaseModel):
    """What a store is. `memories` is approximately how many it holds.

    `endpoint` is the host and port of the embeddings service, None for OpenAI's own, and for
    models on this machine.
    `words` is the version of `ranking.indexed` by which the store keeps the words of its texts; 0
    if it does not, or by another version, which is of no use.
    """

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    agent: str
    model: EmbeddingModel = Field(alias="embedding")
    endpoint: str | None = None
    words: Annotated[int, AfterValidator(lambda words: words if words == INDEXED else 0)] = 0
    memories: int = 0
    created: datetime

    @property
    def embedder(self) -> tuple[EmbeddingModel, str | None]:
        """What made the vectors. Services may differ in a model of the same name."""
        return self.model, self.endpoint


# A condition on a field of a memory, as it is stored, or on one in it, such as
# `metadata.project_id`: it is, or has among several, `any` of these
# values; it is a time `from` this one on, or up `to` it; it is `set`, or `unset`.
How = Literal["any", "from", "to", "set", "unset"]
Condition = tuple[str, How, Any]

_ADMITS: dict[How, Callable[[Any, Any], bool]] = {
    "any": lambda found, value: (
        not set(value).isdisjoint(found if isinstance(found, list) else [found])
    ),
    "from": lambda found, value: found is not None and found >= value,
    "to": lambda found, value: found is not None and found <= value,
    "set": lambda found, _: found is not None,
    "unset": lambda found, _: found is None,
}


def admits(where: Sequence[Condition], payload: Mapping[str, Any]) -> bool:
    """Whether all these conditions are met by what is stored of a memory."""
    return all(_ADMITS[how](_at(payload, field), value) for field, how, value in where)


def _at(payload: Mapping[str, Any], field: str) -> Any:
    whole, _, inner = field.partition(".")
    return payload.get(whole, {}).get(inner) if inner else payload.get(whole)


class Question(NamedTuple):
    """What points are compared with, of those that meet all the conditions in `where`: a vector
    and, counting `weight`, the `words`, which are numbers of `ranking.indexed` and whose rarities
    add up to `rarity`. Without words the score is the cosine; without a vector, the rarities of the
    words that a text has, added up.
    """

    vector: Sequence[float] = ()
    words: Sequence[int] = ()
    weight: float = 0.0
    rarity: float = 0.0
    where: Sequence[Condition] = ()


class Point(NamedTuple):
    """What a store holds of a memory. `words` is None if it has none. Of a known text that is
    written again, `changed` names the fields that differ; None stands for a new one.
    """

    key: UUID
    payload: dict[str, Any]
    vector: list[float] = []  # noqa: RUF012 - never changed
    words: list[int] | None = None
    score: float | None = None
    changed: Collection[str] | None = None

    @property
    def fits_its_key(self) -> bool:
        """Whether the text is what was stored; quicker than to make a memory of it."""
        match self.payload:
            case {"content": str(text), "id": str(), "timestamp": str()}:
                return point_bytes(text) == self.key.bytes
        return False


def point_of(memory: Memory, changed: Collection[str] | None = None) -> Point:
    """The point of a memory."""
    return Point(memory.key, memory.dict_for_storage(), memory.embedding, changed=changed)


class Points(Protocol):
    """Where a store keeps its points. The cut is here because two engines speak two dialects, and
    nothing above needs to know which. Every method may block, and raises StorageError.
    """

    @property
    def info(self) -> StoreInfo:
        """What the store is."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Write these; they are durable on return. A known one without a vector keeps its own."""
        ...

    def get(self, keys: Sequence[UUID], vectors: bool = False) -> list[Point]:
        """Those under these keys, as far as they exist."""
        ...

    def query(self, asked: Sequence[Question], limit: int) -> list[list[Point]]:
        """For each question, the `limit` points with the highest score, best first."""
        ...

    def page(
        self,
        where: Sequence[Condition],
        limit: int,
        *,
        after: UUID | None = None,
        newest: bool = False,
        vectors: bool = False,
    ) -> list[Point]:
        """The first `limit` points `after` this key, in the order of the keys, or the `newest`."""
        ...

    def count(self) -> int:
        """How many there are."""
        ...

    def forget(self, points: Sequence[Point], relinked: Sequence[Point]) -> None:
        """Delete these; on this machine, with all their bytes. The `relinked` are written: their
        links led to them. Nothing more can be done with these points afterwards.
        """
        ...


def pages(
    points: Points, where: Sequence[Condition] = (), vectors: bool = False
) -> Iterator[list[Point]]:
    """All points exactly as they are stored, some at a time, in the order of their keys."""
    page = points.page(where, PAGE, vectors=vectors)
    while page:
        yield page
        after = page[-1].key
        more = len(page) == PAGE
        page = points.page(where, PAGE, after=after, vectors=vectors) if more else []
