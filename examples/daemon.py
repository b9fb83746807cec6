# /// script
# requires-python = ">=3.11"
# dependencies = ["agent-memory-daemon[embedded]"]
#
# [tool.uv.sources.agent-memory-daemon]
# path = "../packages/memory-daemon"
# editable = true
# ///
"""A team's memory: one agent explains a repository, and another is told what matters of that.

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


async def play(url: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):

        async def call(tool: str, **arguments: Any) -> str:
            result = await client.call_tool(tool, arguments)
            [content] = result.content
            if content.type != "text" or result.is_error:
                sys.exit(f"FAILED: {content}")
            return content.text

        events = [{**event, "channel": "team"} for event in EVENTS]
        print("\nAgent sam records a session in one call:")
        told = await call("record_event", agent_id="sam", session_id="monday", events=events)
        for event, line in zip(EVENTS, told.splitlines(), strict=True):
            kept = json.loads(line)
            whole = ", kept whole, shown as an excerpt" if kept["artifact_id"] else ""
            print(f"  {kept['event_id']}  {event['kind']:<11}  {len(event['text']):>7,}{whole}")
        print(f"\nThe next day agent eve asks: {QUESTION}\n")
        bundle = await call(
            "build_acb", agent_id="eve", session_id="tuesday", query_text=QUESTION, max_tokens=2_000
        )
        print("".join(f"  | {line}\n" for line in bundle.splitlines()))
    if any(part not in bundle for part in (README, PACKAGE, ENTRY, "explain")):
        sys.exit("FAILED: the bundle lacks something.")
    if LOG.splitlines()[5_000] in bundle:
        sys.exit("FAILED: the bundle holds the middle of the log.")


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)  # as root, PostgreSQL runs as another user
        environment = {
            **{name: value for name, value in os.environ.items() if "MEMORY_DAEMON" not in name},
            "MEMORY_DAEMON_HOME": f"{folder}/home",
            "MEMORY_DAEMON_PORT": "0",
        }
        command = [sys.executable, "-m", "memory_daemon", "serve"]
        print("Starting a daemon with a PostgreSQL of its own …")
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True
        ) as daemon:
            token = url = ""
            for line in daemon.stdout or ():
                token = line.split("TOKEN=")[1].strip() if "TOKEN=" in line else token
                if line.startswith("Serving on "):
                    url = line.split()[2].rstrip(".")
                    break
            try:
                asyncio.run(play(url, token))
            finally:
                daemon.terminate()
    print("Recorded once, given back in a bundle of bounded size, to every agent of the team.")


if __name__ == "__main__":
    main()
