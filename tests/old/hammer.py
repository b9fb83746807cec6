"""Store, read, search and forget in a hurry, with whichever version is imported."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field
from typing import Any

from memory_semantic import AgentMemoryError, MemoryStorage

SHARED = "The one fact that everybody stores."


@dataclass
class Report:
    """The texts of acknowledged calls, the possible outcomes of others, and the errors instead of
    answers. `wrong` holds answers that should never have come.
    """

    stored: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


async def hammer(storage: MemoryStorage, name: str, seconds: float) -> Report:
    """Call again and again for this many seconds."""
    report = Report()
    end = time.monotonic() + seconds
    number = 0

    async def tried(call: Awaitable[Any], *doubtful: str) -> Any:
        try:
            return await call
        except AgentMemoryError as error:
            report.refused.append(str(error))
            report.doubtful += doubtful
            return None

    while time.monotonic() < end:
        number += 1
        tag = f"{name}-{number % 5}"
        single, *several = [f"{name} wrote line {number}{part} of its log" for part in "abc"]
        if ids := await tried(storage.store_many([(text, [tag]) for text in several]), *several):
            report.stored += several
            doomed = several[0]
            if await tried(storage.delete(ids[:1]), doomed) == 1:
                report.forgotten.append(doomed)
            elif doomed not in report.doubtful:
                report.wrong.append("an acknowledged memory could not be forgotten")
        if id := await tried(storage.store(single, [tag]), single):
            report.stored.append(single)
            memories = await tried(storage.get_recent(1_000, tags=[tag]))
            if memories is not None and id not in {memory.id for memory in memories}:
                report.wrong.append("an acknowledged memory is not listed")
            found = await tried(storage.search(single, 20))
            if found is not None and not found:
                report.wrong.append("a search found nothing at all")
        if await tried(storage.store(SHARED, [tag])):
            report.tags.append(tag)
    return report


if __name__ == "__main__":
    root, name, seconds = sys.argv[1:]
    storage = MemoryStorage("sam", {"storage_root": root, "embedding_model": "local"})
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asdict(asyncio.run(hammer(storage, name, float(seconds))))))
