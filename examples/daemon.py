# /// script
# requires-python = ">=3.11"
# dependencies = ["agent-memory-daemon[embedded]"]
#
# [tool.uv.sources.agent-memory-daemon]
# path = "../packages/memory-daemon"
# editable = true
# ///
"""A team's memory: one agent explains a repository, and another gets what matters of it.

Run it with `uv run examples/daemon.py`. It starts a daemon with its own PostgreSQL in a temporary
folder, and talks to it as any MCP client does.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

README = "# Seeds\n\nA shop for gardeners. Install Node 20, then `npm install` and `npm start`.\n"
PACKAGE = '{"name": "seeds", "scripts": {"start": "node server.js"}}'
ENTRY = '// The entry point: run it, and the shop listens.\nrequire("./shop").listen(3000);\n'
LOG = "".join(f"[{n:05}] compiled module {n * 7919 % 10007}\n" for n in range(9_000))
EVENTS: list[dict[str, Any]] = [
    {"kind": "message", "actor_type": "human", "text": "Explain this repo and how to run it"},
    {"kind": "tool_call", "text": "read README.md, package.json, server.js, build.log"},
    {"kind": "tool_result", "actor_type": "tool", "text": README, "refs": ["README.md"]},
    {"kind": "tool_result", "actor_type": "tool", "text": PACKAGE, "refs": ["package.json"]},
    {"kind": "tool_result", "actor_type": "tool", "text": ENTRY, "refs": ["server.js"]},
    {"kind": "tool_result", "actor_type": "tool", "text": LOG, "refs": ["build.log"]},
    {
        "kind": "decision",
        "text": "Run it by npm start",
        "decision": {"rationale": ["package.json has a start script"]},
    },
    {
        "kind": "task_update",
        "text": "README and entry point are read",
        "task": {"task_id": "explain", "status": "doing", "title": "Explain the repository"},
    },
    {"kind": "message", "text": "A shop for seeds. `npm install`, then `npm start`."},
]
QUESTION = "How do I run it? Which file is the entry point?"


def recorded(events: list[dict[str, Any]], told: str) -> str:
    """A line for each event: its id, kind and length, and whether it is shown as an excerpt."""
    lines = []
    for event, line in zip(events, map(json.loads, told.splitlines()), strict=True):
        whole = ", kept whole, shown as an excerpt" if line["artifact_id"] else ""
        lines.append(f"{line['event_id']}  {event['kind']:<11}  {len(event['text']):>7,}{whole}")
    return "\n".join(lines)


async def call(url: str, token: str, tool: str, **arguments: Any) -> str:
    """The answer of a tool, as any MCP client gets it."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool(tool, arguments)
    [content] = result.content
    if content.type != "text" or result.is_error:
        sys.exit(f"FAILED: {content}")
    return content.text


async def play(url: str, sam: str, eve: str) -> None:
    """Sam records, and eve asks, each with a token of their own."""
    print("\nAgent sam records a session in one call:\n")
    told = await call(url, sam, "record_event", session_id="monday", events=EVENTS)
    print(indented(recorded(EVENTS, told)))
    print(f"\nThe next day agent eve asks: {QUESTION}\n")
    asked = {"session_id": "tuesday", "query_text": QUESTION, "max_tokens": 2_000}
    bundle = await call(url, eve, "build_acb", **asked)
    print(indented(bundle))
    if any(part not in bundle for part in (README, PACKAGE, ENTRY, "explain")):
        sys.exit("FAILED: the bundle lacks something.")
    if LOG.splitlines()[5_000] in bundle:
        sys.exit("FAILED: the bundle holds the middle of the log.")


def indented(text: str) -> str:
    """The text of the daemon, apart from ours."""
    return "\n".join(f"  | {line}" for line in text.splitlines())


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)  # as root, PostgreSQL runs as another user
        environment = {
            **{name: value for name, value in os.environ.items() if "MEMORY_DAEMON" not in name},
            "MEMORY_DAEMON_HOME": f"{folder}/home",
            "MEMORY_DAEMON_PORT": "0",
        }
        command = [sys.executable, "-m", "memory_daemon"]

        def token(agent: str) -> str:
            make = [*command, "token", "make", "--agent", agent]
            return subprocess.check_output(make, env=environment, text=True).strip()

        print("Starting a daemon with a PostgreSQL of its own …")
        serve = [*command, "serve"]
        with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True) as daemon:
            try:
                for line in daemon.stdout or ():
                    if line.startswith("Serving on "):
                        url = line.split()[2].rstrip(".")
                        asyncio.run(play(url, token("sam"), token("eve")))
                        break
                else:
                    sys.exit("FAILED: the daemon did not start.")
            finally:
                daemon.terminate()
    print("Recorded once, given back in a bundle of bounded size, to another agent of the team.")


if __name__ == "__main__":
    main()
