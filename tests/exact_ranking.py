"""What the formulas of `memory_semantic.ranking` say, computed for every memory without a store."""

import asyncio
from collections.abc import Sequence

import numpy as np
from memory_semantic import EmbeddingGenerator, ranking
from memory_semantic.limits import LEXICAL_WEIGHT
from memory_semantic.times import named
from recall_sets import Set


class Exact:
    """The memories of a set, with the vectors of the built-in model."""

    def __init__(self, given: Set) -> None:
        self._set, self._generator = given, EmbeddingGenerator("local")
        self._vectors = np.array(asyncio.run(self._generator.generate_batch(given.texts)))
        self._having: dict[int, list[int]] = {}
        for place, text in enumerate(given.texts):
            for token in ranking.indexed(text):
                self._having.setdefault(token, []).append(place)

    def scores(self, question: str) -> list[float]:
        """The score of each memory for a question, with default settings."""
        asked = ranking.indexed(question)
        rarities = [self._rarity(token) for token in asked]
        common = ranking.common(asked, rarities, len(self._set.texts))
        embedded = ranking.without_common(question, common)
        vector = np.array(asyncio.run(self._generator.generate(embedded)))
        weight = ranking.weight_of(question, LEXICAL_WEIGHT)
        overlap = self._overlap(asked, rarities)
        similarity = (self._vectors @ vector + weight * overlap**2) / (1 + weight)
        now, times = self._set.now, self._set.times
        span = named(question, now)
        pairs = zip(similarity.tolist(), times, strict=True)
        return [ranking.score(each, time, now, span) for each, time in pairs]

    def _overlap(self, asked: Sequence[int], rarities: Sequence[float]) -> np.ndarray:
        contained = np.zeros(len(self._set.texts))
        for token, rarity in zip(asked, rarities, strict=True):
            contained[self._having.get(token, [])] += rarity
        return contained / (sum(rarities) or 1)

    def _rarity(self, token: int) -> float:
        memories, having = len(self._set.texts), len(self._having.get(token, ()))
        return float(np.log(1 + (memories - having + 0.5) / (having + 0.5)))
