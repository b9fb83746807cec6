"""A store in a dictionary, which does what every store promises in the simplest way there is: all
memories are compared with a question, by the formula of `ranking`. What others do is held to it.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

import pytest
from memory_semantic import Memory, ranking
from memory_semantic.embeddings.generator import EmbeddingGenerator
from memory_semantic.errors import ReplacedStoreError
from memory_semantic.limits import HERE
from memory_semantic.place import Place
from memory_semantic.points import Condition, Point, Question, StoreInfo, admits
from memory_semantic.store import Store

T = TypeVar("T")


class DictPlace(Place):
    """The `Place` of one agent, for one caller at a time."""

    url = HERE  # nowhere else, as far as a session is concerned
    address = "a dictionary"
    forgotten = "Gone from the dictionary."

    def __init__(self, agent: str = "sam", points: "DictPoints | None" = None) -> None:
        self.agent = agent
        self.points = points

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        if self.points is None and create:
            self.points = DictPoints(create)
        if self.points is None:
            return None
        if (asked := create or expect) and asked.model != self.points.info.model:
            raise ReplacedStoreError("It has another model.")
        return work(Store(self.points))

    async def close(self) -> None:
        pass

    async def info(self) -> StoreInfo | None:
        return self.points and self.points.info

    def agents(self) -> list[str]:
        return [self.agent] if self.points else []

    async def reembed(self, info: StoreInfo, generator: EmbeddingGenerator) -> None:
        assert self.points
        points = list(self.points.points.values())
        vectors = await generator.generate_batch([point.payload["content"] for point in points])
        self.points = DictPoints(info)
        self.points.upsert(
            [p._replace(vector=vector) for p, vector in zip(points, vectors, strict=True)]
        )


class DictPoints:
    """The `Points` in it."""

    def __init__(self, info: StoreInfo) -> None:
        self.present = info
        self.points: dict[UUID, Point] = {}

    @property
    def info(self) -> StoreInfo:
        return self.present.model_copy(update={"memories": len(self.points)})

    def upsert(self, points: Sequence[Point]) -> None:
        for point in points:
            words = ranking.indexed(point.payload["content"]) if self.present.words else None
            vector = point.vector or self.points[point.key].vector
            self.points[point.key] = point._replace(vector=vector, words=words, changed=None)

    def get(self, keys: Sequence[UUID], vectors: bool = False) -> list[Point]:
        return [_read(self.points[key], vectors) for key in keys if key in self.points]

    def query(self, asked: Sequence[Question], limit: int) -> list[list[Point]]:
        having = Counter(word for point in self.points.values() for word in point.words or ())
        with_words = sum(bool(point.words) for point in self.points.values())

        def rarity(word: int) -> float:
            return math.log(1 + (with_words - having[word] + 0.5) / (having[word] + 0.5))

        def score(point: Point, question: Question) -> float | None:
            shared = sorted(set(point.words or ()) & set(question.words))
            rarities = sum(map(rarity, shared))
            if not question.vector:
                return rarities if shared else None
            cosine = ranking.cosine(point.vector, question.vector)
            if not (question.words and question.rarity):
                return cosine
            overlap = rarities / question.rarity
            return (cosine + question.weight * overlap**2) / (1 + question.weight)

        def answer(question: Question) -> list[Point]:
            scored = [(score(point, question), point) for point in self._those(question.where)]
            found = [_read(p)._replace(score=each) for each, p in scored if each is not None]
            return sorted(found, key=lambda point: point.score or 0, reverse=True)[:limit]

        return list(map(answer, asked))

    def page(
        self,
        where: Sequence[Condition],
        limit: int,
        *,
        after: UUID | None = None,
        newest: bool = False,
        vectors: bool = False,
    ) -> list[Point]:
        points = [p for p in self._those(where) if after is None or p.key > after]
        if newest:
            points.sort(key=lambda point: point.payload["timestamp"], reverse=True)
        else:
            points.sort(key=lambda point: point.key)
        return [_read(point, vectors) for point in points[:limit]]

    def count(self, where: Sequence[Condition] = ()) -> int:
        return len(self._those(where))

    def forget(self, points: Sequence[Point], relinked: Sequence[Point]) -> None:
        self.upsert(relinked)
        for point in points:
            del self.points[point.key]

    def _those(self, where: Sequence[Condition]) -> list[Point]:
        return [point for point in self.points.values() if admits(where, point.payload)]


def agree(found: Sequence[Memory], expected: Sequence[Memory], within: float) -> None:
    """Assert that two searches found the same, whatever the order of what scores the same."""
    assert [m.score for m in found] == pytest.approx([m.score for m in expected], abs=within)
    scores = {memory.content: memory.score for memory in expected}
    for memory in found:
        score = scores.get(memory.content, memory.score)
        assert memory.score == pytest.approx(score, abs=within), memory.content


def _read(point: Point, vectors: bool = False) -> Point:
    return point if vectors else point._replace(vector=[], words=None)
