"""How good a ranking is: recall, with intervals from resampling the questions."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

DEPTH = 10  # results looked at
METRICS = ("recall@1", "recall@5")
_RESAMPLES = 10_000


class Question(NamedTuple):
    """What is asked, the kind of question, and the texts of the memories that answer it."""

    kind: str
    text: str
    answers: frozenset[str]


class Answer(NamedTuple):
    """What a method finds for a question: texts, best first."""

    question: Question
    texts: list[str]


# A value, and the ends of the interval that holds 95 % of what resampling gives.
Estimate = list[float]


def score(metric: str, answer: Answer) -> float:
    """From 0 to 100: recall@k is the share of the answers, of at most k, among the first k."""
    wanted, k = answer.question.answers, int(metric.removeprefix("recall@"))
    return 100 * sum(text in wanted for text in answer.texts[:k]) / min(k, len(wanted))


def scores(answers: Iterable[Answer]) -> dict[str, Any]:
    """All metrics, for all questions that have an answer and for each kind of them."""
    return {
        kind: {
            "n": len(chosen),
            **{metric: estimate([score(metric, each) for each in chosen]) for metric in METRICS},
        }
        for kind, chosen in by_kind(answers).items()
    }


def by_kind(answers: Iterable[Answer]) -> dict[str, list[Answer]]:
    """Those of questions with an answer, under `all` and under the kinds of their questions."""
    answered = [answer for answer in answers if answer.question.answers]
    kinds: dict[str, list[Answer]] = {"all": answered}
    for answer in answered:
        kinds.setdefault(answer.question.kind, []).append(answer)
    return kinds


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of the values, with its interval."""
    sample = np.asarray(values, dtype=float)
    draws = np.random.default_rng(0).choice(sample, (_RESAMPLES, len(sample)))
    low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
    return [float(sample.mean()), float(low), float(high)]
