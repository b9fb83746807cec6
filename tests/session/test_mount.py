"""Mounting is free: nothing is imported, opened, created or contacted, and it works twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_memory_semantic_capture import mount as mount_capture
from amplifier_module_hooks_memory_semantic_recall import mount as mount_recall
from amplifier_module_tool_memory_semantic import mount
from memory_semantic.tools import MemorySearchTool, MemoryStoreTool
from scripted import MEMORY_MODULES


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
    for config in (
        {},
        {"agent_identity": "Not Valid"},
        {"storage_root": "/nowhere"},
        {"nonsense": 1},
        None,
    ):
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
