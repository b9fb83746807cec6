"""The person sees what is used: `stats`, where the setting `usage` is on."""

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


def test_shows_what_is_recalled(
    command: Command, ids: list[str], clock: Clock, tmp_path: Path
) -> None:
    shown = command.run("stats").stdout
    assert re.search(r"^searches  3 since 2026-08-14, median 0 ms$", shown, re.MULTILINE)
    most = shown[shown.index("Recalled most") :].splitlines()
    earlier, last = local_time(clock.now - timedelta(days=60)), local_time(clock.now)
    assert most[1] == f"2\t{earlier}\t{ids[0]}\tThe deploy day is Tuesday."
    assert most[2] == f"1\t{last}\t{ids[1]}\tAnna likes tea."
    assert not [line for line in most if "Never read" in line]
    assert most[-1] == "Stored before 2026-08-14 and not recalled since: 1 memory"
    command.run("stats", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert '"recalled":2' in page and '"recorded":"2026-08-14T' in page


def test_searches_by_the_command_count(command: Command) -> None:
    settings(usage="true")
    stored = command.json("store", "one")["memory_id"]
    command.run("search", "one")
    usage = command.json("stats")["usage"]
    assert sum(usage["searches"].values()) == 1 and usage["milliseconds"] > 0
    assert [each["id"] for each in usage["recalled"]] == [stored]
    assert re.fullmatch(r"[0-9T:.-]{26}\+00:00", usage["first"])
    assert "searches  1 since" in command.run("stats").stdout


def test_says_nothing_of_it_when_it_is_off(command: Command, tmp_path: Path) -> None:
    command.run("store", "one")
    command.run("search", "one")
    assert "ecalled" not in command.run("stats").stdout and "usage" not in command.json("stats")
    page = tmp_path / "page.html"
    command.run("stats", "--html", str(page))
    assert '"recorded":null' in page.read_text()
