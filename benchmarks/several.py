"""Several processes on one store: `uv run benchmarks/run.py --parts several`.

This project and its alternatives, each in its own environment. Each process adds a memory, asks for
it, and repeats this.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stores import peers, worker
from stores.peers import Failed, Peer

Log = Callable[[str], None]

FILLED = 1_000
# How long a process may take to import and open its store, and to end after its time is over.
START_SECONDS = 120.0
END_SECONDS = 60.0


def measure(processes: list[int], seconds: float, log: Log = print) -> dict[str, Any]:
    """For each number of processes and each store, the figures of `_together`, ready for JSON."""
    results: dict[str, Any] = {}
    with peers.endpoint():
        for number in processes:
            rows = results[str(number)] = {}
            for peer in peers.PEERS:
                log(f"processes: {number}, {peer.name}")
                try:
                    rows[peer.name] = _together(peer, number, seconds)
                except Failed as error:
                    rows[peer.name] = {"failed": str(error)}
                    log(f"  {error}")
    return {"seconds": seconds, "memories_before": FILLED, "processes": results}


def _together(peer: Peer, number: int, seconds: float) -> dict[str, Any]:
    """What `number` processes do to one store.

    calls_per_second: adds and searches that returned, of all processes; calls: of each; add_ms and
    search_ms: median and max; failures: how often each; lost: memories that were there before or
    whose adding returned, and which a fresh process does not find; missed: searches that did not
    find what the same process had just added; ended_badly: what else went wrong, in words.
    """
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "store")
        folder.mkdir()
        now = datetime.now(UTC).isoformat()
        peers.run(peer, "fill", folder, FILLED, now, seconds=300)
        reports, ended_badly = _reports(peer, number, folder, Path(root), seconds)
        lost, after = _lost(peer, folder, reports)
    calls = [len(report["add"]) + len(report["search"]) for report in reports]
    rates = [each / report["seconds"] for each, report in zip(calls, reports, strict=True)]
    return {
        "calls_per_second": sum(rates),
        "calls": calls,
        "add_ms": _spread([each for report in reports for each in report["add"]]),
        "search_ms": _spread([each for report in reports for each in report["search"]]),
        "failures": dict(sum((Counter(report["failures"]) for report in reports), Counter())),
        "lost": lost,
        "missed": sum(report["missed"] for report in reports),
        "ended_badly": ended_badly + ([after] if after else []),
    }


def _reports(
    peer: Peer, number: int, folder: Path, root: Path, seconds: float
) -> tuple[list[dict[str, Any]], list[str]]:
    """The reports of the processes, and why others gave none."""
    start = root / "start"
    outputs = [root / f"output-{seed}" for seed in range(number)]
    errors = [root / f"errors-{seed}" for seed in range(number)]
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for seed in range(number):
            command = peers.command(peer, "several", folder, seconds, seed, start)
            with outputs[seed].open("w") as output, errors[seed].open("w") as error:
                workers.append(subprocess.Popen(command, stdout=output, stderr=error))
        latest = time.monotonic() + START_SECONDS
        while time.monotonic() < latest and any(
            process.poll() is None and not output.stat().st_size
            for process, output in zip(workers, outputs, strict=True)
        ):
            time.sleep(0.01)
        start.touch()  # all are ready now, or never
        latest = time.monotonic() + seconds + END_SECONDS
        for process in workers:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0, latest - time.monotonic()))
        codes = [process.poll() for process in workers]
    finally:
        for process in workers:
            process.kill()
            process.wait()
    reports, bad = [], []
    for code, output, error in zip(codes, outputs, errors, strict=True):
        lines = output.read_text().splitlines()
        if len(lines) == 2:  # that it is ready, and its report
            reports.append(json.loads(lines[1]))
        if code is None:
            bad.append(f"did not end within {END_SECONDS:.0f} s after its time")
        elif code:
            bad.append(f"exit code {code}: {peers.last_line(error.read_text())}")
    return reports, bad


def _lost(peer: Peer, folder: Path, reports: list[dict[str, Any]]) -> tuple[int | None, str | None]:
    """How many memories a fresh process does not find; or why it cannot tell."""
    try:
        kept = set(peers.run(peer, "texts", folder, seconds=120))
    except Failed as error:
        return None, f"unreadable afterwards: {error}"
    expected = {text for report in reports for text in report["acknowledged"]}
    expected |= {worker.text(each) for each in range(FILLED)}
    return len(expected - kept), None


def _spread(times: list[float]) -> dict[str, float] | None:
    return {"median": statistics.median(times), "max": max(times)} if times else None
