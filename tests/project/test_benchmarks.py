"""What the benchmarks count and save, and that README's table says who is better."""

import json
import re
from pathlib import Path
from typing import Any

import locomo
import pytest
import report
import report_readme as readme
import report_stores as stores
from results import is_empty, load, our_failures, save
from scoring import Answer, Question, score
from scripted import REPOSITORY
from tables import NONE


def spread(median: float) -> dict[str, float]:
    return {"median": median, "p95": 2 * median}


def row(search: float, add: float) -> dict[str, Any]:
    return {"search_ms": spread(search), "add_ms": spread(add), "disk_bytes": 4_000}


def results(**rows: dict[str, Any]) -> dict[str, Any]:
    growth = {"dimensions": 3, "stores": {"1000": rows}, "environments": {}}
    ran = {"version": "9.8.7", "started": "2026-11-25T10:00:00+00:00"}
    return {"parts": {"growth": growth}, "ran": {"growth": ran}}


OURS = {"agent-memory": row(10, 20), "agent-memory, endpoint": row(30, 40)}


def test_the_sentence_above_the_table_names_who_is_better_and_at_what() -> None:
    others = {"sqlite-vec": row(5, 25), "Chroma": row(11, 19)}
    text = readme.table_of(results(**OURS, **others))
    assert "Among 1,000 memories" in text and "version 9.8.7 on 2026-11-25" in text
    assert "at: search in a loop (sqlite-vec); store in a loop (Chroma)." in text
    assert "| **agent-memory** | ? | ? | 10 | ? | ? | 20 | ? | ? | 4.0 |".replace("?", NONE) in text
    assert "| sqlite-vec |" in text


def test_who_asks_a_service_is_compared_with_ours_that_asks_one() -> None:
    rows = {**OURS, "mem0": row(29, 41), "Chroma": row(29, 41)}
    rates = {"agent-memory": 8, "agent-memory, endpoint": 5, "mem0": 5, "Chroma": 9}
    with_rates = {name: {**each, "calls_per_second": rates[name]} for name, each in rows.items()}
    better = [[*stores.less(with_rates, of)] for of in (stores.SEARCH.of, stores.ADD.of)]
    assert [*better, [*stores.less(with_rates, stores.rate)]] == [["mem0"], [], ["Chroma"]]


def test_several_processes_say_what_failed_was_lost_and_missed() -> None:
    failed = {"open: RuntimeError: is locked. And more": 3}
    well = {"calls_per_second": 8.0, "failures": {}, "lost": 0, "missed": 0, "ended_badly": []}
    badly = {**well, "failures": failed, "lost": 2, "missed": 1, "add_ms": {"max": 99.0}}
    processes = {"8": {"agent-memory": well, "mem0": badly}}
    text = stores.together({"seconds": 5, "memories_before": 10, "processes": processes})
    assert f"| mem0 | 8.0 | 99 | {NONE} |" in text
    for note in ("3 x open: RuntimeError: is locked", "2 memories lost", "1 searches missed"):
        assert f"- mem0: {note}" in text
    fine = {"seconds": 5, "memories_before": 10, "processes": {"8": {"agent-memory": well}}}
    assert stores.together(fine).endswith("had just added: none.")


def test_page_and_readme_are_what_the_results_say(tmp_path: Path) -> None:
    """Each figure on the page has its command and version, and README's table is the page's."""
    docs, saved = tmp_path / "docs", load(REPOSITORY / "docs")
    docs.mkdir()
    text = (REPOSITORY / "README.md").read_text()
    begin, _, end = text.partition(readme.BEGIN)
    (tmp_path / "README.md").write_text(f"{begin}{readme.BEGIN}old\n{end}")
    report.write(saved, docs)
    page = (docs / "benchmarks.md").read_text()
    assert page == (REPOSITORY / "docs/benchmarks.md").read_text()
    assert (tmp_path / "README.md").read_text() == text
    for section in page.split("\n## ")[1:-1]:
        part = re.search(r"\n\n`uv run benchmarks/run.py --parts (\w+)", section)
        assert part and f"version {saved['ran'][part[1]]['version']} on" in section, section


def test_a_part_that_failed_says_so(tmp_path: Path) -> None:
    broken = results(**OURS)
    broken["ran"]["growth"] |= {"quick": True, "machine": "m", "failed": "ValueError: a | b"}
    del broken["parts"]["growth"]
    report.write(broken, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert "**This part is not complete: ValueError: a \\| b.**" in page
    assert "This part was not run." in page and "Not figures to quote" in page


def test_what_is_saved_is_loaded_without_places_and_addresses(tmp_path: Path) -> None:
    note = f"{REPOSITORY}/x and https://127.0.0.1:8/v1"
    save({"parts": {"tokens": {"calls": [1, 2], "note": note}}, "ran": {}}, tmp_path)
    assert '"calls": [1, 2]' in (tmp_path / "benchmarks/results.json").read_text()
    assert load(tmp_path)["parts"]["tokens"]["note"] == "PROJECT/x and https://…"
    assert load(tmp_path / "none") == {"parts": {}, "ran": {}}


def test_a_part_without_figures_and_a_failure_of_ours_are_no_result() -> None:
    assert is_empty({}) and is_empty(None)
    assert is_empty({"stores": {"1000": {}}}) and is_empty({"calls": []})
    assert not is_empty({"stores": {"1000": {"Chroma": {"failures": {}}}}, "seconds": 0})
    rows = {"agent-memory": {"failed": "adds: no"}, "mem0": {"failed": "no"}}
    rows["agent-memory, endpoint"] = {"failed": "not tried above 10,000"}
    broken = results(**rows)
    broken["ran"]["tokens"] = {"failed": "ValueError"}
    assert [*our_failures(broken)] == ["tokens", "agent-memory"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
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
    return file


def test_what_a_store_finds_of_locomo_is_counted(file: Path) -> None:
    [by_session] = locomo.conversations(file, "session")
    assert by_session.documents[0].text == 'Ann said, "My dog is Rex."\nAnn said, "My cat is Tom."'
    assert by_session.now.isoformat() == "2023-05-03T13:56:00+00:00"
    rows = locomo.measure(file)
    by_turn = rows["by turn, local"]
    assert (by_turn["questions"], by_turn["with evidence"]) == (3, 2)
    assert (by_turn["any@10"], by_turn["all@10"]) == (2, 1)
    # One turn that they cite does not exist.
    assert by_turn["share@10"] == pytest.approx((1 + 0.5 + 1) / 3, abs=1e-4)
    assert rows["by session, local"]["any@5"] == 2


async def test_a_search_that_finds_nothing_is_an_error(file: Path) -> None:
    [given] = locomo.conversations(file, "turn")
    with pytest.raises(ValueError, match="found nothing"):
        await locomo.by_store(given._replace(documents=[]))


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
