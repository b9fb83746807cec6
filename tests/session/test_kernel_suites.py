"""The suites that Amplifier's kernel has for tools and hooks, on ours as the kernel finds them."""

from pathlib import Path

import pytest
from amplifier_core.validation.behavioral import HookBehaviorTests, ToolBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests, ToolStructuralTests
from scripted import MEMORY_MODULE


class Tools:
    @pytest.fixture
    def module_path(self) -> Path:
        return MEMORY_MODULE / "amplifier_module_tool_memory_semantic"


class Sharing:
    @pytest.fixture
    def module_path(self) -> Path:
        return MEMORY_MODULE / "amplifier_module_tool_memory_semantic_sharing"


class Recall:
    @pytest.fixture
    def module_path(self) -> Path:
        return MEMORY_MODULE / "amplifier_module_hooks_memory_semantic_context"


class TestStructureOfTools(Tools, ToolStructuralTests):
    pass


class TestBehaviorOfTools(Tools, ToolBehaviorTests):
    pass


class TestStructureOfSharing(Sharing, ToolStructuralTests):
    pass


class TestBehaviorOfSharing(Sharing, ToolBehaviorTests):
    pass


class TestStructureOfRecall(Recall, HookStructuralTests):
    pass


class TestBehaviorOfRecall(Recall, HookBehaviorTests):
    pass
