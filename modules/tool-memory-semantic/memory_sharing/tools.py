"""What a model sees of sharing, and how Amplifier mounts it.

Importing this loads neither the vector engine nor an embedding model.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memory_semantic.errors import UNCHANGED, InputError
from memory_semantic.identity import SETTINGS, TOOL_MODULE, module_config
from memory_semantic.tools import MemorySearchTool, MemoryTool, may_write

from .settings import MODULE

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage

    from .settings import SharingConfig

logger = logging.getLogger(__name__)

# Each event with what it carries, which is never a text.
EVENTS = {"memory:shared": "`agent_id`, `to_agent`, `memory_id`"}

_OWN = ("share_with", "also_search")


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Let the session's `memory_search` find what `also_search` opens, and give the session
    `memory_share` if `share_with` names anybody and `read_only` allows it. Opens and contacts
    nothing.
    """
    search, share = _tools(coordinator, config or {})
    await coordinator.mount("tools", search, name=search.name)
    if share.wanted:
        await coordinator.mount("tools", share, name=share.name)
    coordinator.register_contributor("observability.events", MODULE, lambda: list(EVENTS))
    logger.info("Mounted %s", "memory_search and memory_share" if share.wanted else "memory_search")


async def on_session_ready(coordinator: Any) -> None:
    """Mount `memory_search` again, if the module of the memory tools came later and replaced it."""
    search, _ = _tools(coordinator, module_config(coordinator, MODULE))
    if not isinstance(coordinator.get("tools", search.name), SharedSearchTool):
        await coordinator.mount("tools", search, name=search.name)


def _tools(
    coordinator: Any, config: Mapping[str, Any]
) -> tuple["SharedSearchTool", "MemoryShareTool"]:
    # The settings of the memory tools are in the mount plan; the same names here win.
    merged = {**module_config(coordinator, TOOL_MODULE), **config}
    memory = {name: value for name, value in merged.items() if name not in _OWN}
    own = {name: config[name] for name in _OWN if name in config}
    return SharedSearchTool(coordinator, memory, own), MemoryShareTool(coordinator, memory, own)


class _SharingTool(MemoryTool):
    """What both tools have in common: two kinds of settings, which are checked at each call."""

    def __init__(self, coordinator: Any, config: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        super().__init__(coordinator, config)
        self._own = own

    def _settings(self) -> tuple["SharingConfig", dict[str, Any]]:
        from memory_semantic.settings import core_settings, parsed

        from .settings import SharingConfig

        return parsed(self._own, SharingConfig), core_settings(self._config, own=(*SETTINGS, *_OWN))


class SharedSearchTool(_SharingTool, MemorySearchTool):
    """`memory_search`, in the stores of `also_search` as well."""

    async def _run(self, storage: "MemoryStorage", *arguments: Any) -> tuple[dict[str, Any], int]:
        from .several import SeveralStores

        own, settings = self._settings()
        stores = SeveralStores(storage.agent_id, settings, own.also_search)
        output, masked = await super()._run(stores, *arguments)
        owners = {memory.id: memory.agent_id for memory in stores.found}
        for answer in output["memories"]:
            if (owner := owners[answer["id"]]) != storage.agent_id:
                answer["agent"] = owner
        if stores.not_searched:
            output["not_searched"] = stores.not_searched
        return output, masked


class MemoryShareTool(_SharingTool):
    """`memory_share`: copy a memory to another agent."""

    name = "memory_share"
    description = (
        "Copy one of your memories into another agent's long-term memory, when the user asks for "
        "it. The copy says that it is from you."
    )
    input_schema: dict[str, Any] = {  # noqa: RUF012 - a constant
        "type": "object",
        "properties": {"memory_id": {"type": "string"}, "to_agent": {"type": "string"}},
        "required": ["memory_id", "to_agent"],
    }

    @property
    def wanted(self) -> bool:
        """Whether the settings ask for this tool."""
        asked = str(self._own.get("share_with") or "").strip()
        return bool(asked) and may_write(self._config)

    async def _run(self, storage: "MemoryStorage", *arguments: Any) -> tuple[dict[str, Any], int]:
        from memory_semantic import MemoryStorage

        from .copies import sharing

        memory_id, to_agent = arguments
        own, settings = self._settings()
        allowed = [name for name in own.share_with if name != storage.agent_id]
        if to_agent not in allowed:
            names = ", ".join(allowed) or "nobody"
            raise InputError(f"to_agent must be one of: {names}. {UNCHANGED}")
        memory = await storage.get(memory_id)
        if memory is None:
            raise InputError(f"You have no memory {memory_id}. {UNCHANGED}")
        memory_id = memory.id
        if memory.copied_from:
            raise InputError(
                f"{memory_id} is a copy: only your own memories can be shared. {UNCHANGED}"
            )
        if memory.replaced_by:
            raise InputError(f"{memory_id} was corrected: share what replaced it. {UNCHANGED}")
        way = await sharing(storage, MemoryStorage(to_agent, settings))
        copied = await way.copy([memory]) if way else []
        if not copied:
            raise InputError(f"{memory_id} was deleted meanwhile. {UNCHANGED}")
        await self._emit("memory:shared", storage, to_agent=to_agent, memory_id=memory_id)
        # The same answer if it was there before: an agent does not learn what another knows.
        return {"memory_id": memory_id, "status": f"{to_agent} has it"}, copied[0].masked
