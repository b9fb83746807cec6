"""A real daemon in a separate process, and real clients for it."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from memory_daemon.database import sha256

TABLES = ("events", "chunks", "decisions", "tasks", "artifacts")
TEST_DSN = os.environ.get("TEST_MEMORY_DAEMON_DSN", "")
COMMAND = [sys.executable, "-m", "memory_daemon"]


class DaemonProcess:
    """`agent-memory-daemon serve` in its own folder, on any free port."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.environment = {
            **{name: value for name, value in os.environ.items() if "MEMORY_DAEMON" not in name},
            "MEMORY_DAEMON_HOME": str(home),
            "MEMORY_DAEMON_PORT": "0",
            **{f"MEMORY_DAEMON_{name.upper()}": value for name, value in settings.items()},
        }
        self.dsn = settings.get("dsn") or f"host={home}/postgres user=postgres dbname=postgres"
        self.started = ""

    def start(self) -> "DaemonProcess":
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "daemon.log").open("a") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "serve"],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout
        for line in self.process.stdout:
            self.started += line
            if line.startswith("Serving on "):
                self.url = line.split()[2].rstrip(".")
                return self
        raise AssertionError(f"it did not start: {self.started}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(30)
        assert self.process.stdout
        self.process.stdout.close()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Another command, with the same settings."""
        return subprocess.run(
            [*COMMAND, *arguments], env=self.environment, capture_output=True, text=True
        )

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, as the owner of the database."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET search_path = memory")
            found = connection.execute(query.encode(), values)
            return found.fetchall() if found.description else []

    def agent(
        self,
        tenant: str,
        agent: str = "sam",
        *,
        channel: str = "private",
        may_rule: bool = False,
        mode: str = "auto",
    ) -> "Agent":
        """An agent with a new token, which is made by SQL because a command takes a second."""
        token = f"mem_{secrets.token_urlsafe(32)}"
        self.sql(
            "INSERT INTO tokens VALUES (%s, %s, %s, %s, %s)",
            *(sha256(token), tenant, agent, channel, may_rule),
        )
        return Agent(self, token, tenant, mode)


class Agent:
    """An agent, in session `s1` unless a call says otherwise, with a real MCP client.

    It connects for each call; for many calls, use it with `async with`.
    """

    def __init__(
        self, daemon: DaemonProcess, token: str, tenant: str = "default", mode: str = "auto"
    ) -> None:
        self._daemon, self._mode = daemon, mode
        self.token, self.tenant = token, tenant
        self._client: Client | None = None

    @property
    def url(self) -> str:
        """Where the daemon listens, which changes when it starts again."""
        return self._daemon.url

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=self._mode) as self._client:
                yield self._client
        self._client = None

    async def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        if tool in ("record_event", "build_acb", "create_handoff_packet"):
            arguments.setdefault("session_id", "s1")
        if self._client:
            result = await self._client.call_tool(tool, arguments)
        else:
            async with self.connected() as client:
                result = await client.call_tool(tool, arguments)
        [content] = result.content
        assert content.type == "text" and not result.structured_content
        return not result.is_error, content.text

    async def ask(self, tool: str, **arguments: Any) -> str:
        """The answer of a call that succeeds."""
        well, text = await self.call(tool, **arguments)
        assert well, text
        return text

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The message of a call that fails."""
        well, text = await self.call(tool, **arguments)
        assert not well, text
        return text

    async def record(
        self, text: str, kind: str = "message", session_id: str = "s1", **fields: Any
    ) -> dict[str, Any]:
        """Record one event; returns the answer."""
        events = [{"text": text, "kind": kind, **fields}]
        return json.loads(await self.ask("record_event", session_id=session_id, events=events))

    async def say(self, texts: Iterable[str], session_id: str = "s1", **fields: Any) -> None:
        """Record messages in one call."""
        events = [{"text": text, **fields} for text in texts]
        await self.ask("record_event", session_id=session_id, events=events)

    async def bundle(self, question: str, session_id: str = "s1", **arguments: Any) -> str:
        return await self.ask("build_acb", query_text=question, session_id=session_id, **arguments)

    def rows(self, columns: str, table: str, order: str = "ts") -> list[tuple[Any, ...]]:
        """These columns of its tenant's rows, as the owner of the database."""
        query = f"SELECT {columns} FROM {table} WHERE tenant_id = %s ORDER BY {order}"
        return self._daemon.sql(query, self.tenant)


async def one_of_everything(agent: Agent) -> None:
    """Record a row in every table."""
    await agent.record("it is run by npm start", "decision")
    await agent.record("run it", "task_update", task={"task_id": "t"})
    await agent.record("line\n" * 2_000, "tool_result")
