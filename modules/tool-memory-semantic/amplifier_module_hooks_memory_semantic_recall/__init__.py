"""The package in which Amplifier's kernel looks for the module; the code is `memory_hooks`."""

from memory_hooks.recall import mount

__amplifier_module_type__ = "hook"
__all__ = ["mount"]
