"""The set that recall is measured on is whole, and the measures are what they are called."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scoring import Answer, Question, score

SET = Path(__file__).parents[2] / "benchmarks/recall"
NOW = datetime.fromisoformat("2026-11-20T20:00:00Z")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SET / name).read_text().splitlines()]


MEMORIES = {memory["id"]: memory for memory in lines("memories.jsonl")}
QUESTIONS = lines("questions.jsonl")
CHAINS = json.loads((SET / "superseded.json").read_text())


def test_questions_have_the_answers_that_their_kind_asks_for() -> None:
    assert len({each["content"] for each in MEMORIES.values()}) == len(MEMORIES) == 220
    assert len({question["question"] for question in QUESTIONS}) == len(QUESTIONS) == 320
    current = {chain[-1] for chain in CHAINS}
    for chain in CHAINS:
        assert len(chain) > 1 and chain == sorted(chain, key=lambda id: MEMORIES[id]["date"])
    week = {
        id
        for id, memory in MEMORIES.items()
        if datetime.fromisoformat(memory["date"]) > NOW - timedelta(days=7)
    }
    allowed = {"recent": week, "superseded": current, "none": set()}
    for question in QUESTIONS:
        answers = set(question["answers"])
        assert bool(answers) == (question["kind"] != "none"), question
        assert answers <= allowed.get(question["kind"], set(MEMORIES)), question


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        ("abc", "a", [100, 100]),
        ("xab", "a", [0, 100]),
        ("axbyz", "abc", [100, 100 * 2 / 3]),
        ("uvwxya", "ab", [0, 0]),
        ("", "a", [0, 0]),
    ],
)
def test_the_measures(found: str, wanted: str, expected: list[float]) -> None:
    answer = Answer(Question("kind", "question", frozenset(wanted)), list(found))
    measured = [score(metric, answer) for metric in ("recall@1", "recall@5")]
    assert measured == pytest.approx(expected, abs=1e-3)
