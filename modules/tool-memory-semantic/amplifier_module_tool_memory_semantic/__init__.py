"""The package in which Amplifier's kernel looks for the module; the code is `memory_semantic`."""

from memory_semantic.tools import mount

__amplifier_module_type__ = "tool"
__all__ = ["mount"]
