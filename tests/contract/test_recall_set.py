"""The set that recall is measured on is whole, and the measures are what they are called."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from recall_sets import LANGUAGES
from scoring import Answer, Question, score

SET = Path(__file__).parents[2] / "benchmarks/recall"
NOW = datetime.fromisoformat("2026-11-20T20:00:00Z")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SET / name).read_text().splitlines()]


MEMORIES = {memory["id"]: memory for memory in lines("memories.jsonl")}
QUESTIONS = lines("questions.jsonl")
CHAINS = json.loads((SET / "superseded.json").read_text())


def test_memories_of_every_kind_over_two_years() -> None:
    memories = MEMORIES.values()
    assert len(lines("memories.jsonl")) == len({each["content"] for each in memories}) == 220
    kinds = {"decision", "preference", "limit", "bug", "convention", "fact"}
    assert {each["kind"] for each in memories} == kinds
    times = [datetime.fromisoformat(each["date"]) for each in memories]
    assert times == sorted(times) and times[-1] < NOW
    assert NOW - times[0] > timedelta(days=720)


def test_questions_have_the_answers_that_their_kind_asks_for() -> None:
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


def test_every_fact_and_its_questions_are_there_in_every_language() -> None:
    facts = lines("languages.jsonl")
    for language in LANGUAGES:
        texts = [text for fact in facts for text in fact[language]]
        assert len(set(texts)) == len(texts) == 120 and all(texts), language


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        ("abc", "a", {"recall@1": 100, "recall@5": 100}),
        ("xab", "a", {"recall@1": 0, "recall@5": 100}),
        ("axbyz", "abc", {"recall@1": 100, "recall@5": 100 * 2 / 3}),
        ("uvwxya", "ab", {"recall@1": 0, "recall@5": 0}),
        ("", "a", {"recall@1": 0, "recall@5": 0}),
    ],
)
def test_the_measures(found: str, wanted: str, expected: dict[str, float]) -> None:
    answer = Answer(Question("kind", "question", frozenset(wanted)), list(found))
    for metric, value in expected.items():
        assert score(metric, answer) == pytest.approx(value, abs=1e-3), metric
