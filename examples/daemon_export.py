# /// script
# requires-python = ">=3.11"
# dependencies = ["httpx2>=2"]
# ///
"""Export and import over the tools of a running agent-memory-daemon.

    uv run examples/daemon_export.py decisions > decisions.md
    uv run examples/daemon_export.py record monday < events.jsonl

The first prints the newest active decisions as Markdown: at most 50, and 20,000 tokens. The second
records events, each a line of JSON as `record_event` takes it, in the session `monday`. An event
without an `event_id` gets one that is made from the session, its line and where it stands: run it
again on a file that has grown, and only what is new is recorded. MEMORY_DAEMON_TOKEN is your token;
MEMORY_DAEMON_URL the address, if it is not http://127.0.0.1:8765/mcp.
"""

import hashlib
import json
import os
import sys
from collections import Counter
from typing import Any

import httpx2

URL = os.environ.get("MEMORY_DAEMON_URL", "http://127.0.0.1:8765/mcp")
BATCH = 3  # events of a call, which has at most 16 MiB


def call(tool: str, **arguments: Any) -> str:
    token = os.environ.get("MEMORY_DAEMON_TOKEN", "")
    head = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    params = {"name": tool, "arguments": arguments}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    try:
        response = httpx2.post(URL, json=asked, headers=head, timeout=60)
    except httpx2.TransportError as error:
        sys.exit(f"The daemon at {URL} did not answer: {error}. You can run this again.")
    if response.status_code != 200 or "result" not in (answer := response.json()):
        sys.exit(f"The daemon answered with HTTP status {response.status_code}: {response.text}")
    text = answer["result"]["content"][0]["text"]
    return sys.exit(text) if answer["result"]["isError"] else text


def event(session: str, number: int, line: str) -> dict[str, Any]:
    named = f"{session} {number} {line.strip()}"
    return {"event_id": hashlib.sha256(named.encode()).hexdigest(), **json.loads(line)}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["decisions"]:
            told = call("query_decisions", limit=50)
            print(told.partition("\n")[2].removesuffix("end of bundle\n").strip())
        case ["record", session]:
            lines, done = [line for line in sys.stdin if line.strip()], Counter[str]()
            events = [event(session, number, line) for number, line in enumerate(lines)]
            for first in range(0, len(events), BATCH):
                told = call("record_event", session_id=session, events=events[first:][:BATCH])
                done.update(json.loads(each)["status"] for each in told.splitlines())
            print(", ".join(f"{status} {count}" for status, count in done.items()))
        case _:
            sys.exit(__doc__)
