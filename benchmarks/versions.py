"""Two versions side by side, the other one a checkout with its `.venv`:

    uv run benchmarks/versions.py --base /path/to/other/checkout

Each version fills stores of its own; then they take turns, so that whatever else the machine does
meets both. Prints medians and ratios as a Markdown table. This file is its own worker, run by the
interpreter of each version: what is measured uses only what the package makes public.
"""

import argparse
import asyncio
import fcntl
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import v1
from memory_semantic import Memory, MemoryStorage, StorageError

HERE = Path(__file__).parent
BATCH = 500
# A call is a single one so long after the last: nothing is left of what served that.
PAUSE_SECONDS = 0.4
AT_ONCE = 30
PROCESSES = 8
WAITING = 16
# How long those wait whose store is locked by another process.
LOCK_SECONDS = 3.0

# What a session pays before its first turn, in milliseconds. (amplifier-core 2.0.2 crashes if the
# process exits right after a call to it.)
MOUNT = """
import asyncio, time
from amplifier_core.testing import MockCoordinator
started = time.perf_counter()
from amplifier_module_tool_memory_semantic import mount
asyncio.run(mount(MockCoordinator(), {}))
print((time.perf_counter() - started) * 1000)
time.sleep(0.1)
"""

Values = dict[str, list[float]]


def storage(root: str, model: str, agent: str = "bench", **settings: Any) -> MemoryStorage:
    """Storage with the model `local`, or with `vectors` that cost next to nothing."""
    settings |= {"storage_root": root, "qdrant_url": "local"}
    if model == "vectors":
        return MemoryStorage(agent, settings, embeddings=v1.Vectors(dimensions=v1.DIMENSIONS))
    return MemoryStorage(agent, settings | {"embedding_model": model})


def texts(number: int, name: str = "") -> list[str]:
    """So many texts, each of its own, of words as often as notes have them."""
    name = name or f"{os.getpid()} {time.monotonic_ns()}"
    lines = (HERE / "recall/memories.jsonl").read_text().splitlines()
    words = [word for line in lines for word in json.loads(line)["content"].split()]
    source = random.Random(name)
    return [f"{name} {i}: {' '.join(source.choices(words, k=40))}" for i in range(number)]


async def milliseconds(call: Awaitable[Any]) -> float:
    started = time.perf_counter()
    await call
    return (time.perf_counter() - started) * 1000


# The work of a worker: each in a process of its own, which prints the answer as JSON.


async def fill(root: str, model: str, number: int) -> Values:
    now, apart = datetime.now(UTC), timedelta(days=730) / number
    memories = [
        Memory(agent_id="bench", content=text, timestamp=now - (number - i) * apart)
        for i, text in enumerate(texts(number, "filled"))
    ]
    for start in range(0, number, BATCH):
        await storage(root, model).restore(memories[start : start + BATCH])
    return {"disk": [v1.disk_bytes(root) / number / 1000]}


async def calls(root: str, model: str, number: int, pause: float) -> Values:
    """Searches, then stores, with a pause before each."""
    memory = storage(root, model)
    await memory.search("warm")  # which loads the engine and the model
    values: Values = defaultdict(list)
    for name, call in (("search", memory.search), ("store", memory.store)):
        for text in texts(number):
            await asyncio.sleep(pause)
            values[name].append(await milliseconds(call(text)))
    return values


async def first(root: str, model: str) -> Values:
    """When the first answer was there, by the clock of the machine."""
    await storage(root, model).search("the first question of a session")
    return {"at": [time.time()]}


async def at_once(root: str, model: str) -> Values:
    memory = storage(root, model)
    await memory.search("warm")
    values: Values = {}
    for name, call in (("search", memory.search), ("store", memory.store)):
        together = asyncio.gather(*(call(text) for text in texts(AT_ONCE)))
        values[name] = [await milliseconds(together)]
    return values


async def several(root: str, model: str, seconds: float) -> Values:
    """One of several processes: how many calls a second it makes."""
    memory = storage(root, model)
    prepared = texts(10_000)
    ready()
    started, done = time.monotonic(), 0
    while time.monotonic() < started + seconds:
        await memory.store(prepared[done])
        await memory.search(prepared[-done])
        done += 2
    return {"rate": [done / (time.monotonic() - started)]}


async def watch(root: str, model: str) -> Values:
    """The longest search until there is no more input."""
    memory = storage(root, model)
    await memory.search("warm")
    ready()
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    longest = 0.0
    while not over.done():
        longest = max(longest, await milliseconds(memory.search("watched")))
        await asyncio.sleep(0.05)
    return {"longest": [longest]}


async def forget(root: str, model: str) -> Values:
    memory = storage(root, model)
    [newest] = await memory.get_recent(1)
    return {"forget": [await milliseconds(memory.delete([newest.id]))]}


async def waiting(root: str, model: str) -> Values:
    """How long another agent waits while calls of this process wait for a store that is locked."""
    other = storage(root, model, "other")
    await other.store("warm")
    locked = storage(root, model, lock_timeout=LOCK_SECONDS)
    tasks = [asyncio.create_task(locked.search(text)) for text in texts(WAITING)]
    await asyncio.sleep(0.2)
    waited = await milliseconds(other.search("waiting"))
    for task in tasks:
        with suppress(StorageError):
            await task
    return {"other": [waited]}


def ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


# Who gives it to them.


class Worker:
    """A process of one of the versions."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._input, self._output = self._process.stdin, self._process.stdout

    def wait_until_ready(self) -> None:
        assert self._output and self._output.readline() == "ready\n"

    def go(self) -> None:
        assert self._input
        self._input.write("\n")
        self._input.flush()

    def answer(self) -> Any:
        """What it printed at its end."""
        output, _ = self._process.communicate(timeout=900)
        if self._process.returncode:
            sys.exit("A worker failed; its words are above.")
        return json.loads(output)


@dataclass
class Version:
    python: Path
    folder: Path

    def start(self, work: Callable[..., Any], root: Path, model: str, *numbers: float) -> Worker:
        """Give this work to a process of this version."""
        arguments = [__file__, work.__name__, root, model, *numbers]
        return Worker([str(self.python), *map(str, arguments)])

    def mounted(self) -> float:
        return Worker([str(self.python), "-c", MOUNT]).answer()


def one_round(
    version: Version, small: int, large: int, number: int, seconds: float
) -> Iterator[tuple[str, list[float]]]:
    """Each row of the table, with its unit at the end, and what was measured of it now."""
    start = version.start
    for model, size in (("vectors", small), ("vectors", large), ("local", large)):
        root = version.folder / f"{model}-{size}"
        for name, found in start(calls, root, model, number, PAUSE_SECONDS).answer().items():
            yield f"{name}, {size:,}, {model}, ms", found
        began = time.time()
        [at] = start(first, root, model).answer()["at"]
        yield f"first answer of a new process, {size:,}, {model}, ms", [(at - began) * 1000]
    root = version.folder / f"vectors-{large}"
    for name, found in start(calls, root, "vectors", 5 * number, 0).answer().items():
        yield f"{name} in a loop, {large:,}, ms", found
    watching = start(watch, root, "vectors")
    watching.wait_until_ready()
    watching.go()
    yield f"forget one, {large:,}, ms", start(forget, root, "vectors").answer()["forget"]
    yield "longest search of another process meanwhile, ms", watching.answer()["longest"]
    root = version.folder / f"vectors-{small}"
    for name, found in start(at_once, root, "vectors").answer().items():
        yield f"{AT_ONCE} at once: {name}, {small:,}, ms", found
    with (root / "bench/qdrant.db/lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = start(waiting, root, "vectors").answer()["other"]
    yield f"search of one agent while {WAITING} calls wait for another's lock, ms", found
    with tempfile.TemporaryDirectory(dir=version.folder) as fresh:
        start(fill, Path(fresh), "vectors", small).answer()
        workers = [start(several, Path(fresh), "vectors", seconds) for _ in range(PROCESSES)]
        for worker in workers:
            worker.wait_until_ready()
        for worker in workers:
            worker.go()
        rates = [worker.answer()["rate"][0] for worker in workers]
    yield f"{PROCESSES} processes, {small:,}, calls/s", [sum(rates)]
    yield "mounting, ms", [version.mounted()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare another checkout with this one.")
    parser.add_argument("--base", type=Path, required=True, help="the other, with its .venv")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small stores, two rounds")
    options = parser.parse_args()
    small, large, number, seconds = (100, 300, 3, 1) if options.quick else (1_000, 10_000, 10, 5)
    base = options.base.resolve() / ".venv/bin/python"
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"base": [], "this": []})
    with tempfile.TemporaryDirectory() as temporary:
        pythons = {"base": base, "this": Path(sys.executable)}
        versions = {name: Version(pythons[name], Path(temporary, name)) for name in pythons}
        for model, size in (("vectors", small), ("vectors", large), ("local", large)):
            for name, version in versions.items():
                root = version.folder / f"{model}-{size}"
                disk = version.start(fill, root, model, size).answer()["disk"]
                rows[f"disk a memory, {size:,}, {model}, kB"][name] += disk
        for turn in range(2 if options.quick else options.rounds):
            for name in ("this", "base") if turn % 2 else ("base", "this"):
                for row, found in one_round(versions[name], small, large, number, seconds):
                    print(f"{turn + 1} {name}: {row}", file=sys.stderr)
                    rows[row][name] += found
    print("| what | base | this | times as good |\n|---|---|---|---|")
    for row, found in rows.items():
        base, this = (statistics.median(found[name]) for name in ("base", "this"))
        better = this / base if row.endswith("/s") else base / this
        print(f"| {row} | {base:.1f} | {this:.1f} | {better:.2f} |")


WORKS = {work.__name__: work for work in (fill, calls, first, at_once, several)}
WORKS |= {work.__name__: work for work in (watch, forget, waiting)}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKS:
        _, name, root, model, *numbers = sys.argv
        print(json.dumps(asyncio.run(WORKS[name](root, model, *map(json.loads, numbers)))))
    else:
        main()
