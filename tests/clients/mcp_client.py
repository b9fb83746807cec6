"""A client of MCP for `agent-memory mcp`: the real SDK's, over a real process's pipes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from command import EXECUTABLE, Command
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


class Memory:
    """The memory of `sam` as such a client sees it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        result = await self.client.call_tool(tool, arguments)
        [content] = result.content
        assert content.type == "text"
        return not result.is_error, content.text

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a call that succeeds."""
        well, text = await self.call(tool, **arguments)
        assert well, text
        return json.loads(text)

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The message of a call that fails."""
        well, text = await self.call(tool, **arguments)
        assert not well, text
        return text


def started(
    root: Path, *more: str, agent: str = "sam", **environment: str
) -> StdioServerParameters:
    """How a client starts the server on the stores under `root`; "" names no agent."""
    named = ["--agent", agent] if agent else []
    return StdioServerParameters(
        command=str(EXECUTABLE),
        args=["mcp", *named, "--root", str(root), *more],
        env={**os.environ, **environment},
    )


@asynccontextmanager
async def connected(server: StdioServerParameters, **options: Any) -> AsyncIterator[Memory]:
    async with Client(stdio_client(server), **options) as client:
        yield Memory(client)


async def told(command: Command, *arguments: str) -> Any:
    """The JSON that a command prints; it has an event loop of its own."""
    return await asyncio.to_thread(command.json, *arguments)
