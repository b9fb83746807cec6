"""This project beside its alternatives as memories grow: `uv run benchmarks/run.py --parts growth`.

Each store runs in its own environment and process, all on the same memories: 300 characters,
vectors of 1536 dimensions, times spread over two years.
"""

import statistics
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stores import peers
from stores.peers import NOT_TRIED, Failed, Peer

Log = Callable[[str], None]


def measure(
    sizes: list[int],
    calls: int,
    runs: int,
    log: Log = print,
    fill_seconds: float = 300,
    part_seconds: float = 300,
) -> dict[str, Any]:
    """All figures of all stores at each of `sizes`, ready for JSON.

    A search or an add is timed `calls` times in one process, a first search in each of `runs`
    processes. A store that is not filled within `fill_seconds`, or whose searches or adds take
    more than `part_seconds`, is reported as such. Peers are left out above the size that they are
    made for (`Peer.largest`).

    `stores` in the result: by size (as text) and name, the figures of `_one_size`.
    """
    with peers.endpoint():
        ready: list[Peer] = []
        environments: dict[str, Any] = {}
        for peer in peers.PEERS:
            try:
                environments[peer.name] = {
                    "versions": peers.versions(peer),
                    "bare_memory_mb": peers.bare_memory(peer),
                }
                ready.append(peer)
            except Failed as error:
                environments[peer.name] = {"failed": str(error)}
                log(f"{peer.name}: {error}")
        results = {}
        for size in sizes:
            with tempfile.TemporaryDirectory() as root:
                wanted = [peer for peer in ready if peer.largest is None or size <= peer.largest]
                rows = _one_size(
                    Path(root), size, calls, runs, wanted, log, fill_seconds, part_seconds
                )
            for peer in ready:
                if peer not in wanted:
                    rows[peer.name] = {"failed": f"{NOT_TRIED} {peer.largest:,}"}
            for name, row in rows.items():
                bare = environments[name]["bare_memory_mb"]
                row["memory_mb"] = _less(row.pop("memory", None), bare)
            results[str(size)] = rows
    return {
        "calls": calls,
        "runs": runs,
        "dimensions": 1536,
        "characters": 300,
        "environments": environments,
        "stores": results,
    }


def _one_size(
    root: Path,
    size: int,
    calls: int,
    runs: int,
    wanted: list[Peer],
    log: Log,
    fill_seconds: float,
    part_seconds: float,
) -> dict[str, Any]:
    """The row of each store at one size.

    fill_seconds, disk_bytes (a memory); each a `_spread`: cold_ms (a new process until its first
    answer), lone_ms (a search after a pause), search_ms (in a loop), week_ms (only the last week,
    in a loop), lone_add_ms and add_ms (one durable memory), forget_ms (one memory); memory: after
    the searches. What is not there has its reason in `failed`.
    """
    now = datetime.now(UTC).isoformat()
    rows: dict[str, Any] = {}
    folders: dict[str, Path] = {}
    for number, peer in enumerate(wanted):
        folder = root / str(number)
        folder.mkdir()
        log(f"{size:,} memories: filling {peer.name}")
        try:
            filled = peers.run(peer, "fill", folder, size, now, seconds=fill_seconds)
            rows[peer.name] = {
                "fill_seconds": filled["seconds"],
                "disk_bytes": _disk_bytes(folder) / size,
            }
            folders[peer.name] = folder
        except Failed as error:
            rows[peer.name] = {"failed": f"fill: {error}"}
            log(f"  {error}")

    def each(part: str, work: Callable[[Peer, Path, dict[str, Any]], None]) -> None:
        for peer in wanted:
            if peer.name not in folders:
                continue
            try:
                work(peer, folders[peer.name], rows[peer.name])
            except Failed as error:
                del folders[peer.name]
                rows[peer.name]["failed"] = f"{part}: {error}"
                log(f"  {peer.name}: {part}: {error}")

    cold: dict[str, list[float]] = {}

    def one_cold(peer: Peer, folder: Path, row: dict[str, Any]) -> None:
        taken = peers.time_to_answer(peer, "cold", folder, size, seconds=part_seconds)
        cold.setdefault(peer.name, []).append(taken)
        row["cold_ms"] = _spread(cold[peer.name])

    def warm(peer: Peer, folder: Path, row: dict[str, Any]) -> None:
        result = peers.run(peer, "warm", folder, size, calls, seconds=part_seconds)
        for name in ("search", "lone", "week"):
            row[f"{name}_ms"] = _spread(result[name])
        row["memory"] = result["memory"]

    def add(peer: Peer, folder: Path, row: dict[str, Any]) -> None:
        result = peers.run(peer, "single", folder, size, calls, seconds=part_seconds)
        row |= {f"{name}_ms": _spread(times) for name, times in result.items()}

    # All stores in turn, again and again: what else the machine does hits none of them alone.
    for run in range(runs):
        log(f"{size:,} memories: first answers, round {run + 1} of {runs}")
        each("first answer", one_cold)
    log(f"{size:,} memories: searches")
    each("searches", warm)
    log(f"{size:,} memories: single memories added and forgotten")
    each("adds", add)
    return rows


def _disk_bytes(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def _spread(times: list[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "median": statistics.median(ordered),
        "p95": ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)],
        "min": ordered[0],
        "max": ordered[-1],
        "raw": [round(each, 3) for each in times],
    }


def _less(memory: dict[str, Any] | None, bare: dict[str, Any]) -> dict[str, Any] | None:
    """MB above the bare interpreter: all that is resident, and what is no page of a file."""
    if memory is None:
        return None
    return {key: memory[key] - bare[key] if memory[key] is not None else None for key in memory}
