"""Whose words are whose, and what is shown where something is stored; in real sessions.

Thirty turns that a careless reader takes for statements, such as sarcasm, hypotheticals and pages
that give orders: the model stores nothing in them, and our own code should not, either. Then what
people really said in conversations that strangers wrote for another purpose, stored in the words
of a model with the human's as `quote`: each should be the user's; from a sub-agent, none. Then
thirty invented quotes, of a page, a paste or another agent, or unrelated: none should.
"""

import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import said_by
import tokens
from amplifier_core import ToolResult
from page import Log, Row
from recall_sets import LANGUAGES, rows
from sessions import PROJECTS, answers, call, projects, session, storage

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


async def whose(log: Log) -> Row:
    """The memories that our code stored by itself, and how many quotes of how many counted as the
    user's; what is otherwise is logged.
    """
    adversarial = rows("holds/adversarial")
    real = [
        {**turn, "prompt": turn["human"], "content": each["statement"], "quote": each["evidence"]}
        for turn in said_by.TURNS
        for each in turn["worth"]
        if each["source"] == "human"
    ]
    invented = [row for row in adversarial if "content" in row]
    quiet = [row for row in adversarial if "content" not in row]
    with tempfile.TemporaryDirectory() as root:
        for row in quiet:
            await _turn(root, row)
        found = {"false memories": [await storage(root).count(), len(quiet)]}
        for name, some, parent in (
            ("real", real, None),
            ("invented", invented, None),
            ("a sub-agent's", real[:OF_A_CHILD], "parent"),
        ):
            users = [(await _turn(root, row, parent))[-1].get("said_by") == "user" for row in some]
            for row, is_users in zip(some, users, strict=True):
                if is_users != (name == "real"):
                    log(f"{name}, {row.get('kind', row.get('trap'))}: {row['quote']!r}")
            found[name] = [sum(users), len(users)]
    return found


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


async def alike() -> Row:
    """Of 60 corrections, at how many the answer shows the memory that each corrects, and as the
    first, by language and of those that do not say that anything changed; at how many notes, which
    contradict nothing, anything is shown; and what it costs, beside all older memories and notes.
    """
    chains, notes = rows("holds/chains"), rows("holds/notes")
    shown, cost = dict[str, list[str]](), list[int]()
    with tempfile.TemporaryDirectory() as root:
        store, about = storage(root), await projects(root, *PROJECTS)
        everything = [(row.get("old") or row["content"], row) for row in (*chains, *notes)]
        await store.upsert(
            [(text, None, about[row.get("project", "")]) for text, row in everything]
        )
        ids = {memory.id: memory.content for memory in await store.get_recent(None)}
        for row in (*chains, *notes):
            given = {} if "project" in row else {"everywhere": True}
            turns = [call({"content": row.get("new") or row["content"]}, **given)]
            async with session(root, "loop-scripted", turns, row.get("project", "shop")) as opened:
                await opened.execute("Go on.")
                [answer] = await answers(opened)
            told = answer.get("alike", [])
            shown[row["id"]] = [
                next(text for id, text in ids.items() if id.startswith(line.split()[0]))
                for line in told
            ]
            added = {name: answer[name] for name in ("alike", "note") if told}
            cost.append(tokens.count(json.dumps(added, ensure_ascii=False)) if told else 0)
            if "new" in row:
                await store.delete([answer["memory_id"]])

    def counts(some: Sequence[Row]) -> list[int]:
        pairs = [(row["old"], shown[row["id"]]) for row in some]
        return [len(some), sum(t in f for t, f in pairs), sum(t in f[:1] for t, f in pairs)]

    kinds = {"all": chains, "not said to be one": [r for r in chains if not r["says_changed"]]}
    kinds |= {LANGUAGES[code]: [r for r in chains if r["language"] == code] for code in LANGUAGES}
    at_notes = [sum(bool(shown[row["id"]]) for row in notes), len(notes)]
    figures = {"notes": at_notes, "tokens a store": round(statistics.mean(cost))}
    return {"corrections": {kind: counts(some) for kind, some in kinds.items()}, **figures}
