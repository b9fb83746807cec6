"""A tool beside ours, for sessions in tests."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from amplifier_core import ToolResult


@dataclass
class OtherTool:
    """A tool that answers with what `does` makes of the model's arguments."""

    name: str
    does: Callable[[dict[str, Any]], Awaitable[ToolResult]]
    description: str = "A tool of somebody else's"
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """The tool's answer."""
        return await self.does(input)
