"""Does what a person said reach the model while it holds?

A week of scripted sessions in three projects, in which the model stores with `memory_store` what a
careful one would; then the first prompts of the next week, each in a session of its own, in every
loop of `scripted.LOOPS`. What the model was sent is compared with what the prompt needs, what holds
and what no longer does: alone, and with 600 other memories besides. `holds/README.md` says what the
sets are.
"""

import asyncio
import os
import random
import tempfile
from collections import Counter
from datetime import timedelta
from itertools import chain, groupby
from unittest.mock import patch

import quotes
import said_by
import tokens
from amplifier_core import AmplifierSession
from memory_hooks.block import NOTES
from memory_hooks.capture import REMINDER
from memory_semantic.memory import Memory
from memory_semantic.remembered import utc_now
from page import Log, Options, Row, of, table
from recall_sets import LANGUAGES, rows
from sessions import (
    AGENT,
    LOOPS,
    PROJECTS,
    answers,
    call,
    projects,
    requests_of,
    session,
    storage,
    texts_of,
)

# Beside the week's: from the other sets, in one of its projects, another or none, half of them the
# user's; of the 300 days before, and a tenth later than the week's.
OTHERS, OTHER_PROJECTS, OTHER_DAYS = 600, (*PROJECTS, "billing", "garden", ""), 300

WEEK, PROMPTS = rows("holds/week"), rows("holds/prompts")
MEMORIES = {row["name"]: row for row in WEEK if "name" in row}
GONE = {row["replaces"] for row in WEEK if "replaces" in row}
RULES = {name: row for name, row in MEMORIES.items() if row.get("pin") and name not in GONE}
# What is measured, where it is found, and what should be reached.
_ROWS = [
    ("statements that count as the user's", "stored", "the user's", "all"),
    ("corrections that replaced", "stored", "replaced", "all"),
    ("needed pieces shown", "week", "needed", "≥ 65"),
    ("needed pieces, 600 others besides", "with others", "needed", "≥ 45"),
    ("rules that hold, under their head", "week", "rules", "all"),
    ("rules of other projects shown", "week", "rules of others", "0"),
    ("corrected facts shown", "week", "corrected", "0"),
    ("corrected facts first in a search", "week", "corrected first", "0"),
    ("tokens, first prompt", "week", "tokens", "≤ 1,300"),
    ("tokens, later prompt", "week", "later tokens", "0"),
    ("tokens, first prompt, 600 others", "with others", "tokens", ""),
    ("asked to store at a statement", "stored", "statement", "all"),
    ("at a question, paste or command", "stored", "nothing said", "0"),
    ("in a sub-agent, or by a program", "stored", "no human", "0"),
]


def _call(row: Row, ids: dict[str, str]) -> list[Row]:
    return call(row, **({"replaces": ids[row["replaces"]]} if "replaces" in row else {}))


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
        turns = [[_call(row, ids), "Noted."] if "name" in row else ["Done."] for row in said]
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
    texts = [
        row["content"]
        for name in ("recall/memories", "recall/everyday", "holds/notes")
        for row in rows(name)
    ]
    texts += [row[code][0] for row in rows("recall/languages") for code in LANGUAGES]
    about = await projects(root, *OTHER_PROJECTS)
    chosen, memories = random.Random(0), list[Memory]()
    for text in chosen.sample(texts, OTHERS):
        where = about[chosen.choice(OTHER_PROJECTS)]
        aged = utc_now() - timedelta(days=max(0.0, chosen.uniform(-OTHER_DAYS / 9, OTHER_DAYS)))
        memory = Memory(agent_id=AGENT, content=text, timestamp=aged, metadata=where)
        if chosen.random() < 0.5:
            memory.said_by, memory.quote = "user", text[:300]
        else:
            memory.said_by = "agent"
        memories.append(memory)
    await storage(root).restore(memories)


async def _loop(loop: str, log: Log) -> Row:
    log(f"holds: {loop}")
    with tempfile.TemporaryDirectory() as root:
        found = {"stored": await _week(root, loop)}
        found["week"] = await _first_prompts(root, loop, log)
        await _add_others(root)
        found["with others"] = await _first_prompts(root, loop, log)
    return found


def measure(options: Options, log: Log) -> Row:
    """The week in each loop, whose words are whose, and what is alike; ready for JSON."""
    return {
        "loops": {loop: asyncio.run(_loop(loop, log)) for loop in LOOPS},
        "quotes": asyncio.run(quotes.whose(log)),
        "alike": asyncio.run(quotes.alike()),
        "sentences": said_by.counts(),
    }


def blocks(found: Row) -> dict[str, str]:
    """The week, quotes and sentences, and what is shown at a correction."""
    loops, alike = found["loops"], found["alike"]
    week = [
        [what, *(of(each[part][name]) for each in loops.values()), aim]
        for what, part, name, aim in _ROWS
    ]
    said = [
        ("memories from turns that only look like statements", found["quotes"]["false memories"]),
        ("quotes of what people typed", found["quotes"]["real"]),
        ("invented ones, of pages, pastes or other agents", found["quotes"]["invented"]),
        ("in a sub-agent", found["quotes"]["a sub-agent's"]),
        ("sentences that people typed, stored word for word", found["sentences"]["typed"]),
        ("sentences of tools, taken for a tool's", found["sentences"]["answered"]),
        ("turns worth keeping, asked to store", found["sentences"]["asked where something is"]),
        ("other turns, asked to store", found["sentences"]["asked elsewhere"]),
    ]
    shown = [[kind, *map(str, counts)] for kind, counts in alike["corrections"].items()]
    return {
        "holds": table(["", *loops, "aim"], week),
        "holds quotes": table(["", "counted"], [[name, of(counts)] for name, counts in said]),
        "holds alike": f"{table(['', 'corrections', 'shown', 'first'], shown)}\n\nAt notes that "
        f"contradict nothing, something was shown at {of(alike['notes'])}; a store cost "
        f"{alike['tokens a store']} tokens for it.",
    }
