"""The name of hooks-memory-semantic-recall before 3.0, for bundles and settings that have it."""

from memory_hooks.recall import mount

__amplifier_module_type__ = "hook"
__all__ = ["mount"]
