"""Does what was corrected stay out of the way? `uv run benchmarks/corrections.py`, half a minute.

Links: our own recall set (see `recall/README.md`) in a store with the built-in model, asked once as
it is and once with each memory of its chains replaced by the next. Prints recall@5 for each kind of
question, and for how many of the questions on what was superseded an outdated memory stands above
the present one.
"""

import asyncio
import json
import tempfile
from itertools import pairwise
from typing import Any

from memory_semantic import MemoryStorage
from memory_semantic.links import link
from memory_semantic.store import Store, with_ids
from recall_sets import FOLDER, NOW, for_tuning, own
from scoring import DEPTH, Answer, Question, scores

CHAINS: list[list[str]] = json.loads((FOLDER / "superseded.json").read_text())


def links() -> dict[str, Any]:
    """The measures of the set without and with its links."""
    return asyncio.run(_links())


async def _links() -> dict[str, Any]:
    ours = own()
    ours = ours.asking([question for question in ours.questions if not for_tuning(question)])
    texts = [each["content"] for each in map(json.loads, (FOLDER / "memories.jsonl").open())]
    names = [each["id"] for each in map(json.loads, (FOLDER / "memories.jsonl").open())]
    memories = ours.memories("bench")
    by_name = dict(zip(names, memories, strict=True))
    later = {
        by_name[old].content: {by_name[new].content for new in chain[place + 1 :]}
        for chain in CHAINS
        for place, old in enumerate(chain)
    }
    assert texts == ours.texts
    with tempfile.TemporaryDirectory() as root:
        config = {"storage_root": root, "embedding_model": "local"}
        storage = MemoryStorage("bench", config, clock=lambda: NOW)
        await storage.restore(memories)
        before = [await _answer(storage, question) for question in ours.questions]

        def relink(store: Store) -> None:
            for chain in CHAINS:
                for old, new in pairwise(chain):
                    [found] = with_ids(store, [by_name[old].id])
                    link(store, [found], by_name[new])

        await storage.run(relink, None)
        after = [await _answer(storage, question) for question in ours.questions]
    return {
        "without": scores(before) | {"stale first": _stale(before, later)},
        "with": scores(after) | {"stale first": _stale(after, later)},
    }


async def _answer(storage: MemoryStorage, question: Question) -> Answer:
    found = await storage.search(question.text, DEPTH)
    return Answer(question, [memory.content for memory in found], 0.0)


def _stale(answers: list[Answer], later: dict[str, set[str]]) -> int:
    """For how many of the questions on what was superseded an outdated memory comes first."""
    number = 0
    for answer in answers:
        if answer.question.kind == "superseded":
            first = next((t for t in answer.texts if t in answer.question.answers), "")
            above = answer.texts[: answer.texts.index(first)] if first else answer.texts
            number += any(later.get(text, set()) & answer.question.answers for text in above)
    return number


def main() -> None:
    """Print the measures."""
    found = links()
    for which, measures in found.items():
        stale = measures.pop("stale first")
        print(f"{which} links: stale above current in {stale}")
        for kind, each in measures.items():
            value, low, high = each["recall@5"]
            print(f"  {kind:12} {each['n']:4}  recall@5 {value:5.1f} [{low:.1f}, {high:.1f}]")


if __name__ == "__main__":
    main()
