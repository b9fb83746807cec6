"""The tools in a real Amplifier session: real kernel, the module loaded from its folder."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import HookResult
from conversation import Config, chat, search, store
from memory_semantic import MemoryStorage
from scripted import scripted_session

TURNS = [store("We chose PostgreSQL.", tags=["db"]), search("Which database did we pick?")]


async def test_store_in_one_session_find_in_the_next(memory: Config) -> None:
    [stored] = (await chat(memory, "Go on.", turns=TURNS[:1])).results
    [found] = (await chat(memory, "Go on.", turns=TURNS[1:])).results
    assert found["output"]["memories"][0]["id"] == stored["output"]["memory_id"]


async def test_events_tell_what_happened_and_not_what_was_said(memory: Config) -> None:
    talk = await chat(memory, "Go on.", turns=TURNS)
    (stored, _), events = talk.results, talk.of_tools
    kernel_s = {"session_id", "parent_id", "timestamp"}
    told = [(event, {k: v for k, v in data.items() if k not in kernel_s}) for event, data in events]
    memory_id = stored["output"]["memory_id"]
    time = told[1][1]["query_time_ms"]
    assert told == [
        ("memory:stored", {"agent_id": "sam", "memory_id": memory_id}),
        ("memory:searched", {"agent_id": "sam", "results_count": 1, "query_time_ms": time}),
    ]
    assert "PostgreSQL" not in json.dumps(events) and "database" not in json.dumps(events)
    async with scripted_session([], memory) as session:
        declared = await session.coordinator.collect_contributions("observability.events")
        assert ["memory:stored", "memory:searched"] in declared


@pytest.mark.parametrize("late", ["", "late"])
async def test_an_identity_may_come_after_the_mount(memory: Config, root: Path, late: str) -> None:
    session = {} if late else {"agent_identity": "helper"}
    async with scripted_session(TURNS[:1], memory, session=session) as opened:
        if late:
            opened.coordinator.register_capability("agent_identity", late)
        await opened.execute("Go on.")
    assert [path.name for path in root.iterdir()] == [late or "helper"]


async def test_without_identity_the_tools_say_how_to_set_one(root: Path, tmp_path: Path) -> None:
    talk = await chat({"storage_root": str(root)}, "Go on.", turns=TURNS)
    for result in talk.results:
        assert not result["success"]
        for line in ("agent_identity", "settings.yaml", "overrides:", "tool-memory-semantic:"):
            assert line in result["error"]["message"]
    assert not root.exists() and list((tmp_path / "home").iterdir()) == []


async def test_a_handler_that_fails_undoes_no_store(memory: Config, sam: MemoryStorage) -> None:
    async def fail(event: str, data: dict[str, Any]) -> HookResult:
        raise RuntimeError("a hook of somebody else's")

    async with scripted_session(TURNS[:1], memory) as session:
        session.coordinator.hooks.register("memory:stored", fail, name="fail")
        await session.execute("Go on.")
    assert await sam.count() == 1


async def test_nothing_that_was_said_gets_into_a_log(
    memory: Config, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await chat(memory, "Go on.", turns=TURNS)
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith("amplifier_core")]
    assert not any("PostgreSQL" in line or "database" in line for line in ours)
