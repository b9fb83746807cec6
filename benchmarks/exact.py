"""Ranking by the formulas of `memory_semantic.ranking`, computed for every memory.

It needs no store, so what a formula finds is known in seconds; `recall.py` compares that with what
a store answers.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from unicodedata import normalize
from zlib import crc32

import numpy as np
from memory_semantic import ranking
from memory_semantic.embeddings import EmbeddingGenerator
from memory_semantic.embeddings.optional import english_only
from memory_semantic.limits import LEXICAL_WEIGHT
from recall_sets import Set
from scoring import DEPTH, Answer, Question

_EMBEDDED_AT_ONCE = 500


def whole_words(text: str) -> list[int]:
    """The tokens of a text as version 1.3 had them, without the pieces of words."""
    words = re.findall(r"\w+", normalize("NFKC", text).casefold())
    return sorted({crc32(word.encode()) for word in words})


class Method(NamedTuple):
    """A way to rank: how much shared words count beside the meaning, to which power, of which
    tokens; whether common words are left out of the question, and whether what is recent counts
    more.
    """

    weight: float = 0.0
    power: float = 2.0
    tokens: Callable[[str], list[int]] = ranking.indexed
    common_out: bool = True
    recency: bool = True


COSINE = Method(common_out=False, recency=False)
RECENCY = Method(common_out=False)
FORMER = Method(0.3, 1, whole_words, common_out=False)  # version 1.3
WORDS = Method(LEXICAL_WEIGHT)


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

    def __init__(
        self, model: Model, given: Set, tokens: Callable[[str], list[int]] = ranking.indexed
    ) -> None:
        self._model, self._set = model, given
        self._vectors = np.array(model.vectors(given.texts))
        self._having: dict[int, list[int]] = {}
        for place, text in enumerate(given.texts):
            for token in tokens(text):
                self._having.setdefault(token, []).append(place)

    def answers(self, method: Method, since: datetime | None = None) -> list[Answer]:
        """What `method` finds for each question of the set, among the memories from `since` on."""
        questions = zip(self._set.questions, self.scores(method), strict=True)
        return [self.best(question, scores, since) for question, scores in questions]

    def best(
        self, question: Question, scores: Sequence[float], since: datetime | None = None
    ) -> Answer:
        """The memories with the highest of `scores`, the newest first among equals."""
        places = [i for i, time in enumerate(self._set.times) if not since or time >= since]
        best = sorted(places, key=lambda i: (scores[i], self._set.times[i]), reverse=True)
        return Answer(question, [self._set.texts[i] for i in best[:DEPTH]], scores[best[0]])

    def scores(self, method: Method) -> list[list[float]]:
        """For each question of the set, the score of each memory by `method`."""
        questions = self._set.questions
        texts = [self._embedded(question.text, method) for question in questions]
        vectors = self._model.vectors(texts, True)
        asked = zip(questions, vectors, strict=True)
        return [self._scores(question.text, vector, method) for question, vector in asked]

    def _embedded(self, question: str, method: Method) -> str:
        if not method.common_out:
            return question
        asked = method.tokens(question)
        rarities = [self._rarity(token) for token in asked]
        common = ranking.common(asked, rarities, len(self._set.texts))
        return ranking.without_common(question, common)

    def _scores(self, question: str, vector: np.ndarray, method: Method) -> list[float]:
        weight = method.weight
        if method.power != FORMER.power and not self._model.reads_all:
            weight = ranking.weight_of(question, weight)
        overlap = self._overlap(method.tokens(question))
        similarity = (self._vectors @ vector + weight * overlap**method.power) / (1 + weight)
        if not method.recency:
            return similarity.tolist()
        pairs = zip(similarity.tolist(), self._set.times, strict=True)
        return [ranking.score(each, time, self._set.now) for each, time in pairs]

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
