"""Whose words are whose? `uv run benchmarks/quotes.py`, a minute.

Sixty turns that a careless reader takes for statements, such as sarcasm, hypotheticals and pages
that give orders: the model stores nothing in them, and our own code should not, either. Then what
people really said in conversations that strangers wrote for another purpose, stored in the words
of a model with the human's as `quote`: each should be the user's; from a sub-agent, none. Then
forty invented quotes, of a page, a paste or another agent, or unrelated: none should. All in real
sessions with the hooks. `-v` prints what came out otherwise.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amplifier_core import ToolResult
from holds import Row, answers, call, rows, session, storage

TURNS = rows("adversarial.jsonl")
OF_A_CHILD = 20


@dataclass
class Reader:
    """A tool that answers with the next of its `pages`."""

    pages: list[str]
    name: str = "read"
    description: str = "Reads a page, runs a command, or asks another agent"
    input_schema: Row = field(default_factory=lambda: {"type": "object"})

    async def execute(self, input: Row) -> ToolResult:
        """The next page."""
        return ToolResult(output=self.pages.pop(0))


def measure(log: Callable[[str], None] = print) -> Row:
    """The memories that our code stored by itself, and how many quotes of how many counted as the
    user's; ready for JSON.
    """
    return asyncio.run(_measure(log))


async def _measure(log: Callable[[str], None]) -> Row:
    said = [row for file in "def" for row in rows(f"said_by/strangers_{file}.jsonl")]
    real = [
        {**row, "prompt": row["human"], "content": each["statement"], "quote": each["evidence"]}
        for row in said
        for each in row["worth"]
        if each["source"] == "human"
    ]
    with tempfile.TemporaryDirectory() as root:
        quiet = [row for row in TURNS if "content" not in row]
        for row in quiet:
            await _turn(root, row)
        false = [await storage(root).count(), len(quiet)]
        users: Row = {}
        invented = [row for row in TURNS if "content" in row]
        children = real[:OF_A_CHILD]
        for name, some, parent, right in (
            ("real", real, None, "user"),
            ("invented", invented, None, "not the user"),
            ("a sub-agent's", children, "parent", "not the user"),
        ):
            users[name] = await _users(root, some, parent)
            for row, is_users in zip(some, users[name], strict=True):
                if is_users != (right == "user"):
                    log(f"{name}, {row.get('kind', row.get('trap'))}: {row['quote']!r}")
    counts = {name: [sum(found), len(found)] for name, found in users.items()}
    return {"false memories": false, **counts}


async def _users(root: str, some: Sequence[Row], parent: str | None) -> list[bool]:
    """Which of these are the user's, as `memory_store` answers."""
    return [(await _turn(root, row, parent))[-1].get("said_by") == "user" for row in some]


async def _turn(root: str, row: Row, parent: str | None = None) -> list[Row]:
    """What the tools answer in the turn of `row`: a page or another agent first, if there is one,
    then what is stored.
    """
    pages = [*row.get("tool_results", ()), *(row[by] for by in ("tool", "agent") if by in row)]
    turns: list[Any] = [[{"tool": "read", "arguments": {}}] for _ in pages]
    turns += [call(row)] if "content" in row else []
    async with session(root, "loop-scripted", turns, parent_id=parent) as opened:
        await opened.coordinator.mount("tools", Reader(pages), name="read")
        await opened.execute(row["prompt"])
        return await answers(opened)


def main() -> None:
    """Print the figures."""
    for name, (number, of) in measure(print if "-v" in sys.argv else lambda words: None).items():
        print(f"{name}: {number} of {of}")


if __name__ == "__main__":
    main()
