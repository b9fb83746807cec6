"""The memory tools as a client of MCP sees them: the same two, without `pin`.

A server is not shown what the user has said, so that the agent counts as the one who says what is
stored. What only the user may do, the answers name as a command.
"""

from typing import TYPE_CHECKING, Any

from memory_semantic.tools import MemoryStoreTool

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage, Stored


class StoreTool(MemoryStoreTool):
    """`memory_store`, whose answers name commands."""

    input_schema: dict[str, Any] = {  # noqa: RUF012 - a constant
        **MemoryStoreTool.input_schema,
        "properties": {
            name: each
            for name, each in MemoryStoreTool.input_schema["properties"].items()
            if name != "pin"
        },
    }

    async def _run(self, storage: "MemoryStorage", *arguments: Any) -> tuple[dict[str, Any], int]:
        return await super()._run(storage, *arguments, None)

    def _told(self, stored: "Stored", content: str, pinned_by: object) -> str:
        from memory_hooks.cues import found

        told, of_agent = "", f"--agent {self._config['agent_identity']}"
        if stored.beside:
            command = f'agent-memory store "TEXT" --replaces {stored.beside} {of_agent}'
            told += f". {stored.beside} still holds, as the user said it. To correct it: {command}"
        if any(each.kind == "rule" for each in found(content)):
            command = f"agent-memory pin {stored.id} {of_agent}"
            told += f". If it is a rule for every conversation, the user can pin it: {command}"
        return told
