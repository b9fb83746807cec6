"""The suites that Amplifier's kernel has for tools, on this module as the kernel finds it."""

from pathlib import Path

import pytest
from amplifier_core.validation.behavioral import ToolBehaviorTests
from amplifier_core.validation.structural import ToolStructuralTests
from scripted import MEMORY_MODULE


@pytest.fixture
def module_path() -> Path:
    return MEMORY_MODULE / "amplifier_module_tool_memory_semantic"


class TestStructure(ToolStructuralTests):
    pass


class TestBehavior(ToolBehaviorTests):
    pass
