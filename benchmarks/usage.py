"""What recording costs a search, with the setting `usage` on: `uv run benchmarks/usage.py`.

Searches with and without it take turns in one process, so that they share the opening of a store;
the recording alone is timed, too. Prints a line for each.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime

from memory_semantic.usage import Usage
from v1 import fill, storage, timed

MEMORIES = 1_000
ROUNDS = 1_000
CALLS = 10_000  # which is more than the log holds


def told(what: str, milliseconds: list[float]) -> None:
    median, late = (
        statistics.median(milliseconds),
        sorted(milliseconds)[int(len(milliseconds) * 0.99)],
    )
    print(f"{what}: {median:.3f} ms (p99 {late:.3f}, longest {max(milliseconds):.1f})")


def of_calls(call: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return times


async def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        await fill(root, MEMORIES)
        recording, plain = storage(root, usage=True), storage(root)
        times: dict[str, list[float]] = {"search": [], "search, recorded": []}
        for i in range(ROUNDS):
            times["search"] += await timed(lambda _, i=i: plain.search(f"question {i}"), 1)
            times["search, recorded"] += await timed(
                lambda _, i=i: recording.search(f"question {i}"), 1
            )
        for what, milliseconds in times.items():
            told(what, milliseconds)
        found, log = await plain.search("question"), Usage(plain.folder, on=True)
        now = datetime.now(UTC)
        told(
            "a line of five ids, rewriting included", of_calls(lambda: log.record(found, now, now))
        )
        started = time.perf_counter()
        recording.searches()
        size = log.path.stat().st_size / 1000
        print(f"reading {size:,.0f} kB of log: {(time.perf_counter() - started) * 1000:.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
