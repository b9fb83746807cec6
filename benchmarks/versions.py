"""Two versions side by side, the other one a checkout with its `.venv`:

    uv run benchmarks/versions.py --base /path/to/other/checkout

Each version fills its own stores; then they take turns row by row, so that whatever else the
machine does affects both. Prints medians and ratios as a Markdown table; above 1, this checkout is
better.
"""

import argparse
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("versions_worker.py")
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

    def start(self, work: str, root: Path, model: str, *numbers: float) -> Worker:
        """Give this work to a process of this version."""
        arguments = [WORKER, work, root, model, *numbers]
        return Worker([str(self.python), *map(str, arguments)])

    def mounted(self) -> float:
        return Worker([str(self.python), "-c", MOUNT]).answer()


def one_round(
    version: Version, small: int, large: int, number: int, seconds: float
) -> Iterator[tuple[str, list[float]]]:
    """Each row of the table, with its unit at the end, and what was measured of it now. Between
    two rows nothing of this version runs: then it is the other's turn.
    """
    start = version.start
    for model, size in (("vectors", small), ("vectors", large), ("local", large)):
        root = version.folder / f"{model}-{size}"
        for name, found in start("calls", root, model, number, PAUSE_SECONDS).answer().items():
            yield f"{name}, {size:,}, {model}, ms", found
        began = time.time()
        [at] = start("first", root, model).answer()["at"]
        yield (
            f"first answer of a new process with the kernel, {size:,}, {model}, ms",
            [(at - began) * 1000],
        )
    root = version.folder / f"vectors-{large}"
    for name, found in start("calls", root, "vectors", 5 * number, 0).answer().items():
        yield f"{name} in a loop, {large:,}, ms", found
    watching = start("watch", root, "vectors")
    watching.wait_until_ready()
    watching.go()
    found, longest = start("forget", root, "vectors").answer(), watching.answer()
    yield f"forget one, {large:,}, ms", found["forget"]
    yield "longest search of another process meanwhile, ms", longest["longest"]
    root = version.folder / f"vectors-{small}"
    for name, found in start("at_once", root, "vectors", AT_ONCE).answer().items():
        yield f"{AT_ONCE} at once: {name}, {small:,}, ms", found
    with (root / "bench/qdrant.db/lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = start("waiting", root, "vectors", WAITING, LOCK_SECONDS).answer()["other"]
    yield f"search of one agent while {WAITING} calls wait for another's lock, ms", found
    with tempfile.TemporaryDirectory(dir=version.folder) as fresh:
        start("fill", Path(fresh), "vectors", small).answer()
        workers = [start("several", Path(fresh), "vectors", seconds) for _ in range(PROCESSES)]
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
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH"):  # both run as they are installed
        os.environ.pop(name, None)
    small, large, number, seconds = (100, 300, 3, 1) if options.quick else (1_000, 10_000, 10, 5)
    base = options.base.resolve() / ".venv/bin/python"
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"base": [], "this": []})
    with tempfile.TemporaryDirectory() as temporary:
        pythons = {"base": base, "this": Path(sys.executable)}
        versions = {name: Version(pythons[name], Path(temporary, name)) for name in pythons}
        for model, size in (("vectors", small), ("vectors", large), ("local", large)):
            for name, version in versions.items():
                root = version.folder / f"{model}-{size}"
                disk = version.start("fill", root, model, size).answer()["disk"]
                rows[f"disk a memory, {size:,}, {model}, kB"][name] += disk
        for turn in range(2 if options.quick else options.rounds):
            names = ("this", "base") if turn % 2 else ("base", "this")
            each = (one_round(versions[name], small, large, number, seconds) for name in names)
            for both in zip(*each, strict=True):
                for name, (row, found) in zip(names, both, strict=True):
                    rows[row][name] += found
                    print(f"{turn + 1}: {row}: {name}", file=sys.stderr)
    print("| what | base | this | times as good |\n|---|---|---|---|")
    for row, found in rows.items():
        base, this = (statistics.median(found[name]) for name in ("base", "this"))
        better = this / base if row.endswith("/s") else base / this
        print(f"| {row} | {base:.1f} | {this:.1f} | {better:.2f} |")


if __name__ == "__main__":
    main()
