"""The sections of the page about stores: as memories grow, and with several processes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tables import (
    NONE,
    OURS,
    Row,
    bullets,
    cell,
    is_ours,
    number,
    strong,
    table,
)

Results = dict[str, Any]

SHOWN = 10_000  # memories: the largest size that all stores are made for
LIMIT = "numpy float32"  # which nobody would use instead
ASKING = "agent-memory, endpoint"
# What does the same work as a variant of ours: these ask a service for their vectors, too.
LIKE = {"mem0": ASKING, "mcp-memory-service": ASKING}
FSYNC = "yes: fsync before the call returns"
SQLITE = "yes: fsync by SQLite"
STORES = {
    OURS: ("this project, vectors given", FSYNC),
    ASKING: ("the same, vectors from an embeddings service", FSYNC),
    "agent-memory, built-in model": ("the same, with its built-in model of 256 dimensions", FSYNC),
    LIMIT: (
        "two files and a dot product, nothing else: the physical limit",
        "yes: fsync of both files",
    ),
    "sqlite-vec": ("SQLite with exact search", "yes: fsync of the log (`synchronous=FULL`)"),
    "Chroma": ("SQLite, and an approximate index (HNSW)", "yes: fsync of SQLite's log"),
    "Qdrant local": (
        "Qdrant's client without a server: SQLite, all vectors in memory; one process only",
        SQLITE,
    ),
    "mcp-server-qdrant": (
        "the class behind that server's tools, on Qdrant local; MCP itself is not measured",
        SQLITE,
    ),
    "mcp-memory-service": (
        "the class behind that server's tools, on SQLite with sqlite-vec; vectors from an "
        "embeddings service",
        "**no**: `synchronous=NORMAL`; outlives the process, not always the power",
    ),
    "mem0": (
        "on Qdrant local, without a language model; vectors from an embeddings service",
        f"{SQLITE}, twice",
    ),
}


class Measure(NamedTuple):
    """What a row of a store holds under `key`, how tables and sentences call it, and its unit."""

    key: str
    part: str | None
    name: str
    unit: str

    def of(self, row: Row) -> float | None:
        """The figure in the row of a store; None if there is none."""
        value = row.get(self.key)
        value = value.get(self.part) if self.part and value else value
        return value / 1000 if self.unit == "kB" and value is not None else value


SEARCH = Measure("search_ms", "median", "search in a loop", "ms")
ADD = Measure("add_ms", "median", "store in a loop", "ms")
MEASURES = [
    Measure("cold_ms", "median", "first answer", "ms"),
    Measure("lone_ms", "median", "search alone", "ms"),
    SEARCH,
    Measure("week_ms", "median", "last week only", "ms"),
    Measure("lone_add_ms", "median", "store alone", "ms"),
    ADD,
    Measure("forget_ms", "median", "forget one", "ms"),
    Measure("memory_mb", "rss", "memory", "MB"),
    Measure("disk_bytes", None, "disk for each", "kB"),
]


def shown_size(growth: Results) -> str | None:
    """The size of README's table: the largest up to SHOWN at which ours has figures."""
    sizes = [size for size, rows in growth["stores"].items() if SEARCH.of(rows.get(OURS, {}))]
    return max((size for size in sizes if int(size) <= SHOWN), key=int, default=None)


def rate(row: Row) -> float | None:
    """Calls a second as a number that is lower if there are more."""
    return -row["calls_per_second"] if "calls_per_second" in row else None


def most_processes(several: Results | None) -> tuple[str, dict[str, Row]]:
    """The largest number of processes, and its rows."""
    return list(several["processes"].items())[-1] if several else ("", {})


def less(rows: dict[str, Row], of: Callable[[Row], float | None]) -> Iterator[tuple[str, float]]:
    """Who has less than ours, or than the variant of ours that does the same work."""
    ours = {name: of(row) for name, row in rows.items() if is_ours(name)}
    if (least := ours.get(OURS)) is None:
        return
    for name, row in rows.items():
        like, value = ours.get(LIKE.get(name, OURS)), of(row)
        if not is_ours(name) and value is not None and value < max(least, like or least):
            yield name, value


def grown(growth: Results) -> str:
    """As Markdown, of what `growth.measure` found."""
    names = list(dict.fromkeys(name for rows in growth["stores"].values() for name in rows))
    versions = {
        name: ", ".join(f"{package} {each}" for package, each in found.get("versions", {}).items())
        for name, found in growth["environments"].items()
    }
    return "\n\n".join(
        [
            f"All hold the same memories: {growth['characters']} characters, vectors of "
            f"{growth['dimensions']:,} dimensions that cost next to nothing, times spread over two "
            "years. Each store runs in its own environment and process.",
            table(
                ["store", "what it is", "a memory is on disk when `add` returns", "version"],
                ([strong(n), *STORES.get(n, ("", "")), versions.get(n, "")] for n in names),
                words=True,
            ),
            f"Below, medians with the 95th percentile in brackets: of {growth['calls']} calls in a "
            "loop, of fewer that come alone, after a pause in which ours closes its store, and of "
            f"{growth['runs']} first answers, each of a new process with all that it imports. To "
            "forget one is to remove it so that no search finds it; ours also erases it from the "
            "disk. Memory is what the process has more than a bare Python after its searches; "
            "`own` is the part that is no page of a file, which the system cannot take back. Found "
            "is the share of the exactly nearest memories, each by its own rule of ranking; the "
            "second is that of the last week.",
            *(
                f"### Among {int(size):,} memories\n\n{_sized(rows)}"
                for size, rows in growth["stores"].items()
            ),
        ]
    )


def _sized(rows: dict[str, Row]) -> str:
    lines = []
    for name, row in rows.items():
        if "disk_bytes" not in row:
            continue
        cells = [strong(name)]
        for each in MEASURES:
            late = each._replace(part="p95").of(row) if each.part == "median" else None
            cells.append(number(each.of(row)) + (f" ({number(late)})" if late else ""))
        cells += [number((row.get("memory_mb") or {}).get("anon")), number(row["fill_seconds"])]
        lines.append(cells + [_share(row.get(key)) for key in ("found", "found_week")])
    heads = [f"{each.name}, {each.unit}" for each in MEASURES]
    return table(["store", *heads, "own, MB", "fill, s", "found", "found, week"], lines)


def together(several: Results) -> str:
    """As Markdown, of what `several.measure` found."""
    processes = several["processes"]
    last, final = most_processes(several)
    lines = []
    for name in final:
        rates = (rows.get(name, {}).get("calls_per_second") for rows in processes.values())
        row, cells = final[name], [strong(name), *map(number, rates)]
        for spread in (row.get("add_ms"), row.get("search_ms")):
            most = f"{number(spread['median'])} (most {number(spread['max'])})" if spread else NONE
            cells.append(most)
        failed = sum(row["failures"].values()) if "failures" in row else None
        lines.append(
            cells + [number(each) for each in (failed, row.get("lost"), row.get("missed"))]
        )
    notes = [
        f"{name}, processes: {count}: {cell(note)}"
        for count, rows in processes.items()
        for name, row in rows.items()
        for note in _troubles(row)
    ]
    heads = [f"calls/s, processes: {count}" for count in processes]
    return "\n\n".join(
        [
            f"Each process adds a memory, asks for it, and so on for {several['seconds']} s, on a "
            f"store of {several['memories_before']:,} memories. Calls that returned, of all "
            f"processes together; then, with {last}, the median and the longest milliseconds, "
            "calls that failed, memories whose adding had returned and that a fresh process does "
            "not find, and searches that did not find what the same process had just added.",
            table(["store", *heads, "add ms", "search ms", "failed", "lost", "missed"], lines),
            *([f"What went wrong:\n\n{bullets(notes)}"] if notes else []),
        ]
    )


def _troubles(row: Row) -> Iterable[str]:
    if "failed" in row:
        return [row["failed"]]
    found = [f"{count:,} x {what}" for what, count in row["failures"].items()]
    found += [f"{row['lost']:,} memories lost"] if row["lost"] else []
    found += [f"{row['missed']:,} searches missed what was added"] if row["missed"] else []
    return found + row["ended_badly"]


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"
