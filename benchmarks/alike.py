"""Is the memory that a new one corrects shown where that is stored? `uv run benchmarks/alike.py`.

By the tool: of 60 corrections (`holds/chains.jsonl`), at how many the older memory is shown and is
the first; at how many of 200 notes (`holds/notes.jsonl`), which contradict nothing, anything is;
and what it costs, in a store with all older memories and notes. By thresholds: the same from the
cosines alone, on two halves of the sets, of which one is for tuning. Later first: what it does to
a search if, of two memories found that are alike, the later stands first: on 30 questions about
what the chains say, both statements in the store without a link, and on the questions of
`recall/`, of which none may lose much. Half a minute.
"""

import asyncio
import json
import random
import statistics
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any

import tokens
from holds import PROJECTS, answers, project, rows, session, storage
from memory_semantic import MemoryStorage
from memory_semantic.answers import newer_first
from memory_semantic.limits import BUILT_IN_MODELS, DEFAULT_RESULTS, MOST_ALIKE
from memory_semantic.memory import Memory
from memory_semantic.ranking import cosine
from recall_sets import NOW, for_tuning, own

CHAINS, NOTES = rows("chains.jsonl"), rows("notes.jsonl")
LANGUAGES = ("en", "de", "ko", "ja")
THRESHOLDS = [0.3, 0.35, 0.4, 0.42, 0.45, 0.5, 0.55, 0.6, 0.65]
OF_PAIRS = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8]

Row = dict[str, Any]
# What is shown at a correction or a note: the texts, the most alike first.
Shown = dict[str, list[str]]


def by_tool() -> Row:
    """As `memory_store` answers, with the built-in model: see `_figures`."""
    return asyncio.run(_by_tool())


async def _by_tool() -> Row:
    shown, cost = Shown(), list[int]()
    with tempfile.TemporaryDirectory() as root:
        store = storage(root)
        everything = [(row, row.get("old") or row["content"]) for row in (*CHAINS, *NOTES)]
        about = {name: await project(root, name) for name in PROJECTS} | {"": {}}
        await store.upsert(
            [(text, None, about[row.get("project", "")]) for row, text in everything]
        )
        ids = {memory.id: memory.content for memory in await store.get_recent(None)}
        for row in (*CHAINS, *NOTES):
            text = row.get("new") or row["content"]
            given = {"content": text} | ({} if "project" in row else {"everywhere": True})
            turns = [[{"tool": "memory_store", "arguments": given}]]
            async with session(root, "loop-scripted", turns, row.get("project", "shop")) as opened:
                await opened.execute("Go on.")
                [answer] = await answers(opened)
            lines = answer.get("alike", [])
            shown[row["id"]] = [
                next(text for id, text in ids.items() if id.startswith(line.split()[0]))
                for line in lines
            ]
            added = {name: answer[name] for name in ("alike", "note") if lines}
            cost.append(tokens.count(json.dumps(added, ensure_ascii=False)) if lines else 0)
            if "new" in row:
                await store.delete([answer["memory_id"]])
    return _figures(CHAINS, NOTES, shown) | {"tokens a store": round(statistics.mean(cost))}


def _figures(chains: Sequence[Row], notes: Sequence[Row], shown: Shown) -> Row:
    """By language the corrections, and at how many the older memory is shown, and first; the same
    for those that do not say that anything changed; the notes, and at how many anything is shown.
    """

    def counts(some: Sequence[Row]) -> list[int]:
        found = [shown[row["id"]] for row in some]
        texts = [row["old"] for row in some]
        pairs = list(zip(texts, found, strict=True))
        return [len(some), sum(t in f for t, f in pairs), sum(t in f[:1] for t, f in pairs)]

    kinds = {code: [row for row in chains if row["language"] == code] for code in LANGUAGES}
    kinds |= {"all": list(chains), "unsaid": [row for row in chains if not row["says_changed"]]}
    at_notes = [len(notes), sum(bool(shown[row["id"]]) for row in notes)]
    return {kind: counts(some) for kind, some in kinds.items()} | {"notes": at_notes}


def by_threshold(model: str) -> dict[str, dict[float, Row]]:
    """The same for each half of the sets and each threshold, with this built-in model."""
    texts = [
        row[name] for row in (*CHAINS, *NOTES) for name in ("old", "new", "content") if name in row
    ]
    vectors = asyncio.run(_vectors(model, texts))
    older = [(row.get("old") or row["content"], row.get("project")) for row in (*CHAINS, *NOTES)]

    def near(row: Row, least: float) -> list[str]:
        text = row.get("new") or row["content"]
        here = [old for old, of in older if of in (row.get("project"), None) and old != text]
        alike = {old: cosine(vectors[text], vectors[old]) for old in here}
        best = sorted(alike, key=alike.__getitem__, reverse=True)[:MOST_ALIKE]
        return [old for old in best if alike[old] >= least]

    def half(some: Sequence[Row], tuning: bool) -> list[Row]:
        return [row for row in some if int(row["id"][-1]) % 2 == tuning]

    return {
        name: {
            least: _figures(*parts, {row["id"]: near(row, least) for part in parts for row in part})
            for least in THRESHOLDS
        }
        for name, tuning in (("tuning", True), ("report", False))
        for parts in [(half(CHAINS, tuning), half(NOTES, tuning))]
    }


async def _vectors(model: str, texts: Sequence[str]) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as root:
        store = MemoryStorage("alike", {"storage_root": root, "embedding_model": model})
        await store.store_many(dict.fromkeys(texts))
        return {
            m.content: m.embedding for m in await store.run(lambda s: [*s.scan(vectors=True)], [])
        }


def by_pairs(model: str) -> dict[float | None, Row]:
    """For each cosine from which the later of two memories stands first, and for None: for how
    many questions on what has changed the present memory stands above the old one; and on our own
    recall set how many of the reported questions have an answer at the first place.
    """
    chosen, changed = random.Random(0), [row for row in CHAINS if "question" in row]
    memories = [
        Memory(agent_id="alike", content=text, timestamp=NOW - timedelta(days=days))
        for row in CHAINS
        for text, days in ((row["old"], 200), (row["new"], 30))
    ]
    for row in NOTES:
        aged = NOW - timedelta(days=chosen.uniform(10, 300))
        memories.append(Memory(agent_id="alike", content=row["content"], timestamp=aged))
    recall = own()
    asked = [question for question in recall.questions if not for_tuning(question)]
    changes = asyncio.run(_found(model, memories, [row["question"] for row in changed]))
    recalled = asyncio.run(_found(model, recall.memories("alike"), [each.text for each in asked]))
    figures: dict[float | None, Row] = {}
    for least in (None, *OF_PAIRS):
        above = first = 0
        for row, found in zip(changed, changes, strict=True):
            texts = [each.content for each in _ordered(found, least)]
            above += row["new"] in texts and row["old"] not in texts[: texts.index(row["new"])]
        for question, found in zip(asked, recalled, strict=True):
            first += any(each.content in question.answers for each in _ordered(found, least)[:1])
        figures[least] = {"changed": [above, len(changed)], "first": [first, len(asked)]}
    return figures


async def _found(
    model: str, memories: list[Memory], questions: Sequence[str]
) -> list[list[Memory]]:
    """What is found for each of the questions, with vectors."""
    with tempfile.TemporaryDirectory() as root:
        config = {"storage_root": root, "embedding_model": model}
        store = MemoryStorage("alike", config, clock=lambda: NOW)
        await store.restore(memories)
        vectors = {m.id: m for m in await store.run(lambda s: [*s.scan(vectors=True)], [])}
        found = [await store.search(each, DEFAULT_RESULTS) for each in questions]
        return [[vectors[memory.id] for memory in some] for some in found]


def _ordered(found: list[Memory], least: float | None) -> list[Memory]:
    by_time = sorted(found, key=lambda memory: memory.timestamp)
    for memory in found:
        memory.newer = None
    for old, new in combinations(by_time, 2):
        if least and cosine(old.embedding, new.embedding) >= least:
            old.newer = new.id
    return newer_first(found)


def main() -> None:
    """Print the figures: how many, at how many the right one is shown, at how many first."""
    print("by tool", by_tool())
    for model in BUILT_IN_MODELS:
        for half, figures in by_threshold(model).items():
            for least, each in figures.items():
                print(f"{model}, {half}, {least:.2f}: {each}")
        for least, each in by_pairs(model).items():
            print(f"{model}, later first from {least}: {each}")


if __name__ == "__main__":
    main()
