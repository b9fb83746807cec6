"""What a host meets: mounting is free, requests stay small, and the kernel's own suites pass."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import HookBehaviorTests, ToolBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests, ToolStructuralTests
from amplifier_module_hooks_memory_semantic_capture import mount as mount_capture
from amplifier_module_hooks_memory_semantic_recall import mount as mount_recall
from amplifier_module_tool_memory_semantic import mount
from memory_sharing.tools import MemoryShareTool
from scripted import MEMORY_MODULE, MEMORY_MODULES
from tokens import count, every_request


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
        undo = [await hook(coordinator, config) for hook in (mount_capture, mount_recall)]
        assert len(coordinator.hooks.list_handlers()["prompt:submit"]) == 2
        for unmount in undo:
            unmount()
        assert not coordinator.hooks.list_handlers().get("prompt:submit")
    assert list((tmp_path / "home").iterdir()) == []


def test_what_every_request_carries_takes_at_most_720_tokens() -> None:
    """Both tools, the instructions and the three skills; sharing has a tool of its own."""
    skills = sorted((MEMORY_MODULE / "agent_memory/plugins").glob("*/skills/*/SKILL.md"))
    listed = [yaml.safe_load(each.read_text().split("---\n")[1]) for each in skills]
    lines = "".join(f"- **{each['name']}**: {each['description']}\n" for each in listed)
    texts = [count(lines), *every_request().values()]
    assert len(listed) == 3 and sum(texts) <= 720
    assert len(json.dumps([MemoryShareTool.description, MemoryShareTool.input_schema])) < 350


class TestTools(ToolStructuralTests, ToolBehaviorTests):
    @pytest.fixture(params=["", "_sharing"])
    def module_path(self, request: pytest.FixtureRequest) -> Path:
        return MEMORY_MODULE / f"amplifier_module_tool_memory_semantic{request.param}"


class TestHooks(HookStructuralTests, HookBehaviorTests):
    @pytest.fixture(params=["recall", "capture"])
    def module_path(self, request: pytest.FixtureRequest) -> Path:
        return MEMORY_MODULE / f"amplifier_module_hooks_memory_semantic_{request.param}"
