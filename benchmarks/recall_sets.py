"""What recall is measured on: our own set, the four languages, and a person's year."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from memory_semantic.memory import Memory
from scoring import Question

FOLDER = Path(__file__).with_name("recall")
NOW = datetime(2026, 11, 20, 20, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=100)
LANGUAGES = {"en": "English", "de": "German", "ko": "Korean", "ja": "Japanese"}
# The two questions about each memory there.
OTHER_WORDS, ONE_WORD = "in other words", "with a word of it"


class Set(NamedTuple):
    """What is remembered, when it was, what is asked, and when."""

    texts: list[str]
    times: list[datetime]
    questions: list[Question]
    now: datetime

    def asking(self, questions: Sequence[Question]) -> "Set":
        """The same memories with other questions."""
        return self._replace(questions=list(questions))

    def memories(self, agent: str) -> list[Memory]:
        """As a store of `agent` would have them."""
        return [
            Memory(agent_id=agent, content=text, timestamp=time)
            for text, time in zip(self.texts, self.times, strict=True)
        ]


def for_tuning(question: Question) -> bool:
    """The rule of `recall/README.md`; all other questions are reported."""
    return int(sha256(question.text.encode()).hexdigest()[0], 16) < 6


def own() -> Set:
    """Two years of a small team, and questions of five kinds."""
    memories = _lines("memories.jsonl")
    texts = {memory["id"]: memory["content"] for memory in memories}
    questions = [
        Question(
            each["kind"], each["question"], frozenset(texts[answer] for answer in each["answers"])
        )
        for each in _lines("questions.jsonl")
    ]
    times = [datetime.fromisoformat(memory["date"]) for memory in memories]
    return Set(list(texts.values()), times, questions, NOW)


def languages() -> dict[str, Set]:
    """Forty memories in each language, and two questions about each of them."""
    rows = _lines("languages.jsonl")
    sets = {}
    for code, language in LANGUAGES.items():
        questions = [
            Question(kind, question, frozenset([row[code][0]]))
            for row in rows
            for kind, question in zip((OTHER_WORDS, ONE_WORD), row[code][1:], strict=True)
        ]
        texts = [row[code][0] for row in rows]
        sets[language] = Set(texts, [LONG_AGO] * len(texts), questions, NOW)
    return sets


def everyday() -> Set:
    """A year of an ordinary person, and sixty questions as they would ask them."""
    rows = _lines("everyday.jsonl")
    texts = {row["id"]: row["content"] for row in rows if "id" in row}
    times = [datetime.fromisoformat(row["date"]) for row in rows if "id" in row]
    questions = [
        Question("everyday", row["question"], frozenset(texts[id] for id in row["answers"]))
        for row in rows
        if "question" in row
    ]
    return Set(list(texts.values()), times, questions, NOW)


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]
