"""The suites that Amplifier's kernel has for tools and hooks, on ours as the kernel finds them."""

from pathlib import Path

import pytest
from amplifier_core.validation.behavioral import HookBehaviorTests, ToolBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests, ToolStructuralTests
from scripted import MEMORY_MODULE


class TestTools(ToolStructuralTests, ToolBehaviorTests):
    @pytest.fixture
    def module_path(self) -> Path:
        return MEMORY_MODULE / "amplifier_module_tool_memory_semantic"


class TestSharing(ToolStructuralTests, ToolBehaviorTests):
    @pytest.fixture
    def module_path(self) -> Path:
        return MEMORY_MODULE / "amplifier_module_tool_memory_semantic_sharing"


class TestRecall(HookStructuralTests, HookBehaviorTests):
    @pytest.fixture
    def module_path(self) -> Path:
        return MEMORY_MODULE / "amplifier_module_hooks_memory_semantic_recall"
