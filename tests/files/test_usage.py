"""What is used: with `usage` on, searches and recall record which memories they find, no text."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, MakeStorage
from memory_semantic import MemoryStorage, usage
from qdrant_server import QdrantServer


@pytest.fixture
def log(root: Path) -> Path:
    return root / "sam" / usage.NAME


@pytest.fixture
def used(make_storage: MakeStorage) -> MemoryStorage:
    """The storage of `sam`, which records what is used."""
    return make_storage(usage=True)


def recorded(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_records_ids_and_no_text(used: MemoryStorage, log: Path) -> None:
    assert await used.search("x") == []  # without a store, nothing is created
    assert not log.parent.exists()
    first, second = await used.store_many(["Deploys happen on Tuesday.", "Anna likes tea."])
    assert await used.get(first) and await used.get_recent()  # neither is a search
    found = await used.search("When do deploys happen?")
    await used.search("tea", limit=1, tags=["none"])
    assert recorded(log) == [
        {"time": "2026-06-15T12:00:00Z", "ms": 0.0, "ids": [m.id for m in found]},
        {"time": "2026-06-15T12:00:00Z", "ms": 0.0, "ids": []},
    ]
    assert {memory.id for memory in found} == {first, second}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_is_off_by_default_tells_prompts_from_searches_and_is_left_by_a_forget(
    storage: MemoryStorage, used: MemoryStorage, log: Path, clock: Clock
) -> None:
    first, second = await used.store_many(["Deploys happen on Tuesday.", "Anna likes tea."])
    await storage.search("deploys")  # it is off
    await storage.record_prompt([first], clock.now)
    await used.search("tea", prompt=True)  # recall records what it shows of it
    assert not log.exists() and storage.searches() == []
    asked = clock.now
    clock.advance(seconds=0.0256)
    await used.record_prompt([first, second], asked)
    await used.record_prompt([], asked)
    [found] = await used.search("tea", select=lambda memories: memories[:1])
    assert found.id == second and await used.delete([second]) == 1
    time = "2026-06-15T12:00:00"
    assert recorded(log) == [
        {"time": f"{time}Z", "ms": 25.6, "ids": [first, second], "prompt": True},
        {"time": f"{time}Z", "ms": 25.6, "ids": [], "prompt": True},
        {"time": f"{time}.025600Z", "ms": 0.0, "ids": [second]},
    ]
    assert [each.prompt for each in used.searches()] == [True, True, False]


async def test_torn_lines_are_skipped(used: MemoryStorage, log: Path, clock: Clock) -> None:
    id = await used.store("fact")
    await used.search("fact")
    whole = log.read_text()
    log.write_text(f'{whole}{whole[:40]}\n\0\0\n[]\n{{"time":1}}\n{whole}')
    [first, second] = used.searches()
    assert first.ids == second.ids == [id] and first.time == second.time == clock.now


async def test_a_large_log_becomes_the_old_one(
    used: MemoryStorage, log: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(usage, "MAX_BYTES", 500)
    old = log.with_name(usage.OLD_NAME)
    await used.store("fact")
    times = []
    for number in range(1, 17):  # a line has 68 bytes, so that eight are over 500
        clock.advance(minutes=1)
        times.append(clock.now)
        await used.search("fact")
        assert [each.time for each in used.searches()] == (times if number < 16 else times[8:])
    assert len(recorded(old)) == 8 and stat.S_IMODE(old.stat().st_mode) == 0o600


async def test_a_log_that_cannot_be_written_stops_nothing_and_a_link_is_not_followed(
    used: MemoryStorage, log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    id = await used.store("a secret fact")
    log.mkdir()
    assert [memory.id for memory in await used.search("fact")] == [id]
    assert used.searches() == []
    assert "IsADirectoryError" in caplog.text and "fact" not in caplog.text
    log.rmdir()
    log.symlink_to(tmp_path / "elsewhere")
    assert await used.search("fact") and not (tmp_path / "elsewhere").exists()


async def test_the_log_of_a_store_on_a_server_is_here(
    make_storage: MakeStorage, qdrant: QdrantServer, log: Path
) -> None:
    there = make_storage(usage=True, qdrant_url=qdrant.url)
    id = await there.store("fact")
    await there.search("fact")
    assert [each["ids"] for each in recorded(log)] == [[id]]
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
