"""Does what a person said reach the model while it holds? `uv run benchmarks/holds.py`.

A week of scripted sessions in three projects, in which the model stores with `memory_store` what a
careful one would; then the first prompts of the next week, each in a session of its own, in every
loop of `scripted.LOOPS`. What the model was sent is compared with what the prompt needs, what holds
and what no longer does: alone, and with 600 other memories besides. Kernel, engine, embedding model
and hooks are real; a script plays the model. `holds/README.md` says what the sets are; `-v` prints
what was missed. Two minutes a loop.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
from ast import literal_eval
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import chain, groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tokens
from amplifier_core import AmplifierSession
from memory_hooks.block import NOTES
from memory_hooks.capture import NAME as CAPTURE
from memory_hooks.capture import REMINDER
from memory_hooks.recall import NAME as RECALL
from memory_semantic import MemoryStorage
from memory_semantic.identity import project_of
from memory_semantic.memory import Memory
from memory_semantic.remembered import utc_now

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from scripted import LOOPS, scripted_session

Row = dict[str, Any]
Log = Callable[[str], None]

AGENT = "holds"
PROJECTS = ("shop", "site", "pipeline")
# Beside the week's: from the other sets, in one of its projects, another or none, half of them the
# user's; of the 300 days before, and a tenth later than the week's.
OTHERS, OTHER_PROJECTS, OTHER_DAYS = 600, (*PROJECTS, "billing", "garden", ""), 300


def rows(name: str) -> list[Row]:
    """The lines of a set in `holds/`, or in another folder beside this file."""
    file = Path(__file__).parent / (name if "/" in name else f"holds/{name}")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


WEEK, PROMPTS = rows("week.jsonl"), rows("prompts.jsonl")
MEMORIES = {row["name"]: row for row in WEEK if "name" in row}
GONE = {row["replaces"] for row in WEEK if "replaces" in row}
RULES = {name: row for name, row in MEMORIES.items() if row.get("pin") and name not in GONE}


@asynccontextmanager
async def session(
    root: str, loop: str, turns: list[Any], project: str = "shop", **options: Any
) -> AsyncIterator[AmplifierSession]:
    """A session in the folder of `project` with the memory tools and both hooks."""
    memory = {"agent_identity": AGENT, "storage_root": root, "embedding_model": "local"}
    hooks: dict[str, Row] = {RECALL: {}, CAPTURE: {}}
    async with scripted_session(turns, memory, hooks=hooks, loop=loop, **options) as opened:
        opened.coordinator.register_capability("session.working_dir", str(Path(root, project)))
        yield opened


def storage(root: str) -> MemoryStorage:
    """The store of the sessions below this folder."""
    return MemoryStorage(AGENT, {"storage_root": root, "embedding_model": "local"})


def call(row: Row, ids: dict[str, str] | None = None) -> list[Row]:
    """The call with which a careful model stores what `row` says."""
    given = {name: row[name] for name in ("content", "quote", "pin", "everywhere") if name in row}
    given |= {"replaces": ids[row["replaces"]]} if ids and "replaces" in row else {}
    return [{"tool": "memory_store", "arguments": given}]


def requests_of(opened: AmplifierSession) -> list[Any]:
    """What the model was asked."""
    return opened.coordinator.get("providers")["scripted"].requests


def texts_of(request: Any) -> list[str]:
    """What stands in the messages of a request."""
    contents = (message.content for message in request.messages)
    return [
        each if isinstance(each, str) else "".join(getattr(block, "text", "") for block in each)
        for each in contents
    ]


async def answers(opened: AmplifierSession) -> list[Row]:
    """What the tools answered, one after the other, as the model reads it."""
    messages = await opened.coordinator.get("context").get_messages()
    texts = [each["content"] for each in messages if each["role"] == "tool"]
    return [_read(text) if text.startswith("{") else {} for text in texts]


def _read(text: str) -> Row:
    try:
        answer = json.loads(text)
    except ValueError:  # loop-basic shows the model Python's form
        answer = literal_eval(text)
    return answer.get("output", answer)  # loop-streaming also says that it succeeded


async def _execute(opened: AmplifierSession, prompt: str) -> bool:
    """One prompt; returns whether a reminder to store came before it."""
    await opened.execute(prompt)
    texts = texts_of(requests_of(opened)[-1])
    return REMINDER in texts[: texts.index(prompt)][-1:]


async def _week(root: str, loop: str) -> Row:
    """Of how many statements, corrections and turns of it how many were taken as such."""
    store, ids = storage(root), dict[str, str]()
    asked, reminded = Counter[str](), Counter[str]()
    for (_, project), some in groupby(WEEK, key=lambda row: (row["day"], row["project"])):
        said = list(some)
        turns = [[call(row, ids), "Noted."] if "name" in row else ["Done."] for row in said]
        async with session(root, loop, [*chain(*turns)], project) as opened:
            for row in said:
                kind = "nothing said" if "kind" in row else "task"
                kind = "statement" if "quote" in row else kind
                asked[kind] += 1
                reminded[kind] += await _execute(opened, row["prompt"])
        known = {memory.content: memory.id for memory in await store.get_recent(None)}
        ids |= {row["name"]: known[row["content"]] for row in said if "name" in row}
    told = [row["prompt"] for row in WEEK if "quote" in row][:10]
    for parent, origin in (("parent", "human"), (None, "program")):
        with patch.dict(os.environ, AMPLIFIER_SESSION_ORIGIN=origin):
            async with session(root, loop, [], parent_id=parent) as opened:
                asked["no human"] += len(told)
                reminded["no human"] += sum([await _execute(opened, prompt) for prompt in told])
    known = {memory.content: memory for memory in await store.get_recent(None)}
    quoted = [known[row["content"]] for row in WEEK if "quote" in row]
    users = sum(memory.said_by == "user" for memory in quoted)
    gone = sum(memory.replaced_by is not None for memory in known.values())
    counts = {kind: [reminded[kind], asked[kind]] for kind in asked}
    return {"the user's": [users, len(quoted)], "replaced": [gone, len(GONE)], **counts}


async def _first_prompts(root: str, loop: str, log: Log) -> Row:
    """What the model was sent with the first prompts, and with one after each: of how many pieces
    how many, and the most tokens.
    """
    first, later, needed, stale_first = [0], [0], [0, 0], [0, 0]
    missed, foreign, stale = set[str](), set[str](), set[str]()  # rules, rules, what was corrected
    for number, row in enumerate(PROMPTS):
        project, after = row["project"], PROMPTS[number - 1]["prompt"]
        search = [{"tool": "memory_search", "arguments": {"query": row["prompt"]}}]
        async with session(root, loop, ["Done.", "Done.", search], project) as opened:
            for prompt in (row["prompt"], after, "Please look that up."):
                await opened.execute(prompt)
            requests, [found] = requests_of(opened), await answers(opened)
        own = {row["prompt"], after, "Done.", REMINDER}
        sent = [text for text in texts_of(requests[0]) if text not in own]
        more = [text for text in texts_of(requests[1]) if text not in {*own, *sent}]
        first.append(sum(map(tokens.count, sent)))
        later.append(sum(map(tokens.count, more)))
        text = "\n".join(sent)
        shown = {name for name, each in MEMORIES.items() if each["content"] in text}
        heeded = text.split(NOTES)[0]  # what stands under the head for rules
        here = {name for name in RULES if RULES[name].get("everywhere")}
        here |= {name for name in RULES if RULES[name]["project"] == project}
        missed |= {name for name in here if RULES[name]["content"] not in heeded}
        foreign |= shown & (RULES.keys() - here)
        stale |= shown & GONE
        needed[0] += len(shown.intersection(row["needs"]))
        needed[1] += len(row["needs"])
        if lacking := set(row["needs"]) - shown:
            log(f"not shown at {row['id']}: {', '.join(sorted(lacking))}")
        if row["stale"]:  # what is asked for was corrected
            best = next((each["content"] for each in found["memories"]), "")
            stale_first[0] += any(best == MEMORIES[name]["content"] for name in row["stale"])
            stale_first[1] += 1
    for what, names in (("rules", missed), ("rules of others", foreign), ("corrected", stale)):
        log(f"{what}, wrong: {', '.join(sorted(names)) or 'none'}")
    return {
        "needed": needed,
        "rules": [len(RULES) - len(missed), len(RULES)],
        "rules of others": [len(foreign), len(RULES)],
        "corrected": [len(stale), len(GONE)],
        "corrected first": stale_first,
        "tokens": max(first),
        "later tokens": max(later),
    }


async def _add_others(root: str) -> None:
    """Put other memories beside those of the week."""
    sets = ("recall/memories", "recall/everyday", "holds/notes", "corrections/chains")
    lines = [row for name in sets for row in rows(f"{name}.jsonl")]
    texts = [row["content"] for row in lines if "content" in row]
    texts += [text for row in lines for text in row.get("texts", ())]
    about = {name: await project(root, name) for name in OTHER_PROJECTS if name} | {"": {}}
    chosen, memories = random.Random(0), list[Memory]()
    for text in chosen.sample(list(dict.fromkeys(texts)), OTHERS):
        where = about[chosen.choice(OTHER_PROJECTS)]
        aged = utc_now() - timedelta(days=max(0.0, chosen.uniform(-OTHER_DAYS / 9, OTHER_DAYS)))
        memory = Memory(agent_id=AGENT, content=text, timestamp=aged, metadata=where)
        memory.said_by, memory.quote = (
            ("user", text[:300]) if chosen.random() < 0.5 else ("agent", "")
        )
        memories.append(memory)
    await storage(root).restore(memories)


async def project(root: str, name: str) -> dict[str, str]:
    """What a memory that is stored in this project says of it."""
    async with session(root, "loop-scripted", [], name) as opened:
        return project_of(opened.coordinator)


def measure(log: Log = print) -> Row:
    """All of it in each loop; ready for JSON."""
    return {loop: asyncio.run(_measure(loop, log)) for loop in LOOPS}


async def _measure(loop: str, log: Log) -> Row:
    with tempfile.TemporaryDirectory() as root:
        found = {"stored": await _week(root, loop)}
        found["week"] = await _first_prompts(root, loop, log)
        await _add_others(root)
        found["with others"] = await _first_prompts(root, loop, log)
        async with session(root, loop, []) as opened:
            await opened.execute("Hello")
            specs = requests_of(opened)[0].tools
    texts = [tokens.AWARENESS.read_text("utf-8"), *(spec.model_dump_json() for spec in specs)]
    return found | {"every request": sum(map(tokens.count, texts))}


def main() -> None:
    """Print the figures of each loop."""
    for loop, found in measure(print if "-v" in sys.argv else lambda words: None).items():
        print(loop)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
