"""What version 1 promises in figures, measured on this machine: `uv run benchmarks/v1.py`.

Vectors of 1536 dimensions come from a generator that takes almost no time, so the times are those
of the store; the row that includes embedding says so. Prints a Markdown table. `v1.py backup N`
prints the milliseconds of each of five stores that write the backup of N memories.
"""

import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage

DIMENSIONS = 1536
CHARACTERS = 300
CALLS = 100
# Stands in for an embeddings service; prints its port.
SERVICE = Path(__file__).with_name("stores") / "endpoint.py"

TAKEN = "V1: memory added by opening and searching 1,000"

Opened = Callable[[str], MemoryStorage]


class Vectors(EmbeddingGenerator):
    """Vectors that depend on the text alone and cost about a millisecond."""

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return [_vector(text) for text in texts]


def _vector(text: str) -> list[float]:
    numbers = array("h", random.Random(text).randbytes(2 * DIMENSIONS))
    return [number / 32768 for number in numbers]


def storage(root: str, **settings: Any) -> MemoryStorage:
    return MemoryStorage(
        "bench", {"storage_root": root, **settings}, embeddings=Vectors(dimensions=DIMENSIONS)
    )


def text(number: int | str) -> str:
    return f"Memory {number}: ".ljust(CHARACTERS, "x")


def with_model(root: str, model: str, address: str | None = None) -> MemoryStorage:
    """A storage with an embedding model that people use, of the service at `address`, if any."""
    settings = {"storage_root": root, "embedding_model": model, "base_url": address}
    return MemoryStorage("bench", settings)


async def fill(root: str, number: int, opened: Opened = storage) -> None:
    """Store `number` memories, the times of which are spread over the last two years."""
    now, apart = datetime.now(UTC), timedelta(days=730) / number
    for start in range(0, number, 500):
        await opened(root).restore(
            Memory(agent_id="bench", content=text(i), timestamp=now - (number - i) * apart)
            for i in range(start, min(start + 500, number))
        )


async def timed(call: Callable[[int], Awaitable[Any]], calls: int = CALLS) -> list[float]:
    """Milliseconds of each of `calls` calls, sorted."""
    times = []
    for i in range(calls):
        started = time.perf_counter()
        await call(i)
        times.append((time.perf_counter() - started) * 1000)
    return sorted(times)


def spread(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} ms (p95 {times[int(len(times) * 0.95)]:.0f})"


def disk_bytes(root: str) -> int:
    return sum(path.lstat().st_blocks * 512 for path in Path(root).rglob("*"))


def child(*arguments: str) -> Any:
    """What this script prints as JSON when it is run with `arguments` in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def resident_kb() -> tuple[int, int]:
    """Now, and at its highest so far."""
    status = Path("/proc/self/status")
    if not status.exists():  # macOS tells the highest alone, in bytes
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return highest, highest
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmRSS"].split()[0]), int(lines["VmHWM"].split()[0])


def measure_mount() -> None:
    import amplifier_core.testing

    started = time.perf_counter()
    from amplifier_module_tool_memory_semantic import mount

    asyncio.run(mount(amplifier_core.testing.MockCoordinator(), {}))
    print(json.dumps((time.perf_counter() - started) * 1000))
    time.sleep(0.1)  # amplifier-core 2.0.2 crashes if the process exits right after a call to it


def measure_memory(root: str, *model: str) -> None:
    """MB that opening and searching a store adds to a process that has the kernel loaded: after
    the searches, and at its highest, while a store is open. Without a model, vectors are given.
    """
    import amplifier_core.testing  # noqa: F401

    opened: Callable[..., MemoryStorage] = with_model if model else storage
    before, _ = resident_kb()
    asyncio.run(timed(lambda i: opened(root, *model).search(text(i)), 20))
    print(json.dumps([(kb - before) / 1024 for kb in resident_kb()]))


def measure_worker(root: str, name: str) -> None:
    """50 stores and 50 searches; prints how often they failed, how long they took, the ids."""

    async def work() -> None:
        ids, times, failures = [], [], 0
        for i in range(50):
            for call in (storage(root).store(text(f"{name}-{i}")), storage(root).search("x y")):
                started = time.perf_counter()
                try:
                    result = await call
                    ids += [result] if isinstance(result, str) else []
                except Exception:
                    failures += 1
                times.append((time.perf_counter() - started) * 1000)
        print(json.dumps({"ids": ids, "times": times, "failures": failures}))

    asyncio.run(work())


def measure_memory_with(*model: str) -> str:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        asyncio.run(fill(root, 1_000, lambda root: with_model(root, *model)))
        return added(child("memory", root, *model))


def measure_memory_with_service() -> str:
    command = [sys.executable, str(SERVICE)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as service:
        assert service.stdin and service.stdout
        address = f"http://127.0.0.1:{service.stdout.readline().strip()}/v1"
        with service.stdin:  # it ends when this is closed
            return measure_memory_with("text-embedding-3-small", address)


def added(megabytes: list[float]) -> str:
    after, highest = megabytes
    return f"{after:.0f} MB, {highest:.0f} while it is open"


def measure_four_processes() -> str:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        asyncio.run(fill(root, 1000))
        command = [sys.executable, __file__, "worker", root]
        workers = [
            subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True)
            for i in range(4)
        ]
        reports = [json.loads(worker.communicate()[0]) for worker in workers]
        kept = {memory.id for memory in asyncio.run(storage(root).get_recent(2000))}
    lost = sum(1 for report in reports for id in report["ids"] if id not in kept)
    times = sorted(time for report in reports for time in report["times"])
    failures = sum(report["failures"] for report in reports)
    return f"{failures} failed, {lost} lost, {spread(times)}, longest {times[-1]:.0f} ms"


async def measure_size(number: int, rows: list[tuple[str, str, str]], target: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        await fill(root, number)
        per_memory = disk_bytes(root) / number
        stores = await timed(lambda i: storage(root).store(text(f"new {i}")))
        searches = await timed(lambda i: storage(root).search(f"question {i}"))
        rows.append((f"store, {number:,} memories", target, spread(stores)))
        rows.append((f"search, {number:,} memories", target, spread(searches)))
        backups = spread(await times_of_backups(root))
        rows.append((f"store that writes the backup, {number:,} memories", "-", backups))
        if number == 1_000:
            rows.append(
                ("V1: query latency, 100 queries, 1,000 memories", "< 200 ms", spread(searches))
            )
            taken = added(await asyncio.to_thread(child, "memory", root))
            rows.append((f"{TAKEN}, vectors given", "< 50 MB", taken))
        else:
            rows.append(
                (f"disk a memory, {number:,} memories", "4 kB", f"{per_memory / 1000:.1f} kB")
            )
            rows.append(
                ("V1: disk, 10,000 memories", "< 2 MB", f"{per_memory * number / 1e6:.0f} MB")
            )


async def times_of_backups(root: str) -> list[float]:
    """Milliseconds of single stores, each of which finds a backup that is years old."""
    memory = storage(root)
    await memory.close()  # which writes the first one
    backup = next(Path(root).rglob("backup.jsonl"))

    async def store(_: int) -> None:
        await memory.store(text("backed up"))
        await memory.close()

    times = []
    for _ in range(5):
        header, _, memories = backup.read_text().partition("\n")
        header = json.dumps(json.loads(header) | {"exported": "2020-01-01T00:00:00Z"})
        backup.write_text(f"{header}\n{memories}")
        times += await timed(store, 1)
    return sorted(times)


def measure_backup(number: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        asyncio.run(fill(root, int(number)))
        print(json.dumps(asyncio.run(times_of_backups(root))))


async def measure_with_embedding() -> str:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        local = {"storage_root": root, "embedding_model": "local"}
        words = [f"Decision {i} about the billing service" for i in range(CALLS)]
        return spread(await timed(lambda i: MemoryStorage("bench", local).store(words[i])))


def main() -> None:
    os.environ["AGENT_MEMORY_QDRANT_URL"] = "local"
    rows: list[tuple[str, str, str]] = []
    asyncio.run(measure_size(1_000, rows, "p50 40 ms"))
    asyncio.run(measure_size(10_000, rows, "p50 80 ms"))
    embedded = asyncio.run(measure_with_embedding())
    rows.append(("V1: storage latency, 100 stores, built-in model included", "< 500 ms", embedded))
    rows.append((f"{TAKEN}, with a service", "< 50 MB", measure_memory_with_service()))
    rows.append((f"{TAKEN}, with the built-in model", "< 50 MB", measure_memory_with("local")))
    mounts = sorted(child("mount") for _ in range(5))
    rows.append(("mounting, after amplifier_core", "30 ms", f"{statistics.median(mounts):.0f} ms"))
    rows.append(
        ("4 processes, 50 stores and 50 searches each", "none over 1 s", measure_four_processes())
    )
    print("| what | target | measured |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    parts = {"mount": measure_mount, "memory": measure_memory, "worker": measure_worker}
    parts["backup"] = measure_backup
    parts[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else main()
