# /// script
# requires-python = ">=3.11"
# dependencies = ["amplifier-core>=2.0.2,<3", "amplifier-module-tool-memory-semantic"]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
"""An agent remembers: what one session stores, the next finds by its meaning.

Run it with `uv run examples/remember.py`. It uses its own store in a temporary folder.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from typing import Any

from amplifier_core import HookResult
from scripted import scripted_session

DECISIONS = [
    "We chose PostgreSQL for the users table.",
    "Login tokens expire after fifteen minutes.",
    "Sam prefers tabs over spaces in Go files.",
]
QUESTION = "Which database did our team pick?"
ANSWER = DECISIONS[0]


async def run_session(agent: str, root: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Open a session as `agent` and let its model make `calls`, one per turn; their outputs."""
    outputs = []

    async def show(event: str, data: dict[str, Any]) -> HookResult:
        arguments = ", ".join(f"{key}={value!r}" for key, value in data["tool_input"].items())
        print(f"  {data['tool_name']}({arguments})")
        result = data["result"]
        if not result["success"]:
            sys.exit(f"    failed: {result['error']['message']}")
        outputs.append(result["output"])
        for line in told(result["output"]):
            print(f"    -> {line}")
        return HookResult(action="continue")

    memory = {
        "agent_identity": agent,
        "storage_root": root,
        "embedding_model": "local",
        "qdrant_url": "local",
    }
    async with scripted_session([[call] for call in calls], memory) as session:
        session.coordinator.hooks.register("tool:post", show, name="show")
        await session.execute("Go on.")
    return outputs


def told(output: dict[str, Any]) -> list[str]:
    """A tool's output, shortened to what matters here."""
    if "memory_id" in output:
        return [f"{output['status']} as {output['memory_id']}"]
    found = [f"{memory['score']:.2f}  {memory['content']}" for memory in output["memories"]]
    return found or ["nothing"]


def store_decisions(root: str) -> None:
    print("\nA session as sam stores what was decided:")
    calls = [{"tool": "memory_store", "arguments": {"content": text}} for text in DECISIONS]
    asyncio.run(run_session("sam", root, calls))


def ask(agent: str, root: str) -> None:
    calls = [{"tool": "memory_search", "arguments": {"query": QUESTION}}]
    [output] = asyncio.run(run_session(agent, root, calls))
    contents = [memory["content"] for memory in output["memories"]]
    if agent == "sam" and contents[:1] != [ANSWER]:
        sys.exit(f"FAILED: the first result should have been: {ANSWER}")
    if agent != "sam" and contents:
        sys.exit(f"FAILED: {agent} was shown the memories of sam.")


def in_a_new_process(agent: str, root: str) -> None:
    sys.stdout.flush()  # so that the lines of both processes keep their order
    subprocess.run([sys.executable, __file__, agent, root], check=True)


def main() -> None:
    common = words(QUESTION) & words(ANSWER)
    if common:
        sys.exit(f"FAILED: the question gives it away with {common}.")
    with tempfile.TemporaryDirectory() as root:
        store_decisions(root)
        print("\nA new process, a new session as sam, a question that shares no word with it:")
        in_a_new_process("sam", root)
        print("\nThe same question from a session as alice, whose memory is her own:")
        in_a_new_process("alice", root)
    print("\nRemembered across processes, found by meaning, private to its agent.")


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


if __name__ == "__main__":
    try:
        ask(*sys.argv[1:3]) if sys.argv[1:] else main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
