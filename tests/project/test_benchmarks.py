"""What the benchmarks count and save, and that the documents show what is saved."""

import json
import re
from pathlib import Path
from typing import Any

import locomo
import page
import pytest
import run
from recall_sets import Answer, Question, score
from scripted import REPOSITORY


def test_the_documents_are_what_the_results_say(tmp_path: Path) -> None:
    """Each section of figures has its command and version."""
    saved = run.load(REPOSITORY)
    page.write(run.blocks(saved), REPOSITORY, tmp_path)
    written = [*tmp_path.rglob("*.md")]
    assert {"README.md", "benchmarks.md"} <= {file.name for file in written}
    for file in written:
        assert file.read_text() == (REPOSITORY / file.relative_to(tmp_path)).read_text()
    text = (tmp_path / "docs/benchmarks.md").read_text()
    stamps = re.findall(r"`uv run benchmarks/run.py --parts (\w+)[^`]*`, version (\S+) on", text)
    assert dict(stamps) == {part: saved["ran"][part]["version"] for part in run.PARTS}


def test_what_is_saved_is_loaded_without_places_and_addresses(tmp_path: Path) -> None:
    note = f"{REPOSITORY}/x and https://127.0.0.1:8/v1"
    run.save({"parts": {"tokens": {"calls": [1, 2], "note": note}}, "ran": {}}, tmp_path)
    assert '"calls": [1, 2]' in (tmp_path / "docs/benchmarks/results.json").read_text()
    assert run.load(tmp_path)["parts"]["tokens"]["note"] == "PROJECT/x and https://…"
    assert run.load(tmp_path / "none") == {"parts": {}, "ran": {}}


def test_what_a_store_finds_of_locomo_is_counted(tmp_path: Path) -> None:
    qa = [
        {"question": "Which dog?", "category": 4, "evidence": ["D1:1", "D2:1"]},
        {"question": "Which cat?", "category": 1, "evidence": ["D1:2", "D9:9"]},
        {"question": "Which cow?", "category": 5, "evidence": []},
    ]
    talk: dict[str, Any] = {}
    for number, said in enumerate((["My dog is Rex.", "My cat is Tom."], ["Rex barks."]), 1):
        talk[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        talk[f"session_{number}"] = [
            {"speaker": "Ann", "dia_id": f"D{number}:{n}", "text": text}
            for n, text in enumerate(said, 1)
        ]
    file = tmp_path / "locomo10.json"
    file.write_text(json.dumps([{"conversation": talk, "qa": qa}]))
    [by_session] = locomo.conversations(file, "session")
    text = by_session.memories["D1"].content
    assert text == 'Ann said, "My dog is Rex."\nAnn said, "My cat is Tom."'
    assert by_session.now.isoformat() == "2023-05-03T13:56:00+00:00"
    [given] = locomo.conversations(file, "turn")
    by_turn = locomo.counted(locomo.by_store(given))
    assert (by_turn["questions"], by_turn["with evidence"]) == (3, 2)
    assert (by_turn["any@10"], by_turn["all@10"]) == (2, 1)
    # One turn that they cite does not exist.
    assert by_turn["share@10"] == pytest.approx((1 + 0.5 + 1) / 3, abs=1e-4)
    assert locomo.counted(locomo.by_store(by_session))["any@5"] == 2
    with pytest.raises(ValueError, match="found nothing"):
        locomo.by_store(given._replace(memories={}))


def test_the_measures() -> None:
    for found, wanted, expected in (
        ("abc", "a", [100, 100]),
        ("xab", "a", [0, 100]),
        ("axbyz", "abc", [100, 100 * 2 / 3]),
        ("uvwxya", "ab", [0, 0]),
        ("", "a", [0, 0]),
    ):
        answer = Answer(Question("kind", "question", frozenset(wanted)), list(found))
        measured = [score(metric, answer) for metric in ("recall@1", "recall@5")]
        assert measured == pytest.approx(expected, abs=1e-3)
