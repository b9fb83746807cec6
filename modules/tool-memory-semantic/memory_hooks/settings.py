"""What a hook of this package goes by: the settings of the memory tools, and its own.

A hook uses the memory that the tools of its session use. Their settings are in the session's
mount plan; the hook's `config` may hold the same names, which then win, beside its own.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from memory_semantic.identity import SETTINGS, resolve_agent_id

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage

TOOL_MODULE = "tool-memory-semantic"

Own = TypeVar("Own")


def read(
    coordinator: Any, config: Mapping[str, Any], own: type[Own]
) -> tuple[Own, "MemoryStorage"]:
    """The hook's own settings, a dataclass `own`, and the memory of the session's agent.

    For the first use, not for mounting: the identity may come late, and a mistake in the settings
    must not keep the module from loading. Creates and contacts nothing. Raises ValueError for a
    wrong value, a name that is no setting, and a session without an agent_identity.
    """
    from memory_semantic import MemoryStorage
    from memory_semantic.settings import core_settings, parsed

    names = [field.name for field in fields(own)]  # type: ignore[arg-type]
    config = {**_of_tools(coordinator), **config}
    memory = core_settings(config, own=[*names, *SETTINGS])
    of_hook = parsed({name: config[name] for name in names if name in config}, own)
    return of_hook, MemoryStorage(resolve_agent_id(coordinator, config), memory)


def _of_tools(coordinator: Any) -> Mapping[str, Any]:
    """The config of the memory tools in the session's mount plan; none if they are not in it."""
    plan = coordinator.config if isinstance(coordinator.config, Mapping) else {}
    for entry in plan.get("tools") or ():
        if isinstance(entry, Mapping) and entry.get("module") == TOOL_MODULE:
            return entry.get("config") or {}
    return {}
