"""Does what was corrected stay out of the way? `uv run benchmarks/corrections.py`, half a minute.

Links: our own recall set (see `recall/README.md`) in a store with the built-in model, asked once as
it is and once with each memory of its chains replaced by the next. Prints recall@5 for each kind of
question, and for how many of the questions on what was superseded an outdated memory stands above
the present one.

Finding what to replace: whether a search for a new statement finds the one that it corrects, among
all that were corrected in its language. `corrections/chains.jsonl` has 60 chains of two to four
statements, written by hand by someone who had not seen the code: each corrects the one before, as a
person or an agent would months later without the old one at hand. 36 are English, 8 each German,
Korean and Japanese.
"""

import asyncio
import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from memory_semantic import MemoryStorage
from memory_semantic.links import link
from memory_semantic.store import Store
from recall_sets import FOLDER, NOW, for_tuning, own
from scoring import DEPTH, Answer, Question, scores

STATEMENTS = Path(__file__).with_name("corrections") / "chains.jsonl"
LANGUAGES = ("en", "de", "ko", "ja")
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
                    [found] = store.with_ids([by_name[old].id])
                    link(store, [found], by_name[new])

        await storage.run(relink, None)
        after = [await _answer(storage, question) for question in ours.questions]
    return {
        "without": scores(before) | {"stale first": _stale(before, later)},
        "with": scores(after) | {"stale first": _stale(after, later)},
    }


async def _answer(storage: MemoryStorage, question: Question) -> Answer:
    found = await storage.search(question.text, DEPTH)
    return Answer(question, [memory.content for memory in found])


def _stale(answers: list[Answer], later: dict[str, set[str]]) -> int:
    """For how many of the questions on what was superseded an outdated memory comes first."""
    number = 0
    for answer in answers:
        if answer.question.kind == "superseded":
            first = next((t for t in answer.texts if t in answer.question.answers), "")
            above = answer.texts[: answer.texts.index(first)] if first else answer.texts
            number += any(later.get(text, set()) & answer.question.answers for text in above)
    return number


def found() -> dict[str, tuple[int, int, int]]:
    """By language: how many corrections there are, and for how many a search for the new statement
    finds the old one first, and among the first three.
    """
    return {language: asyncio.run(_found(language)) for language in LANGUAGES}


async def _found(language: str) -> tuple[int, int, int]:
    rows = map(json.loads, STATEMENTS.read_text().splitlines())
    chains = [row["texts"] for row in rows if row["language"] == language]
    pairs = [pair for texts in chains for pair in pairwise(texts)]
    places: list[int] = []
    with tempfile.TemporaryDirectory() as root:
        storage = MemoryStorage("bench", {"storage_root": root, "embedding_model": "local"})
        await storage.store_many(list(dict.fromkeys(old for old, _ in pairs)))
        for old, new in pairs:
            own = next(set(texts) for texts in chains if new in texts) - {old}
            texts = [memory.content for memory in await storage.search(new, DEPTH)]
            texts = [text for text in texts if text not in own]  # of other times
            places.append(texts.index(old) if old in texts else DEPTH)
    return len(pairs), sum(place < 1 for place in places), sum(place < 3 for place in places)


def main() -> None:
    """Print the measures."""
    for which, measures in links().items():
        stale = measures.pop("stale first")
        print(f"{which} links: stale above current in {stale}")
        for kind, each in measures.items():
            value, low, high = each["recall@5"]
            print(f"  {kind:12} {each['n']:4}  recall@5 {value:5.1f} [{low:.1f}, {high:.1f}]")

    for language, (number, first, three) in found().items():
        print(f"{language}: of {number} corrected, {first} come first, {three} among three")


if __name__ == "__main__":
    main()
