"""A client of MCP for `agent-memory mcp`: the real SDK's, over a real process's pipes."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

from command import EXECUTABLE, Command
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

CHOSEN = "We chose PostgreSQL for the users table."


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


class Raw:
    """A client that writes and reads lines itself, so that it can say anything, and break off
    anywhere. It `shakes` hands, and says what it `can`.
    """

    def __init__(
        self, root: Path, *, shakes: bool = True, can: dict[str, Any] | None = None, **env: str
    ) -> None:
        self.complaints = root.parent / "stderr"
        arguments = [EXECUTABLE, "mcp", "--agent", "sam", "--root", root]
        with self.complaints.open("w") as complaints:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                errors="surrogateescape",
                env={**os.environ, "PYTHONUTF8": "1", **env},
            )
        assert self.process.stdin and self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout
        self._id = 0
        if shakes:
            client = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": can or {}}
            self.say("initialize", protocolVersion="2025-06-18", **client)
            self.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def write(self, line: str) -> None:
        self.input.write(line + "\n")
        self.input.flush()

    def read(self) -> dict[str, Any]:
        return json.loads(self.output.readline())

    def send(self, method: str, **params: Any) -> None:
        self._id += 1
        call = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.write(json.dumps(call))

    def say(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a call."""
        self.send(method, **params)
        while True:
            answer = self.read()
            if answer.get("id") == self._id:
                return answer["result"]

    def call(self, tool: str, _meta: Any = None, **arguments: Any) -> dict[str, Any]:
        """The result of a tool."""
        meta = {"_meta": _meta} if _meta else {}
        return self.say("tools/call", name=tool, arguments=arguments, **meta)

    def hook(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a hook of the program gets from a tool that is not listed."""
        return json.loads(self.call(tool, **arguments)["content"][0]["text"])

    def close(self) -> None:
        for pipe in (self.input, self.output):
            with suppress(BrokenPipeError):
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.process.wait(60)
