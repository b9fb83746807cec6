"""Does the built-in model find paraphrases in other languages? `uv run benchmarks/languages.py`.

Forty short memories, each in four languages, and a question about each in other words. Another
model is measured by its name, at the service that OPENAI_BASE_URL names: add the name as argument.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from memory_semantic import MemoryStorage

SET = Path(__file__).with_name("recall") / "languages.jsonl"
LANGUAGES = {"en": "English", "de": "German", "ko": "Korean", "ja": "Japanese"}
SHOWN = 5


async def found(pairs: list[tuple[str, str]], model: str) -> tuple[int, int]:
    """How many of the questions find their memory first, and how many among the first five."""
    with tempfile.TemporaryDirectory() as folder:
        storage = MemoryStorage("recall", {"storage_root": folder, "embedding_model": model})
        await storage.store_many(memory for memory, _ in pairs)
        first = shown = 0
        for memory, question in pairs:
            contents = [each.content for each in await storage.search(question, SHOWN)]
            first += contents[0] == memory
            shown += memory in contents
        return first, shown


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "local"
    rows = [json.loads(line) for line in SET.read_text().splitlines()]
    print(f"| {len(rows)} questions, {model} | right answer first | among the first {SHOWN} |")
    print("|---|--:|--:|")
    for code, language in LANGUAGES.items():
        first, shown = asyncio.run(found([tuple(row[code]) for row in rows], model))
        print(f"| {language} | {first} | {shown} |")
    print(f"| by chance | 1 | {SHOWN} |")


if __name__ == "__main__":
    main()
