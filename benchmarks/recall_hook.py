"""What recall before a prompt costs, and what it finds.

Run it with `uv run benchmarks/run.py --parts recall_hook`.

The time is that of real prompts in a scripted session with the hook, minus that of the same prompts
without it. Tokens are counted with the tokenizer of `tokens`. The threshold of closeness is
measured on our own labelled set and on prompts that no memory answers.
"""

import asyncio
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tokens
from memory_hooks.recall import MIN_COSINE, NAME
from memory_semantic import MemoryStorage, estimate_tokens
from memory_semantic.limits import MAX_RESULTS
from memory_semantic.remembered import utc_now
from recall_sets import FOLDER, Set, for_tuning, own
from scoring import Question

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from scripted import scripted_session

Log = Callable[[str], None]

AGENT = "recall"
SIZE, CHARACTERS = 1_000, 150
THRESHOLDS = (0.22, 0.24, 0.26, 0.28, 0.3, 0.32, 0.34)
# Of a provider's cache, against an ordinary input token: what is new in a request is written, what
# was in an earlier one is read (Anthropic's prices).
WRITTEN, READ = 1.25, 0.1
TURNS = (1, 5, 10, 20)
# Prompts that ask nothing of a memory, or of this one.
SMALL_TALK = (FOLDER / "small_talk.txt").read_text().splitlines()


def measure(quick: bool, log: Log = print) -> dict[str, Any]:
    """All of it, ready for JSON."""
    logging.getLogger("memory_semantic").setLevel(logging.ERROR)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as large,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as labelled,
    ):
        asyncio.run(_fill(large))
        log(f"recall_hook: time, {SIZE:,} memories")
        times = _times(large, 5 if quick else 100, 1 if quick else 11)
        given = own()
        questions = given.questions
        asyncio.run(_store(labelled, given))
        log("recall_hook: closeness")
        close = asyncio.run(_closeness(labelled, questions))
        log("recall_hook: tokens")
        by_turns = asyncio.run(_by_turns(labelled, questions, 2 if quick else 20))
    time.sleep(0.1)  # amplifier-core 2.0.2 crashes if the process exits right after a call to it
    return {"size": SIZE, "ms": times, "close": close, "tokens": by_turns}


def _config(root: str) -> dict[str, Any]:
    return {"storage_root": root, "embedding_model": "local"}


def _session(root: str, hook: bool = True) -> Any:
    hooks: dict[str, dict[str, Any]] = {NAME: {}} if hook else {}
    return scripted_session([], {"agent_identity": AGENT, **_config(root)}, hooks=hooks)


async def _fill(root: str) -> None:
    storage = MemoryStorage(AGENT, _config(root))
    await storage.store_many([tokens.memory(number, CHARACTERS) for number in range(SIZE)])


async def _store(root: str, given: Set) -> None:
    """The labelled memories, as old as they are on the day of their questions."""
    memories = given.memories(AGENT)
    for memory in memories:
        memory.timestamp += utc_now() - given.now
    await MemoryStorage(AGENT, _config(root)).restore(memories)


# Time


def _times(root: str, prompts: int, runs: int) -> dict[str, float]:
    """Milliseconds that the hook adds: to the first prompt of a process, and to one of many."""

    def alone(hook: bool) -> float:
        """The same in a process of its own, where nothing is loaded yet."""
        command = [sys.executable, __file__, root, "hook" if hook else ""]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout)

    first = [(alone(True), alone(False)) for _ in range(runs)]
    with_hook, without = (asyncio.run(_prompts(root, hook, prompts)) for hook in (True, False))
    added = sorted(one - statistics.median(without[1:]) for one in with_hook[1:])
    return {
        "first": statistics.median(a for a, _ in first) - statistics.median(b for _, b in first),
        "warm": statistics.median(added),
        "warm_p95": added[int(len(added) * 0.95)],
        "load": os.getloadavg()[0] / (os.cpu_count() or 1),
    }


async def _prompts(root: str, hook: bool, number: int) -> list[float]:
    """How long each of the prompts of a session takes, in milliseconds."""
    taken = []
    async with _session(root, hook) as session:
        for question in (own().questions * 2)[: number + 1]:
            started = time.perf_counter()
            await session.execute(question.text)
            taken.append((time.perf_counter() - started) * 1000)
    return taken


# Closeness


async def _closeness(root: str, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """For each threshold, how often the answer is among what is recalled, and how much is recalled
    for questions with an answer, for those without, and for small talk.
    """
    storage = MemoryStorage(AGENT, {**_config(root), "lexical_weight": 0})

    async def nearest(text: str) -> list[tuple[str, float]]:
        return [
            (m.content, m.similarity) for m in await storage.search(text, MAX_RESULTS, prompt=True)
        ]

    small_talk = [await nearest(text) for text in SMALL_TALK]
    found = [(question, await nearest(question.text)) for question in questions]

    def recalled(near: list[tuple[str, float]], least: float) -> set[str]:
        return {content for content, cosine in near if cosine >= least}

    nothing = [near for question, near in found if not question.answers]
    answered = [near for asked, near in found if asked.answers and not for_tuning(asked)]
    rows = []
    for least in THRESHOLDS:
        row: dict[str, Any] = {"least": least}
        for part in ("tune", "report"):
            those = [each for each in found if for_tuning(each[0]) == (part == "tune")]
            asked = [each for each in those if each[0].answers]
            hits = [bool(recalled(near, least) & question.answers) for question, near in asked]
            row[part] = statistics.mean(hits)
        row["report_memories"] = statistics.mean(len(recalled(near, least)) for near in answered)
        row["no_answer"] = statistics.mean(len(recalled(near, least)) for near in nothing)
        row["small_talk"] = statistics.mean(len(recalled(near, least)) for near in small_talk)
        row["silent"] = statistics.mean(not recalled(near, least) for near in small_talk)
        row["chosen"] = least == MIN_COSINE["local"]
        rows.append(row)
    return rows


# Tokens


async def _by_turns(
    root: str, questions: Sequence[Question], conversations: int
) -> list[dict[str, float]]:
    """What recall adds to conversations that take turns between a question of the labelled set and
    small talk, one request a turn.
    """
    asked = [question.text for question in questions]
    added: list[list[int]] = []
    too_many: list[float] = []
    for number in range(conversations):
        prompts = [
            prompt
            for i in range(max(TURNS) // 2)
            for prompt in (
                asked[(number * 31 + i * 7) % len(asked)],
                SMALL_TALK[(number * 13 + i * 3) % len(SMALL_TALK)],
            )
        ]
        async with _session(root) as session:
            context, blocks = session.coordinator.get("context"), []
            for prompt in prompts:
                before = len(await context.get_messages())
                await session.execute(prompt)
                new = (await context.get_messages())[before:]
                blocks += [new[0]["content"] if new[0]["content"] != prompt else ""]
        added.append([tokens.count(block) if block else 0 for block in blocks])
        too_many += [estimate_tokens(block) / tokens.count(block) for block in blocks if block]
    return [
        {
            "turns": turns,
            "recalled": statistics.mean(sum(blocks[:turns]) for blocks in added),
            "read": statistics.mean(
                sum(block * (turns - i) for i, block in enumerate(blocks[:turns]))
                for blocks in added
            ),
            "paid": statistics.mean(
                sum(
                    block * (WRITTEN + READ * (turns - 1 - i))
                    for i, block in enumerate(blocks[:turns])
                )
                for blocks in added
            ),
            "estimate": statistics.mean(too_many),
        }
        for turns in TURNS
    ]


def main() -> None:
    root, hook = sys.argv[1:]
    print(asyncio.run(_prompts(root, bool(hook), 0))[0])


if __name__ == "__main__":
    main()
