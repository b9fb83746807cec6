"""Does a model find memories in other languages? `uv run benchmarks/languages.py [MODEL]`.

Forty short memories in each of four languages, a question about each in other words, and one with a
word of it. The built-in model, or the one of that name at the service that OPENAI_BASE_URL names;
asked through a store, as its users have it.
"""

import asyncio
import sys
import tempfile

from memory_semantic import MemoryStorage
from recall_sets import Set, languages
from scoring import Answer, by_kind, score

SHOWN = 5


async def answers(given: Set, model: str) -> list[Answer]:
    """What a store of these memories finds for each question."""
    with tempfile.TemporaryDirectory() as folder:
        storage = MemoryStorage("recall", {"storage_root": folder, "embedding_model": model})
        await storage.store_many(given.texts)
        found = []
        for question in given.questions:
            texts = [memory.content for memory in await storage.search(question.text, SHOWN)]
            found.append(Answer(question, texts, 0.0))
        await storage.close()
        return found


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "local"
    print(f"| questions, {model} | right answer first | among the first {SHOWN} |")
    print("|---|--:|--:|")
    for language, given in languages().items():
        found = by_kind(asyncio.run(answers(given, model)))
        for kind, asked in list(found.items())[1:]:
            first, shown = (
                sum(score(f"recall@{k}", answer) > 0 for answer in asked) for k in (1, SHOWN)
            )
            print(f"| {len(asked)} in {language}, {kind} | {first} | {shown} |")
    print(f"| by chance | 1 | {SHOWN} |")


if __name__ == "__main__":
    main()
