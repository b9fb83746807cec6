"""The first answer of a process, and where its time goes: `run.py --parts first_answer`.

A search with the built-in model among 1,000 and 10,000 memories, and `agent-memory search` among
1,000; each in new processes. Besides the time on the clock it gives processor time, which other
work on the machine changes less.
"""

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from memory_semantic import MemoryStorage

AGENT, BATCH = "bench", 1_000
QUESTION = "Which database did the team choose for the users table?"
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
# What a session pays before its first turn. (amplifier-core 2.0.2 crashes if the process exits
# right after a call to it.)
MOUNT = """
import asyncio, time
from amplifier_core.testing import MockCoordinator
clock, processor = time.perf_counter(), time.process_time()
from amplifier_module_tool_memory_semantic import mount
asyncio.run(mount(MockCoordinator(), {}))
print(time.perf_counter() - clock, time.process_time() - processor)
time.sleep(0.1)
"""


async def fill(root: str, size: int) -> None:
    """A store of so many memories of 300 characters, of words that differ."""
    storage = MemoryStorage(AGENT, {"storage_root": root, "embedding_model": "local"})
    for start in range(0, size, BATCH):
        notes = [
            f"Note {number}: the team chose option {number * 7} for the table of service "
            f"{number % 97}, because its owner, team {number % 31}, asked for it. " * 2
            for number in range(start, min(start + BATCH, size))
        ]
        await storage.store_many([note[:300] for note in notes])


def measured(command: list[str], runs: int) -> dict[str, Any]:
    """Medians of the milliseconds on the clock and of the processor."""
    clock, processor = [], []
    for run in range(runs + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        elapsed = time.perf_counter() - started
        if done.returncode or not done.stdout.strip():
            raise RuntimeError(f"no answer: {done.stderr.strip()[-300:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if run:  # the first compiles, and brings the files into the system's cache
            clock.append(elapsed * 1000)
            processor.append(used * 1000)
    return {"clock": statistics.median(clock), "processor": statistics.median(processor)}


def printed(command: list[str], runs: int) -> list[float]:
    """Medians of the seconds that a process prints, in milliseconds."""
    rows = [
        [float(part) * 1000 for part in subprocess.check_output(command, text=True).split()]
        for _ in range(runs)
    ]
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def measure(sizes: list[int], runs: int) -> dict[str, Any]:
    """Of each kind of process: milliseconds, and where those of a search go."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            root = f"{folder}/{size}"
            asyncio.run(fill(root, size))
            command = [sys.executable, "-c", SEARCH, root, QUESTION]
            # Of the processor: imports, the model, the search.
            row = measured(command, runs) | {"steps": printed(command, runs)}
            results[f"a search, {size:,} memories"] = row
        program = str(Path(sys.executable).with_name("agent-memory"))
        options = ["--agent", AGENT, "--root", f"{folder}/{sizes[0]}"]
        command = [sys.executable, program, "search", QUESTION, *options]
        results[f"`agent-memory search`, {sizes[0]:,} memories"] = measured(command, runs)
    clock, processor = printed([sys.executable, "-c", MOUNT], runs)
    results["mounting, after amplifier_core"] = {"clock": clock, "processor": processor}
    return results
