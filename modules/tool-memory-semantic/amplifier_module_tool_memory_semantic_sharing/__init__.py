"""The package in which Amplifier's kernel looks for the module; the code is `memory_sharing`."""

from memory_sharing.tools import mount, on_session_ready

__amplifier_module_type__ = "tool"
__all__ = ["mount", "on_session_ready"]
