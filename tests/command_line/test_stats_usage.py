"""The person sees what is used: `stats`, where the setting `usage` is on."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from agent_memory.output import local_time
from command import Command, settings
from conftest import Clock, MakeStorage


@pytest.fixture
async def ids(make_storage: MakeStorage, clock: Clock) -> list[str]:
    """Memories: one that was recalled often, long ago, and one that was recalled once, later."""
    storage = make_storage(usage=True)
    ids = await storage.store_many(["The deploy day is Tuesday.", "Anna likes tea.", "Never read."])
    for id in (ids[0], ids[0], ids[1]):
        clock.advance(days=60)
        await storage.search("x", select=lambda found, id=id: [m for m in found if m.id == id])
    return ids


def test_shows_what_is_recalled(command: Command, ids: list[str], clock: Clock) -> None:
    shown = command.run("stats").stdout
    assert re.search(r"^searches  0 in the last 30 days$", shown, re.MULTILINE)
    most = shown[shown.index("Recalled most") :].splitlines()
    earlier, last = local_time(clock.now - timedelta(days=60)), local_time(clock.now)
    assert most[1] == f"2\t{earlier}\t{ids[0]}\tThe deploy day is Tuesday."
    assert most[2] == f"1\t{last}\t{ids[1]}\tAnna likes tea."
    assert not [line for line in most if "Never read" in line]
    assert re.match(r"Stored before \d{4}-\d\d-\d\d and not recalled since: \d mem", most[-1])


def test_json_has_all_of_it(command: Command, ids: list[str]) -> None:
    usage = command.json("stats")["usage"]
    assert [(each["id"], each["times"]) for each in usage["recalled"]] == [
        (ids[0], 2),
        (ids[1], 1),
    ]
    assert usage["first"] == "2026-08-14T12:00:00.000000+00:00"
    assert ids[2] in usage["not_recalled"]
    assert len(usage["searches"]) == 30


def test_searches_by_the_command_count(command: Command) -> None:
    settings(usage="true")
    stored = command.json("store", "one")["memory_id"]
    command.run("search", "one")
    usage = command.json("stats")["usage"]
    assert sum(usage["searches"].values()) == 1 and usage["milliseconds"] > 0
    assert [each["id"] for each in usage["recalled"]] == [stored]
    assert "1 in the last 30 days, median" in command.run("stats").stdout


def test_forgotten_memories_are_not_in_the_log(command: Command, root: Path) -> None:
    settings(usage="true")
    gone, kept = (command.json("store", text)["memory_id"] for text in ("one", "two"))
    command.run("search", "one")
    assert "Gone from search and from the files." in command.run("forget", gone, "--yes").stdout
    log = (root / "sam/usage.jsonl").read_text()
    assert kept in log and gone not in log
    assert "usage" not in command.run("doctor", "--offline").stdout


def test_an_export_does_not_contain_it(command: Command, ids: list[str], tmp_path: Path) -> None:
    command.run("export", str(tmp_path / "export.jsonl"))
    for line in (tmp_path / "export.jsonl").read_text().splitlines()[1:]:
        assert json.loads(line).keys() <= {"id", "timestamp", "tags", "content", "metadata"}


def test_the_page_has_it(command: Command, ids: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command.run("stats", "--html", str(page))
    assert '"recalled":2' in page.read_text() and '"recorded":"2026-08-14T' in page.read_text()


def test_says_nothing_of_it_when_it_is_off(command: Command, tmp_path: Path) -> None:
    command.run("store", "one")
    command.run("search", "one")
    assert "ecalled" not in command.run("stats").stdout and "usage" not in command.json("stats")
    page = tmp_path / "page.html"
    command.run("stats", "--html", str(page))
    assert '"recorded":null' in page.read_text()
