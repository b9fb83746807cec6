"""What a host meets: mounting is free, the kernel's own suites pass, and nothing is left behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import HookBehaviorTests, ToolBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests, ToolStructuralTests
from amplifier_module_hooks_memory_semantic_capture import mount as mount_capture
from amplifier_module_hooks_memory_semantic_recall import mount as mount_recall
from amplifier_module_tool_memory_semantic import mount
from memory_semantic.tools import MemorySearchTool, MemoryStoreTool
from processes import run
from scripted import MEMORY_MODULE, MEMORY_MODULES


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


async def test_mounting_touches_nothing_and_needs_nothing(tmp_path: Path) -> None:
    wrong = ({"agent_identity": "Not Valid"}, {"storage_root": "/nowhere"}, {"nonsense": 1})
    for config in ({}, None, *wrong):
        coordinator = MockCoordinator()
        assert await mount(coordinator, config) is None
        assert set(coordinator.mount_points["tools"]) == {"memory_store", "memory_search"}
        drain = await mount_capture(coordinator, config)
        unmount = await mount_recall(coordinator, config)
        assert len(coordinator.hooks.list_handlers()["prompt:submit"]) == 2
        unmount()
        assert len(coordinator.hooks.list_handlers()["prompt:submit"]) == 1
        await drain()
    assert list((tmp_path / "home").iterdir()) == []


def test_both_tools_together_cost_less_than_1600_characters_a_request() -> None:
    specs = [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        for tool in (MemoryStoreTool, MemorySearchTool)
    ]
    assert len(json.dumps(specs)) < 1_600


def test_the_descriptions_say_when_and_when_not() -> None:
    assert '"remember"' in MemoryStoreTool.description and "Not for" in MemoryStoreTool.description
    assert "what did we decide" in MemorySearchTool.description
    assert "Not for" in MemorySearchTool.description


class TestTools(ToolStructuralTests, ToolBehaviorTests):
    @pytest.fixture(params=["", "_sharing"])
    def module_path(self, request: pytest.FixtureRequest) -> Path:
        return MEMORY_MODULE / f"amplifier_module_tool_memory_semantic{request.param}"


class TestRecall(HookStructuralTests, HookBehaviorTests):
    @pytest.fixture
    def module_path(self) -> Path:
        return MEMORY_MODULE / "amplifier_module_hooks_memory_semantic_recall"


def test_a_process_that_used_its_memory_ends_without_a_trace(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    output = run(
        root,
        """
import threading
async def main():
    memory_id = await storage().store("x")
    await asyncio.gather(*(storage().search("x") for _ in range(5)))
    await storage().delete([memory_id])
asyncio.run(main())
others = [t for t in threading.enumerate() if t is not threading.main_thread()]
assert all(t.name.startswith("agent-memory") for t in others), others
""",
    )
    assert output == ""
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "home").iterdir()) == []
    assert {path.name for path in root.iterdir()} == {"sam"}
    assert not list(root.rglob("*.tmp"))
