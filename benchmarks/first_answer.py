# /// script
# requires-python = ">=3.11"
# dependencies = ["amplifier-module-tool-memory-semantic[cli]"]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
"""The first answer of a process, and where its time goes: `uv run benchmarks/first_answer.py`.

A search with the built-in model among 1,000 and 10,000 memories, and `agent-memory search` among
1,000; each in new processes. Besides the time on the clock it gives processor time, which other
work on the machine hardly changes. Half a minute for the times, some more to fill the stores.
"""

import argparse
import asyncio
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

AGENT, SIZES, BATCH = "bench", (1_000, 10_000), 1_000
QUESTION = "Which database did the team choose for the users table?"
# Whose an import is, by the beginning of the module's name; all else is the standard library's.
OWNERS = ("pydantic", "annotated_types", "typing_extensions", "memory_semantic", "qdrant_edge")
OWNERS += ("tokenizers", "agent_memory", "click", "rich", "yaml", "numpy")
SEARCH = """
import asyncio, sys, time
from memory_semantic import MemoryStorage
from memory_semantic.embeddings import local
imported = time.process_time()
local.load()
loaded = time.process_time()
storage = MemoryStorage("bench", {"storage_root": sys.argv[1], "embedding_model": "local"})
assert asyncio.run(storage.search(sys.argv[2])), "nothing found"
print(imported, loaded - imported, time.process_time() - loaded)
"""


async def fill(root: str, size: int) -> None:
    """A store of so many memories of 300 characters, of words that differ."""
    from memory_semantic import MemoryStorage

    storage = MemoryStorage(AGENT, {"storage_root": root, "embedding_model": "local"})
    for start in range(0, size, BATCH):
        notes = [
            f"Note {number}: the team chose option {number * 7} for the table of service "
            f"{number % 97}, because its owner, team {number % 31}, asked for it. " * 2
            for number in range(start, min(start + BATCH, size))
        ]
        await storage.store_many([note[:300] for note in notes])


def measured(command: list[str], runs: int) -> tuple[float, float]:
    """Medians of the milliseconds on the clock and of the processor."""
    clock, processor = [], []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        clock.append((time.perf_counter() - started) * 1000)
        if done.returncode or not done.stdout.strip():
            sys.exit(f"No answer: {done.stderr.strip()[-300:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        processor.append(used * 1000)
    return statistics.median(clock), statistics.median(processor)


def imports(command: list[str]) -> list[tuple[str, float]]:
    """Milliseconds that the imports of each package take by themselves, most first."""
    done = subprocess.run([command[0], "-X", "importtime", *command[1:]], capture_output=True)
    owners: Counter[str] = Counter()
    for own, module in re.findall(rb"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", done.stderr):
        name = module.decode()
        owner = next((each for each in OWNERS if name.startswith(each)), "standard library")
        owners[owner] += int(own)
    return [(owner, microseconds / 1000) for owner, microseconds in owners.most_common()]


def steps(command: list[str], runs: int) -> list[float]:
    """Medians of the processor's milliseconds of a search: imports, the model, the search."""
    rows = [
        [float(part) * 1000 for part in subprocess.check_output(command, text=True).split()]
        for _ in range(runs)
    ]
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description="The first answer of a process.")
    parser.add_argument("--runs", type=int, default=15, help="processes for each figure")
    runs = parser.parse_args().runs
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # no user's process compiles its imports anew
    os.environ["AGENT_MEMORY_QDRANT_URL"] = "local"
    with tempfile.TemporaryDirectory() as folder:
        commands = {}
        for size in SIZES:
            root = f"{folder}/{size}"
            asyncio.run(fill(root, size))
            commands[f"search among {size:,}"] = [sys.executable, "-c", SEARCH, root, QUESTION]
        program = Path(sys.executable).with_name("agent-memory")
        options = ["--agent", AGENT, "--root", f"{folder}/{SIZES[0]}"]
        of_command = [sys.executable, str(program), "search", QUESTION, *options]
        commands[f"agent-memory search among {SIZES[0]:,}"] = of_command
        for name, command in commands.items():
            measured(command, 1)  # compiles, and brings the files into the system's cache
            clock, processor = measured(command, runs)
            print(f"{name}: {clock:.0f} ms, of the processor {processor:.0f} ms")
            parts = ", ".join(f"{owner} {ms:.0f}" for owner, ms in imports(command) if ms >= 1)
            print(f"  imports, ms by package: {parts}")
            if command is not of_command:
                imported, loaded, searched = steps(command, runs)
                print(
                    f"  processor, ms: start and imports {imported:.0f}, the model {loaded:.0f}, "
                    f"the search {searched:.0f}"
                )


if __name__ == "__main__":
    main()
