"""The memory tools as a client of MCP sees them: the same two, without what rests on a quote.

A server is not shown what the user has said, so that the agent counts as the one who says what is
stored. What only the user may do, the answers name as a command.
"""

from typing import TYPE_CHECKING, Any

from memory_semantic.tools import MemoryStoreTool, MemoryTool

if TYPE_CHECKING:
    from memory_semantic import Stored

# What a client is not offered: nothing that it could quote has been heard here.
_OF_THE_USER = ("quote", "pin", "everywhere")


def offered(tool: MemoryTool) -> dict[str, Any]:
    """The schema of `tool` for clients; some send `pin` all the same, and are told."""
    properties = tool.input_schema["properties"].items()
    left = {name: each for name, each in properties if name not in _OF_THE_USER}
    return {**tool.input_schema, "properties": left}


class StoreTool(MemoryStoreTool):
    """`memory_store`, whose answers name commands."""

    def remarks(self, stored: "Stored", said_by: object, pin: bool, invented: bool) -> str:
        """The same, with the commands of what only the user may do."""
        said, of_agent = "", f"--agent {self._config['agent_identity']}"
        if stored.refused:
            command = f'agent-memory store "TEXT" --replaces {stored.refused} {of_agent}'
            said += f". {stored.refused} still holds, as the user said it. To correct it: {command}"
        if pin:
            command = f"agent-memory pin {stored.id} {of_agent}"
            said += f". Not pinned. If it is a rule for every conversation, the user can: {command}"
        return said
