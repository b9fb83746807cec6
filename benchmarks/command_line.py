"""How long a person waits for `agent-memory`: `uv run benchmarks/command_line.py [memories]`.

Each command runs in its own process, on memories embedded by the built-in model. Prints medians:
until the first byte of output, and until the end. The page is timed in a single run.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory_semantic import MemoryStorage

COMMAND = Path(sys.executable).with_name("agent-memory")
RUNS = 9
SUBJECTS = [
    "database",
    "deploy",
    "test",
    "review",
    "customer",
    "invoice",
    "cache",
    "queue",
    "login",
    "colour",
]


def fact(number: int) -> str:
    words = (SUBJECTS[number // 10**place % 10] for place in range(4))
    return f"Decision {number} is about the {' and the '.join(words)}."


async def fill(storage: MemoryStorage, memories: int) -> None:
    for at in range(0, memories, 1000):
        texts = [fact(number) for number in range(at, min(at + 1000, memories))]
        await storage.store_many([(text, [text.split()[5]]) for text in texts])


def seconds(*arguments: str) -> tuple[float, float]:
    """Until the first byte, and until the end."""
    started = time.perf_counter()
    with subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.read(1)
        first = time.perf_counter() - started
        process.stdout.read()
        assert process.wait() == 0
    return first, time.perf_counter() - started


def main() -> None:
    memories = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HOME": folder, "AGENT_MEMORY_QDRANT_URL": "local"}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # people do not compile at each run
        storage = MemoryStorage("sam", {"embedding_model": "local"})
        asyncio.run(fill(storage, memories))
        [newest] = asyncio.run(storage.get_recent(1))
        print(f"{memories:,} memories; first output / end, median of {RUNS}, milliseconds")
        for arguments in (
            ["--help"],
            ["list"],
            ["show", newest.id],
            ["agents"],
            ["stats"],
            ["search", "what did we decide about the cache"],
            ["export", "-"],
        ):
            runs = [seconds(*arguments) for _ in range(RUNS)]
            first, end = (statistics.median(each) * 1000 for each in zip(*runs, strict=True))
            print(f"  {arguments[0]:<8}{first:>6.0f} /{end:>6.0f}")
        _, end = seconds("stats", "--html", f"{folder}/page.html")
        size = Path(f"{folder}/page.html").stat().st_size / 1e6
        print(f"  the page {end:.1f} s, {size:.1f} MB")
        _, end = seconds("doctor")
        print(f"  doctor   {end:.1f} s")


if __name__ == "__main__":
    main()
