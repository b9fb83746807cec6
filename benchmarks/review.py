"""Does a review find what it should? `uv run benchmarks/review.py`, a minute.

Of 150 pairs planted among 2,000 memories (see `review/README.md`), how many are among the first
100, 150 and 200 that a review shows, by kind; then how long the search takes among 10,000 memories,
in seconds and in seconds of the processor. `--quick` leaves out the 10,000.
"""

import asyncio
import json
import re
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_memory.cases import Case, contents, find
from memory_semantic import MemoryStorage
from memory_semantic.memory import Memory

HERE = Path(__file__).parent
SIZE, MANY, SHOWN = 2_000, 10_000, 200
NOW = datetime(2026, 11, 20, 20, tzinfo=UTC)


def planted() -> dict[frozenset[str], str]:
    """The 150 pairs, and the kind of each."""
    pairs = {
        frozenset([each["one"], each["other"]]): each["kind"] for each in _rows("review/pairs")
    }
    chains = (each["texts"] for each in _rows("corrections/chains") if each["language"] == "en")
    return pairs | {frozenset(texts[:2]): "disagree" for texts in chains}


def distractors() -> list[str]:
    """Other memories, those that are most like memories first; no questions."""
    repeated = {each["content"] for each in _rows("review/repeated")}
    superseded = json.loads((HERE / "recall/superseded.json").read_text())
    later = {name for chain in superseded for name in chain[1:]}
    memories = [each["content"] for each in _rows("recall/memories") if each["id"] not in later]
    texts = [part for text in memories for part in re.split(r"(?<=[.!?])\s+", text)]
    texts += [each["one"] for each in _rows("corrections/compatible")]
    turns = [turn for file in sorted((HERE / "capture").glob("*.jsonl")) for turn in _lines(file)]
    texts += [worth["statement"] for turn in turns for worth in turn["worth"]]
    idle = [turn for turn in turns if not turn["worth"]]
    texts += [turn[who] for who in ("human", "assistant") for turn in idle]
    texts = [text for text in texts if len(text) > 25 and "?" not in text]
    return [text for text in dict.fromkeys(texts) if text not in repeated]


def shown() -> list[str]:
    """What the first 200 cases are, in their order: the kind of a planted pair, or blank."""
    pairs = planted()
    texts = dict.fromkeys([text for pair in sorted(map(sorted, pairs)) for text in pair])
    cases, _ = _cases([*dict.fromkeys([*texts, *distractors()])][:SIZE])
    return [
        pairs.get(frozenset(memory.content for memory in case.memories), "")
        for case in cases[:SHOWN]
    ]


def _cases(texts: list[str]) -> tuple[list[Case], tuple[float, float]]:
    with tempfile.TemporaryDirectory() as root:
        storage = MemoryStorage("bench", {"storage_root": root, "embedding_model": "local"})
        memories = [Memory(agent_id="bench", content=text, timestamp=NOW) for text in texts]

        async def stored() -> tuple[str, list[Memory], Any]:
            for start in range(0, len(memories), 1000):
                await storage.restore(memories[start : start + 1000])
            return await storage.run(contents, ("", [], []))

        asyncio.run(stored())
        before = time.perf_counter(), time.process_time()
        _, found, vectors = asyncio.run(storage.run(contents, ("", [], [])))
        cases = find(found, vectors, None, NOW)
        return cases, (time.perf_counter() - before[0], time.process_time() - before[1])


def _rows(name: str) -> list[dict[str, Any]]:
    return _lines(HERE / f"{name}.jsonl")


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def main() -> None:
    """Print the measures."""
    kinds = shown()
    of = Counter(planted().values())
    for first in (100, 150, SHOWN):
        found = Counter(filter(None, kinds[:first]))
        parts = ", ".join(f"{found[kind]} of {of[kind]} {kind}" for kind in of)
        print(f"among the first {first}: {found.total()} of {of.total()} planted ({parts})")
    if "--quick" in sys.argv:
        return
    texts = distractors()
    many = [f"{text} ({number})" for number in range(MANY // len(texts) + 1) for text in texts]
    cases, (seconds, processor) = _cases(many[:MANY])
    print(f"{MANY:,} memories: {seconds:.1f} s ({processor:.1f}), {len(cases):,} cases")


if __name__ == "__main__":
    main()
