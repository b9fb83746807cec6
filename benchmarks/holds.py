"""Does what a person said reach the model, and nothing else? `uv run benchmarks/holds.py`.

A week of scripted sessions in three projects, in which the model stores what a careful one would
with `memory_store`; then the first prompts of the next week, each in a session of its own. What the
model was sent is compared with what the prompt needs, what holds and what no longer does: alone,
and with 600 other memories besides. Then turns that a careless reader takes for statements, real
and invented quotes, and corrections, at which the older memory should be shown. Kernel, engine,
embedding model and hooks are real; a script plays the model. `holds/README.md` says what the sets
are. Sessions run in each loop of `scripted.LOOPS`; `-v` prints what was missed.
"""

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import tokens
from amplifier_core import AmplifierSession, ToolResult
from memory_hooks.block import NOTES
from memory_hooks.capture import NAME as CAPTURE
from memory_hooks.capture import REMINDER
from memory_hooks.recall import NAME as RECALL
from memory_semantic import MemoryStorage
from memory_semantic.identity import project_of
from memory_semantic.memory import Memory, utc_now

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from scripted import LOOPS, scripted_session

Row = dict[str, Any]
Log = Callable[[str], None]

HERE = Path(__file__).parent
AGENT = "holds"
PROJECTS = ("shop", "site", "pipeline")
# Beside the week's: from the other sets, in one of its projects, another or none, said by the user
# or noted by the agent, of the 300 days before.
OTHERS, OTHER_PROJECTS, OTHER_DAYS = 600, (*PROJECTS, "billing", "garden", ""), 300
ANOTHER_PROGRAM = {"AMPLIFIER_SESSION_ORIGIN": "program"}


def rows(name: str) -> list[Row]:
    """The lines of a set in `holds/`, or in another folder beside this file."""
    file = HERE / (name if "/" in name else f"holds/{name}")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


WEEK, PROMPTS, TURNS = rows("week.jsonl"), rows("prompts.jsonl"), rows("adversarial.jsonl")
MEMORIES = {row["name"]: row for row in WEEK if "name" in row}
GONE = {row["replaces"] for row in WEEK if "replaces" in row}


@dataclass
class Reader:
    """A tool that answers with the next of its `pages`."""

    name: str
    pages: list[str]
    description: str = "Reads a page, runs a command, or asks another agent"
    input_schema: Row = field(default_factory=lambda: {"type": "object"})

    async def execute(self, input: Row) -> ToolResult:
        """The next page."""
        return ToolResult(output=self.pages.pop(0))


@asynccontextmanager
async def session(
    root: str, loop: str, turns: list[Any], project: str = "shop", **options: Any
) -> AsyncIterator[AmplifierSession]:
    """A session in the folder of `project` with the memory tools and both hooks."""
    memory = {"agent_identity": AGENT, **_config(root)}
    hooks: dict[str, Row] = {RECALL: {}, CAPTURE: {}}
    async with scripted_session(turns, memory, hooks=hooks, loop=loop, **options) as opened:
        opened.coordinator.register_capability("session.working_dir", str(Path(root, project)))
        yield opened


def _config(root: str) -> Row:
    return {"storage_root": str(Path(root, "store")), "embedding_model": "local"}


def _storage(root: str) -> MemoryStorage:
    return MemoryStorage(AGENT, _config(root))


def _store(row: Row, ids: dict[str, str]) -> list[Row]:
    """The call with which a careful model stores what `row` says."""
    given = {name: row[name] for name in ("content", "quote", "pin", "everywhere") if name in row}
    given |= {"replaces": ids[row["replaces"]]} if "replaces" in row else {}
    return [{"tool": "memory_store", "arguments": given}]


def _requests(opened: AmplifierSession) -> list[Any]:
    return opened.coordinator.get("providers")["scripted"].requests


def _texts(request: Any) -> list[str]:
    """What stands in the messages of a request."""
    contents = (message.content for message in request.messages)
    return [
        each if isinstance(each, str) else "".join(getattr(b, "text", "") for b in each)
        for each in contents
    ]


async def _answers(opened: AmplifierSession) -> list[Row]:
    """What the tools answered, one after the other, as the model reads it."""
    messages = await opened.coordinator.get("context").get_messages()
    texts = [each["content"] for each in messages if each["role"] == "tool"]
    return [json.loads(text) if text.startswith("{") else {} for text in texts]


async def _execute(opened: AmplifierSession, prompt: str) -> int:
    """One prompt; returns how many reminders to store came with it."""
    before = len(_requests(opened))
    await opened.execute(prompt)
    earlier = _texts(_requests(opened)[before - 1]).count(REMINDER) if before else 0
    return _texts(_requests(opened)[-1]).count(REMINDER) - earlier


# A week, and the first prompts of the next


async def _week(root: str, loop: str) -> Row:
    """Live through the week. At which turns the reminder came, by kind: how many of how many."""
    storage, ids = _storage(root), dict[str, str]()
    asked, reminded = Counter[str](), Counter[str]()
    for (_, project), some in groupby(WEEK, key=lambda row: (row["day"], row["project"])):
        said = list(some)
        turns = [[_store(row, ids), "Noted."] if "name" in row else ["Done."] for row in said]
        async with session(root, loop, sum(turns, []), project) as opened:
            for row in said:
                kind = row.get("kind", "statement" if "quote" in row else "task")
                asked[kind] += 1
                reminded[kind] += await _execute(opened, row["prompt"])
        known = {memory.content: memory.id for memory in await storage.get_recent(None)}
        ids |= {row["name"]: known[row["content"]] for row in said if "name" in row}
    told = [row["prompt"] for row in WEEK if "quote" in row][:10]
    for kind, parent, origin in (("sub-agent", "parent", {}), ("program", None, ANOTHER_PROGRAM)):
        os.environ.update(origin)
        async with session(root, loop, [], parent_id=parent) as opened:
            asked[kind] = len(told)
            reminded[kind] = sum([await _execute(opened, prompt) for prompt in told])
        for name in origin:
            del os.environ[name]
    holding = await storage.get_recent(None, holding=True)
    assert len(holding) == len(MEMORIES) - len(GONE), "what was corrected still holds"
    return {kind: [reminded[kind], asked[kind]] for kind in asked}


async def _first_prompts(root: str, loop: str, log: Log) -> Row:
    """What the model was sent with the first prompts, and with one after each."""
    counts, first, later = Counter[str](), list[int](), list[int]()
    for number, row in enumerate(PROMPTS):
        project, after = row["project"], PROMPTS[number - 1]["prompt"]
        search = [{"tool": "memory_search", "arguments": {"query": row["prompt"]}}]
        async with session(root, loop, ["Done.", "Done.", search], project) as opened:
            for prompt in (row["prompt"], after, "Please look that up."):
                await opened.execute(prompt)
            requests, [found] = _requests(opened), await _answers(opened)
        own = {row["prompt"], after, "Done.", REMINDER}
        sent = [text for text in _texts(requests[0]) if text not in own]
        more = [text for text in _texts(requests[1]) if text not in {*own, *sent}]
        first.append(sum(map(tokens.count, sent)))
        later.append(sum(map(tokens.count, more)))
        shown = {name for name, each in MEMORIES.items() if each["content"] in "\n".join(sent)}
        heeded = "\n".join(sent).split(NOTES)[0]  # what stands under the head for rules
        for name, each in MEMORIES.items():
            if each.get("pin") and name not in GONE:
                here = bool(each.get("everywhere")) or each["project"] == project
                counts["rules"] += here
                counts["rules shown"] += here and each["content"] in heeded
                counts["rules of others"] += not here and name in shown
        counts["needed"] += len(row["needs"])
        counts["shown"] += len(shown.intersection(row["needs"]))
        counts["stale"] += len(shown & GONE)
        if missed := set(row["needs"]) - shown:
            log(f"not shown at {row['id']}: {', '.join(sorted(missed))}")
        if row["stale"]:  # what is asked for was corrected
            best = next((each["content"] for each in found["memories"]), "")
            counts["searches"] += 1
            counts["stale first"] += any(best == MEMORIES[n]["content"] for n in row["stale"])
    ends = {"median": statistics.median(first), "most": max(first)}
    return {**counts, "tokens": ends, "later tokens": [statistics.mean(later), max(later)]}


async def _add_others(root: str) -> None:
    """Put other memories beside those of the week."""
    sets = ("recall/memories.jsonl", "recall/everyday.jsonl", "corrections/chains.jsonl")
    lines = [row for name in sets for row in rows(name)]
    texts = [row["content"] for row in lines if "content" in row]
    texts += [row["content"] for row in rows("notes.jsonl")]
    texts += [text for row in lines for text in row.get("texts", ())]
    chosen = random.Random(0)
    memories = []
    for text in chosen.sample(list(dict.fromkeys(texts)), OTHERS):
        project = chosen.choice(OTHER_PROJECTS)
        about = await _project(root, project) if project else {}
        aged = utc_now() - timedelta(days=chosen.uniform(1, OTHER_DAYS))
        by_user = chosen.random() < 0.5
        memory = Memory(agent_id=AGENT, content=text, timestamp=aged, metadata=about)
        memory.said_by, memory.quote = ("user", text[:300]) if by_user else ("agent", None)
        memories.append(memory)
    await _storage(root).restore(memories)


async def _project(root: str, name: str) -> dict[str, str]:
    """What a memory that is stored in this project says of it."""
    async with session(root, "loop-scripted", [], name) as opened:
        return project_of(opened.coordinator)


# Turns in which nothing was said to last, and quotes


def _turn(row: Row) -> tuple[list[Any], list[str]]:
    """What the model does in the turn of `row`, and what it reads then."""
    pages = [*row.get("tool_results", ()), *(row[each] for each in ("tool", "agent") if each in row)]
    store = [_store(row, {})] if "content" in row else []
    return [[{"tool": "read", "arguments": {}}] for _ in pages] + store, pages


async def _stored(root: str, loop: str, row: Row, parent: str | None = None) -> list[Row]:
    """What the tools answer in the turn of `row`."""
    turns, pages = _turn(row)
    async with session(root, loop, turns, parent_id=parent) as opened:
        await opened.coordinator.mount("tools", Reader("read", pages), name="read")
        await opened.execute(row["prompt"])
        return await _answers(opened)


async def _quotes(root: str, loop: str, log: Log) -> Row:
    """Memories from turns at which the model stores nothing; real quotes, invented ones, and real
    ones in a sub-agent: how many counted as the user's, of how many.
    """
    for row in TURNS:
        if "content" not in row:
            await _stored(root, loop, row)
    found: Row = {"false memories": await _storage(root).count()}
    said = [row for file in "def" for row in rows(f"capture/strangers_{file}.jsonl")]
    real = [
        {**row, "prompt": row["human"], "content": each["statement"], "quote": each["evidence"]}
        for row in said
        for each in row["worth"]
        if each["source"] == "human"
    ]
    invented = [row for row in TURNS if "content" in row]
    for name, some, parent in (
        ("real quotes", real, None),
        ("invented quotes", invented, None),
        ("a sub-agent's quotes", real, "parent"),
    ):
        users = 0
        for row in some:
            is_users = (await _stored(root, loop, row, parent))[-1]["said_by"] == "user"
            users += is_users
            if is_users != (name == "real quotes"):
                log(f"{name}: {row.get('kind', row.get('trap'))}: {row['quote']!r}")
        found[name] = [users, len(some)]
    return found


def measure(log: Log = print) -> Row:
    """All of it in each loop; ready for JSON."""
    return {loop: asyncio.run(_measure(loop, log)) for loop in LOOPS}


async def _measure(loop: str, log: Log) -> Row:
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as other:
        reminders = await _week(root, loop)
        week = await _first_prompts(root, loop, log)
        await _add_others(root)
        log(f"with {OTHERS} others")
        large = await _first_prompts(root, loop, log)
        async with session(root, loop, []) as opened:
            await opened.execute("Hello")
            specs = _requests(opened)[0].tools
        texts = [tokens.AWARENESS.read_text("utf-8")] + [spec.model_dump_json() for spec in specs]
        every = sum(map(tokens.count, texts))
        quotes = await _quotes(other, loop, log)
        return {
            "reminders": reminders,
            "week": week,
            "with others": large,
            "every request": every,
            **quotes,
        }


def main() -> None:
    """Print the figures of each loop."""
    log: Log = print if "-v" in sys.argv else (lambda words: None)
    for loop, found in measure(log).items():
        print(loop)
        for name, figures in found.items():
            print(f"  {name}: {json.dumps(figures)}")


if __name__ == "__main__":
    main()
