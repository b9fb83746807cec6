"""Ranking by the formulas of `memory_semantic.ranking`, computed for every memory.

It needs no store, so what a formula finds is known in seconds; `recall.py` compares that with what
a store answers.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from memory_semantic import ranking
from memory_semantic.embeddings import EmbeddingGenerator
from memory_semantic.embeddings.optional import english_only
from memory_semantic.limits import LEXICAL_WEIGHT
from memory_semantic.times import named
from recall_sets import Set
from scoring import DEPTH, Answer, Question

_EMBEDDED_AT_ONCE = 500
_LONG_AFTER = datetime.max.replace(tzinfo=UTC)  # nothing is recent then


class Method(NamedTuple):
    """A way to rank: how much shared words count beside the meaning; whether common words are left
    out of the question; whether what is recent, and what is of a time that it names, counts more.
    """

    weight: float = 0.0
    common_out: bool = True
    recency: bool = True
    times: bool = True


COSINE = Method(common_out=False, recency=False, times=False)
DEFAULT = Method(LEXICAL_WEIGHT)


class Model:
    """An embedding model that is asked once for each text: a service costs time and money."""

    def __init__(self, name: str, base_url: str | None = None) -> None:
        self.generator = EmbeddingGenerator(name, base_url=base_url)
        self.reads_all = not english_only(self.generator.model)
        self._known: dict[bool, dict[str, np.ndarray]] = {False: {}, True: {}}

    def vectors(self, texts: Sequence[str], questions: bool = False) -> list[np.ndarray]:
        """A vector of norm 1 for each text, all of them memories or `questions`."""
        known = self._known[questions]
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        for start in range(0, len(fresh), _EMBEDDED_AT_ONCE):
            some = fresh[start : start + _EMBEDDED_AT_ONCE]
            vectors = asyncio.run(self.generator.generate_batch(some, questions=questions))
            known |= zip(some, map(np.array, vectors), strict=True)
        return [known[text] for text in texts]


class Exact:
    """The memories of a set, to be ranked by any method."""

    def __init__(self, model: Model, given: Set) -> None:
        self._model, self._set = model, given
        self._vectors = np.array(model.vectors(given.texts))
        self._having: dict[int, list[int]] = {}
        for place, text in enumerate(given.texts):
            for token in ranking.indexed(text):
                self._having.setdefault(token, []).append(place)

    def answers(self, method: Method) -> list[Answer]:
        """What `method` finds for each question of the set."""
        questions = self._set.questions
        texts = [self._embedded(question.text, method) for question in questions]
        asked = zip(questions, self._model.vectors(texts, True), strict=True)
        return [self._best(each, self._scores(each.text, vector, method)) for each, vector in asked]

    def _best(self, question: Question, scores: Sequence[float]) -> Answer:
        """The memories with the highest of `scores`, the newest first among equals."""
        places = range(len(scores))
        best = sorted(places, key=lambda i: (scores[i], self._set.times[i]), reverse=True)
        return Answer(question, [self._set.texts[i] for i in best[:DEPTH]], scores[best[0]])

    def _embedded(self, question: str, method: Method) -> str:
        if not method.common_out:
            return question
        asked = ranking.indexed(question)
        rarities = [self._rarity(token) for token in asked]
        common = ranking.common(asked, rarities, len(self._set.texts))
        return ranking.without_common(question, common)

    def _scores(self, question: str, vector: np.ndarray, method: Method) -> list[float]:
        weight = method.weight
        if not self._model.reads_all:
            weight = ranking.weight_of(question, weight)
        overlap = self._overlap(ranking.indexed(question))
        similarity = (self._vectors @ vector + weight * overlap**2) / (1 + weight)
        now, times = self._set.now, self._set.times
        span = named(question, now) if method.times else None
        now = now if method.recency else _LONG_AFTER
        pairs = zip(similarity.tolist(), times, strict=True)
        return [ranking.score(each, time, now, span) for each, time in pairs]

    def _overlap(self, asked: Sequence[int]) -> np.ndarray:
        contained, total = np.zeros(len(self._set.texts)), 0.0
        for token in asked:
            rarity = self._rarity(token)
            contained[self._having.get(token, [])] += rarity
            total += rarity
        return contained / total if total else contained

    def _rarity(self, token: int) -> float:
        memories, having = len(self._set.texts), len(self._having.get(token, ()))
        unlike, like = memories - having, having
        return float(np.log(1 + (unlike + 0.5) / (like + 0.5)))
