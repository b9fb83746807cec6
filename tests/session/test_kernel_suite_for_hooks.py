"""The suites that Amplifier's kernel has for hooks, on recall as the kernel finds it."""

from pathlib import Path

import pytest
from amplifier_core.validation.behavioral import HookBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests
from scripted import MEMORY_MODULE


@pytest.fixture
def module_path() -> Path:
    return MEMORY_MODULE / "amplifier_module_hooks_memory_semantic_context"


class TestStructure(HookStructuralTests):
    pass


class TestBehavior(HookBehaviorTests):
    pass
