"""The tools in a real Amplifier session: real kernel, the module loaded from its folder.
Mounting is free, requests stay small, and the kernel's own suites pass.
"""

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from amplifier_core import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import HookBehaviorTests, ToolBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests, ToolStructuralTests
from amplifier_module_hooks_memory_semantic_capture import mount as mount_capture
from amplifier_module_hooks_memory_semantic_recall import mount as mount_recall
from amplifier_module_tool_memory_semantic import mount
from amplifier_module_tool_memory_semantic_sharing import mount as mount_sharing
from conversation import Config, chat, search, store
from memory_semantic import MemoryStorage
from memory_sharing.tools import MemoryShareTool
from scripted import MEMORY_MODULE, MEMORY_MODULES, scripted_session
from tokens import count, every_request

TURNS = [store("We chose PostgreSQL.", tags=["db"]), search("Which database did we pick?")]


@pytest.mark.parametrize("module", MEMORY_MODULES)
def test_mounting_loads_no_engine_and_no_model(module: str) -> None:
    package = f"amplifier_module_{module.replace('-', '_')}"
    # The kernel's own thread, still busy with the mount, may crash an interpreter that ends.
    script = f"""
import asyncio, os, sys
import amplifier_core, amplifier_core.testing
before = set(sys.modules)
import {package}
asyncio.run({package}.mount(amplifier_core.testing.MockCoordinator(), {{}}))
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}), flush=True)
os._exit(0)
"""
    command = [sys.executable, "-W", "error", "-c", script]
    loaded = set(subprocess.check_output(command, text=True).split())
    assert package in loaded
    if module.startswith("tool"):
        kernel = {"amplifier_core"}  # it loads more of itself when something is mounted
        ours = {package, "memory_semantic", "memory_sharing"}
        assert loaded <= kernel | ours | {"secrets", "hmac"}
    assert not loaded & {"qdrant_edge", "qdrant_client", "wordllama", "openai", "numpy"}


async def test_mounting_touches_nothing_and_needs_nothing(memory: Config, tmp_path: Path) -> None:
    wrong = ({"agent_identity": "Not Valid"}, {"storage_root": "/nowhere"}, {"nonsense": 1})
    shared = MockCoordinator()
    for config in ({}, None, *wrong, {**memory, "share_with": "alice", "also_search": ["team"]}):
        coordinator, shared = MockCoordinator(), MockCoordinator()
        assert await mount_sharing(shared, config) is None
        assert "memory_search" in shared.mount_points["tools"]
        assert await mount(coordinator, config) is None
        assert set(coordinator.mount_points["tools"]) == {"memory_store", "memory_search"}
        undo = [await hook(coordinator, config) for hook in (mount_capture, mount_recall)]
        assert len(coordinator.hooks.list_handlers()["prompt:submit"]) == 2
        for unmount in undo:
            unmount()
        assert not coordinator.hooks.list_handlers().get("prompt:submit")
    declared = await shared.collect_contributions("observability.events")
    assert ["memory:shared"] in declared and [*tmp_path.rglob("*")] == [tmp_path / "home"]


def test_what_every_request_carries_takes_at_most_720_tokens() -> None:
    """Both tools, the instructions and the three skills; sharing has a tool of its own."""
    skills = sorted((MEMORY_MODULE / "agent_memory/plugins").glob("*/skills/*/SKILL.md"))
    listed = [yaml.safe_load(each.read_text().split("---\n")[1]) for each in skills]
    lines = "".join(f"- **{each['name']}**: {each['description']}\n" for each in listed)
    texts = [count(lines), *every_request().values()]
    assert len(listed) == 3 and sum(texts) <= 720
    assert len(json.dumps([MemoryShareTool.description, MemoryShareTool.input_schema])) < 350


async def test_events_tell_what_happened_and_neither_they_nor_logs_what_was_said(
    memory: Config, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
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
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith("amplifier_core")]
    assert not re.search("PostgreSQL|database", json.dumps([events, ours]))
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


class TestTools(ToolStructuralTests, ToolBehaviorTests):
    @pytest.fixture(params=["", "_sharing"])
    def module_path(self, request: pytest.FixtureRequest) -> Path:
        return MEMORY_MODULE / f"amplifier_module_tool_memory_semantic{request.param}"


class TestHooks(HookStructuralTests, HookBehaviorTests):
    @pytest.fixture(params=["recall", "capture"])
    def module_path(self, request: pytest.FixtureRequest) -> Path:
        return MEMORY_MODULE / f"amplifier_module_hooks_memory_semantic_{request.param}"
