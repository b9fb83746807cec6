"""What recall is measured on, and how good a ranking is; the sets are in `recall/`."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from memory_semantic.memory import Memory

FOLDER = Path(__file__).with_name("recall")
NOW = datetime(2026, 11, 20, 20, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=100)
LANGUAGES = {"en": "English", "de": "German", "ko": "Korean", "ja": "Japanese"}
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


class Set(NamedTuple):
    """What is remembered, when it was, what is asked, and when."""

    memories: dict[str, Memory]
    questions: list[Question]
    now: datetime = NOW

    def asking(self, questions: Iterable[Question]) -> "Set":
        """The same memories with other questions."""
        return self._replace(questions=list(questions))


def rows(name: str) -> list[dict[str, Any]]:
    """The lines of a set, by its name in this folder, such as `recall/memories`."""
    file = Path(__file__).parent / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def for_tuning(question: Question) -> bool:
    """The rule of `recall/README.md`; all other questions are reported."""
    return int(sha256(question.text.encode()).hexdigest()[0], 16) < 6


def own() -> Set:
    """Two years of a small team, and questions of four kinds."""
    return _set(rows("recall/memories"))


def everyday() -> Set:
    """A year of an ordinary person, and sixty questions as they would ask them."""
    return _set(rows("recall/everyday"))


def _set(given: list[dict[str, Any]]) -> Set:
    texts = {row["id"]: row["content"] for row in given}
    memories = {row["id"]: _memory(row["content"], row["date"]) for row in given}
    questions = [
        Question(
            asked["kind"],
            asked["question"],
            frozenset(texts[id] for id in (row["id"], *asked.get("also", ()))),
        )
        for row in given
        for asked in row.get("asked", ())
    ]
    return Set(memories, questions)


def _memory(text: str, date: str) -> Memory:
    return Memory(agent_id="recall", content=text, timestamp=datetime.fromisoformat(date))


def developer() -> Set:
    """What a developer said in a week, among notes of the same projects, and sixty questions a week
    later in other words; where something was corrected, both are there, without a link.
    """
    said = [row for row in rows("holds/week") if "name" in row]
    days = {text["content"]: NOW - timedelta(days=14 - text["day"]) for text in said}
    days |= {row["content"]: LONG_AGO for row in rows("holds/notes")}
    questions = [
        Question("developer", row["asked"], frozenset([row["content"]]))
        for row in said
        if "asked" in row
    ]
    return Set({text: _memory(text, str(day)) for text, day in days.items()}, questions)


def languages() -> dict[str, Set]:
    """Forty memories in each language, and two questions about each of them."""
    given, kinds = rows("recall/languages"), ("in other words", "with a word of it")
    sets = {}
    for code, language in LANGUAGES.items():
        texts = [row[code][0] for row in given]
        questions = [
            Question(kind, question, frozenset([row[code][0]]))
            for row in given
            for kind, question in zip(kinds, row[code][1:], strict=True)
        ]
        sets[language] = Set({text: _memory(text, str(LONG_AGO)) for text in texts}, questions)
    return sets


def score(metric: str, answer: Answer) -> float:
    """From 0 to 100: recall@k is the share of the answers, of at most k, among the first k."""
    wanted, k = answer.question.answers, int(metric.removeprefix("recall@"))
    return 100 * sum(text in wanted for text in answer.texts[:k]) / min(k, len(wanted))


def scores(answers: Sequence[Answer]) -> dict[str, Any]:
    """All metrics, for all questions and for each kind of them."""
    kinds: dict[str, list[Answer]] = {"all": [*answers]}
    for answer in answers:
        kinds.setdefault(answer.question.kind, []).append(answer)
    return {
        kind: {
            "n": len(chosen),
            **{metric: estimate([score(metric, each) for each in chosen]) for metric in METRICS},
        }
        for kind, chosen in kinds.items()
    }


def estimate(values: Sequence[float]) -> list[float]:
    """The mean, and the ends of the interval that holds 95 % of what resampling gives."""
    sample = np.asarray(values, dtype=float)
    draws = np.random.default_rng(0).choice(sample, (_RESAMPLES, len(sample)))
    low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
    return [round(float(each), 2) for each in (sample.mean(), low, high)]
