"""Mounting is free: nothing is imported, opened, created or contacted, and it works twice."""

import json
from pathlib import Path

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_memory_semantic import mount
from memory_semantic.tools import MemorySearchTool, MemoryStoreTool
from processes import run


def test_mounting_loads_no_engine_and_no_model(root: Path) -> None:
    # Not `processes.PREAMBLE`, which imports the storage.
    output = run(
        root,
        """
import subprocess
code = '''
import asyncio, sys, time
import amplifier_core, amplifier_core.testing
before = set(sys.modules)
from amplifier_module_tool_memory_semantic import mount
asyncio.run(mount(amplifier_core.testing.MockCoordinator(), {}))
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
time.sleep(0.1)
'''
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
""",
    )
    kernel = {"amplifier_core"}  # it loads more of itself when something is mounted
    ours = {"amplifier_module_tool_memory_semantic", "memory_semantic"}
    standard = {"secrets", "hmac"}
    assert ours <= set(output.split()) <= kernel | ours | standard


async def test_mounting_touches_nothing_and_needs_nothing(tmp_path: Path) -> None:
    for config in ({}, {"agent_identity": "Not Valid"}, {"storage_root": "/nowhere"}, None):
        coordinator = MockCoordinator()
        assert await mount(coordinator, config) is None
        assert set(coordinator.mount_points["tools"]) == {"memory_store", "memory_search"}
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
