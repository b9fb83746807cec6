"""This project beside its alternatives: as memories grow, and with several processes.

Each store runs in its own environment and process, all in turn on the same memories: 300
characters, vectors of 1536 dimensions, times spread over two years.
"""

import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from page import NONE, OURS, Log, Options, Row, bullets, cell, number, strong, table
from stores import workload
from stores.peers import NOT_TRIED, PEERS, SERVER, Failed, Peer, Runs, about, endpoint

SHOWN = 10_000  # memories: up to here all stores are measured
FILLED, SECONDS = 1_000, 5  # memories before several processes begin, and how long they go on


class Measure(NamedTuple):
    """What a row of a store holds under `key`, and how tables call it."""

    key: str
    name: str
    unit: str = "ms"

    def of(self, row: Row) -> float | None:
        """The figure in the row of a store; None if there is none."""
        value = row.get(self.key)
        return value["median"] if isinstance(value, dict) else value


MEASURES = [
    Measure("cold_ms", "first answer"),
    Measure("lone_ms", "search alone"),
    Measure("search_ms", "search in a loop"),
    Measure("lone_add_ms", "store alone"),
    Measure("add_ms", "store in a loop"),
    Measure("forget_ms", "forget one"),
    Measure("fill_seconds", "import", "s"),
    Measure("memory_mb", "memory", "MB"),
    Measure("disk_mb", "disk", "MB"),
]
ALONE = [each for each in MEASURES if each.key in ("lone_ms", "lone_add_ms", "forget_ms")]


@contextmanager
def services(options: Options) -> Iterator[list[Peer]]:
    """The peers, with what some of them ask; with `--qdrant`, ours on a real server, too."""
    with endpoint(), tempfile.TemporaryDirectory() as folder:
        if not options.qdrant:
            yield PEERS
            return
        sys.path.append(str(Path(__file__).parent.parent / "tests/server"))
        from qdrant_node import QdrantNode

        with QdrantNode(options.qdrant, Path(folder) / "node") as node:
            os.environ["BENCHMARK_QDRANT"] = node.url
            yield [*PEERS[:3], SERVER, *PEERS[3:]]


def measure(options: Options, log: Log) -> Row:
    """All figures of all stores at each size, ready for JSON: `stores` by size (as text) and name,
    `environments` by name. A store that fails, or takes far longer than ours, is reported as such.
    """
    sizes = options.sizes or ([100, 1_000] if options.quick else [100, 1_000, 10_000, 100_000])
    calls, runs = (5, 1) if options.quick else (100, 7)
    with services(options) as peers:
        environments, stores = dict[str, Row](), dict[str, Any]()
        for peer in peers:
            try:
                environments[peer.name] = about(peer) | {"about": peer.about}
            except Failed as error:
                environments[peer.name] = {"failed": str(error)}
        ready = [peer for peer in peers if "failed" not in environments[peer.name]]
        for size in sizes:
            rows = stores[str(size)] = {
                peer.name: {} if size <= peer.largest else {"failed": f"{NOT_TRIED} {peer.largest}"}
                for peer in ready
            }
            with tempfile.TemporaryDirectory() as root:
                _one_size(Path(root), size, calls, runs, ready, rows, log)
            for name, row in rows.items():
                if "memory_mb" in row:
                    row["memory_mb"] -= environments[name]["bare_memory_mb"]
    return {"calls": calls, "runs": runs, "environments": environments, "stores": stores}


def _one_size(
    root: Path, size: int, calls: int, runs: int, peers: list[Peer], rows: dict[str, Row], log: Log
) -> None:
    """Fill the row of each store at one size: see MEASURES; what is not there has its reason in
    `failed`. All stores in turn, again and again: what else the machine does hits none alone.
    """
    processes, now = Runs(), datetime.now(UTC).isoformat()

    def step(what: str, work: Callable[[Peer, Row, Path], None]) -> None:
        log(f"{size:,} memories: {what}")
        for place, peer in enumerate(peers):
            row, folder = rows[peer.name], root / f"store-{size}-{place}"
            if "failed" not in row:
                folder.mkdir(exist_ok=True)
                try:
                    work(peer, row, folder)
                except Failed as error:
                    row["failed"] = f"{what}: {error}"
                    log(f"  {peer.name}: {error}")

    def fill(peer: Peer, row: Row, folder: Path) -> None:
        row["fill_seconds"], _ = processes.run(peer, "fill", folder, size, now)
        used = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
        row["disk_mb"] = used / 1e6 if peer is not SERVER else None

    def cold(peer: Peer, row: Row, folder: Path) -> None:
        _, seconds = processes.run(peer, "cold", folder, size)
        row.setdefault("cold_ms", []).append(seconds * 1000)

    def warm(peer: Peer, row: Row, folder: Path) -> None:
        found, _ = processes.run(peer, "warm", folder, size, calls)
        row |= {f"{name}_ms": spread(found[name]) for name in ("search", "lone")}
        row["memory_mb"], row["cold_ms"] = found["memory"], spread(row["cold_ms"])

    def single(peer: Peer, row: Row, folder: Path) -> None:
        found, _ = processes.run(peer, "single", folder, size, calls)
        row |= {f"{name}_ms": spread(times) for name, times in found.items()}

    step("import", fill)
    for run in range(runs):
        step(f"first answer, round {run + 1} of {runs}", cold)
    step("searches", warm)
    step("stores and forgets", single)


def spread(times: list[float]) -> Row:
    """The median, the 95th percentile and the ends, ready for JSON."""
    ordered = sorted(times)
    p95 = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    ends = {"min": round(ordered[0], 3), "max": round(ordered[-1], 3)}
    return {"median": round(statistics.median(ordered), 3), "p95": round(p95, 3), **ends}


def measure_together(options: Options, log: Log) -> Row:
    """What several processes do to one store: the rows of `_together` by their number and store."""
    counts, seconds = ([1, 2], 1) if options.quick else ([1, 8], SECONDS)
    filled, found = 50 if options.quick else FILLED, dict[str, Any]()
    with services(options) as peers:
        for count in counts:
            rows, processes = found.setdefault(str(count), {}), Runs()
            for peer in peers:
                log(f"{count} processes, {peer.name}")
                try:
                    rows[peer.name] = _together(processes, peer, count, seconds, filled)
                except Failed as error:
                    rows[peer.name] = {"failed": str(error)}
    return {"seconds": seconds, "memories_before": filled, "processes": found}


def _together(processes: Runs, peer: Peer, count: int, seconds: int, filled: int) -> Row:
    """calls_per_second: adds and searches that returned, of all processes; add_ms and search_ms;
    failures: how often each; lost: memories that were there before or whose adding returned, and
    which a fresh process does not find; missed: searches that did not find what the same process
    had just added; ended_badly: what else went wrong, in words.
    """
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, f"together-{count}")
        folder.mkdir()
        processes.run(peer, "fill", folder, filled, datetime.now(UTC).isoformat())
        printed = processes.lines(peer, count, "together", folder, seconds)
        bad = [failed for _, failed, _ in printed if failed]
        reports = [json.loads(lines.splitlines()[1]) for lines, failed, _ in printed if not failed]
        kept, _ = processes.run(peer, "texts", folder)
    expected = {text for report in reports for text in report["acknowledged"]}
    expected |= {workload.text(each) for each in range(filled)}
    times = {kind: [t for report in reports for t in report[kind]] for kind in ("add", "search")}
    rates = [(len(each["add"]) + len(each["search"])) / each["seconds"] for each in reports]
    return {
        "calls_per_second": sum(rates),
        **{f"{kind}_ms": spread(each) if each else None for kind, each in times.items()},
        "failures": dict(sum((Counter(report["failures"]) for report in reports), Counter())),
        "lost": len(expected - set(kept)),
        "missed": sum(report["missed"] for report in reports),
        "ended_badly": bad,
    }


def better(rows: dict[str, Row], measure: Measure) -> list[str]:
    """Who has less than ours."""
    least = measure.of(rows.get(OURS, {}))
    return [
        name
        for name, row in rows.items()
        if not name.startswith(OURS) and (value := measure.of(row)) and least and value < least
    ]


def blocks(found: Row) -> dict[str, str]:
    """A table for each size, what the stores are, and who has no figures and why."""
    shown = dict[str, str]()
    for size, rows in found["stores"].items():
        heads = [each.name + ("" if each.unit == "ms" else f", {each.unit}") for each in MEASURES]
        lines = _best({name: [m.of(row) for m in MEASURES] for name, row in rows.items()}, min)
        shown[size] = f"{int(size):,} memories:\n\n{table(['', *heads], lines)}"
    known = found["environments"].items()
    lines = [[strong(name), each.get("about", ""), each.get("with", NONE)] for name, each in known]
    missing = dict[str, list[str]]()
    for name, each in known:
        if "failed" in each:
            missing.setdefault(each["failed"], []).append(name)
    for size, rows in found["stores"].items():
        for name, row in rows.items():
            if "failed" in row:
                missing.setdefault(f"{int(size):,} memories: {row['failed']}", []).append(name)
    reasons = bullets(f"{', '.join(names)}: {cell(reason)}" for reason, names in missing.items())
    stores = table(["", "what it is", "with"], lines, words=True)
    small = [size for size in shown if int(size) <= SHOWN]
    main = shown.pop(max(small or shown, key=int))
    more = [stores, *shown.values(), *([f"Without figures:\n\n{reasons}"] if reasons else [])]
    return {"speed": main, "speed stores": "\n\n".join(more)}


def _best(rows: dict[str, list[float | None]], best: Callable[..., float]) -> list[list[str]]:
    """Lines of a table, with the best figure of each column in bold."""
    columns = [[v for v in values if v is not None] for values in zip(*rows.values(), strict=True)]
    return [
        [strong(name)]
        + [
            f"**{number(v)}**" if v is not None and v == best(column) else number(v)
            for v, column in zip(values, columns, strict=True)
        ]
        for name, values in rows.items()
        if any(value is not None for value in values)
    ]


def blocks_together(found: Row) -> dict[str, str]:
    """A table, and what failed, was lost and was missed."""
    *_, last = found["processes"]
    final, counts = found["processes"][last], found["processes"].values()
    lines = []
    for name, row in final.items():
        rates = [rows.get(name, {}).get("calls_per_second") for rows in counts]
        longest = [(row.get(key) or {}).get("max") for key in ("add_ms", "search_ms")]
        lines.append([strong(name), *map(number, rates + longest)])
    heads = [f"calls/s of {count}" for count in found["processes"]]
    notes: dict[str, list[str]] = {}
    for name, row in final.items():
        for note in _troubles(row):
            notes.setdefault(cell(note), []).append(name)
    wrong = bullets(f"{', '.join(names)}: {note}" for note, names in notes.items())
    text = table(["", *heads, "longest add, ms", "longest search, ms"], lines)
    return {"together": f"{text}\n\n{wrong or 'Nothing failed, was lost or was missed.'}"}


def _troubles(row: Row) -> Iterable[str]:
    if "failed" in row:
        return [row["failed"]]
    found = [f"{count:,} x {what.split('. ')[0]}" for what, count in row["failures"].items()]
    found += [f"{row['lost']:,} memories lost"] if row["lost"] else []
    found += [f"{row['missed']:,} searches missed what was added"] if row["missed"] else []
    return found + row["ended_badly"]


def ours_failed(found: Row) -> list[str]:
    """Stores of ours without figures; that another's has none is a result."""
    groups = found.get("stores") or found.get("processes") or {}
    return [
        name
        for rows in groups.values()
        for name, row in rows.items()
        if name.startswith(OURS) and not row.get("failed", NOT_TRIED).startswith(NOT_TRIED)
    ]
