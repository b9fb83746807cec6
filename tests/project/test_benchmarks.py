"""What the benchmarks measure again, and that README's table says who is better."""

from pathlib import Path
from typing import Any

import report_readme as readme
import report_stores as stores
from results import code_of, is_empty, is_kept, joined, lacking, load, save


def spread(median: float) -> dict[str, float]:
    return {"median": median, "p95": 2 * median}


def row(search: float, add: float) -> dict[str, Any]:
    return {"search_ms": spread(search), "add_ms": spread(add), "disk_bytes": 4_000}


def results(**rows: dict[str, Any]) -> dict[str, Any]:
    growth = {"dimensions": 3, "stores": {"1000": rows}, "environments": {}}
    ran = {"growth": {"version": "9.8.7", "started": "2026-11-25T10:00:00+00:00"}}
    return {"parts": {"growth": growth}, "ran": ran}


OURS = {"agent-memory": row(10, 20), "agent-memory, endpoint": row(30, 40)}


def test_the_sentence_above_the_table_names_who_is_better_and_at_what() -> None:
    others = {"sqlite-vec": row(5, 25), "Chroma": row(11, 19)}
    text = readme.table_of(results(**OURS, **others))
    assert "version 9.8.7 on 2026-11-25" in text
    assert "at: search in a loop (sqlite-vec); store in a loop (Chroma)." in text
    assert "| **agent-memory** |" in text and "| sqlite-vec |" in text


def test_who_asks_a_service_is_compared_with_ours_that_asks_one() -> None:
    rows = {**OURS, "mem0": row(29, 41), "Chroma": row(29, 41)}
    assert list(stores.less(rows, stores.SEARCH.of)) == [("mem0", 29)]
    assert list(stores.less(rows, stores.ADD.of)) == []


def test_the_table_replaces_what_is_between_the_markers_alone(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{readme.BEGIN}old\n{readme.END}\nafter\n")
    readme.put("new", file)
    assert file.read_text() == f"before\n{readme.BEGIN}new\n{readme.END}\nafter\n"


def test_the_readme_has_a_place_for_the_table() -> None:
    whole = (Path(__file__).parents[2] / "README.md").read_text()
    assert whole.count(readme.BEGIN) == whole.count(readme.END) == 1


def test_a_run_that_broke_off_goes_on_with_what_is_missing() -> None:
    names, steps = ["Chroma", "mem0"], [100, 1_000]
    assert lacking({}, "growth", steps, names) == {100: names, 1_000: names}
    first = {"stores": {"1000": {"Chroma": {"n": 1}}}, "environments": {"Chroma": {}}}
    done = joined({}, first, "growth")
    assert lacking(done, "growth", steps, names) == {100: names, 1_000: ["mem0"]}
    more = {"stores": {"1000": {"mem0": {"n": 2}}}, "environments": {"mem0": {}}}
    done = joined(done, more, "growth")
    assert done["stores"] == {"1000": {"Chroma": {"n": 1}, "mem0": {"n": 2}}}
    assert done["environments"].keys() == {"Chroma", "mem0"}
    small = {"stores": {"100": {name: {"n": 3} for name in names}}, "environments": {}}
    done = joined(done, small, "growth")
    assert list(done["stores"]) == ["100", "1000"]
    assert lacking(done, "growth", steps, names) == {}


def test_what_other_code_or_a_quick_look_measured_is_not_kept(tmp_path: Path) -> None:
    ran = {"code": "abc", "quick": False}
    save({"parts": {"tokens": {"calls": [1]}}, "ran": {"tokens": ran}}, tmp_path)
    saved = load(tmp_path)
    assert is_kept(saved, "tokens", "abc", quick=False)
    assert not is_kept(saved, "tokens", "other", quick=False)
    assert not is_kept(saved, "tokens", "abc", quick=True)
    assert not is_kept(saved, "recall", "abc", quick=False)
    ran["failed"] = "interrupted"
    assert not is_kept({**saved, "ran": {"tokens": ran}}, "tokens", "abc", quick=False)


def test_the_code_of_a_part_is_that_of_its_own_files_and_of_the_product() -> None:
    assert code_of("growth.py stores") == code_of("growth.py stores")
    assert code_of("growth.py stores") != code_of("tokens.py")


def test_a_part_without_figures_is_no_result() -> None:
    assert is_empty({}) and is_empty(None)
    assert is_empty({"stores": {"1000": {}}}) and is_empty({"calls": []})
    assert not is_empty({"stores": {"1000": {"Chroma": {"failures": {}}}}, "seconds": 0})
