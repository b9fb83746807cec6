"""The sections of the page about stores: as memories grow, and with several processes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tables import OURS, Row, bullets, cell, is_ours, number, strong, table

Results = dict[str, Any]

SHOWN = 10_000  # memories: the largest size that all stores are made for
ASKING = "agent-memory, endpoint"
# What does the same work as a variant of ours: these ask a service for their vectors, too.
LIKE = {"mem0": ASKING, "mcp-memory-service": ASKING}
STORES = {
    OURS: "this project, vectors given",
    ASKING: "the same, asks a service for embeddings",
    "agent-memory, built-in model": "the same, built-in model (before 3.0.0a9 word vectors alone)",
    "sqlite-vec": "SQLite with exact search",
    "Chroma": "SQLite, and an approximate index (HNSW)",
    "Qdrant local": "Qdrant's client without a server, for one process only",
    "mcp-server-qdrant": "the class behind that server's tools, on Qdrant local",
    "mcp-memory-service": "the class behind that server's tools, on sqlite-vec, asks a service",
    "mem0": "on Qdrant local, without a language model, asks a service",
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
MEMORY = Measure("memory_mb", "rss", "memory", "MB")
DISK = Measure("disk_bytes", None, "disk for each", "kB")
MEASURES = [
    Measure("cold_ms", "median", "first answer", "ms"),
    Measure("lone_ms", "median", "search alone", "ms"),
    SEARCH,
    Measure("week_ms", "median", "last week only", "ms"),
    Measure("lone_add_ms", "median", "store alone", "ms"),
    ADD,
    Measure("forget_ms", "median", "forget one", "ms"),
    MEMORY,
    DISK,
]
GROWING = ("lone_ms", "lone_add_ms", "forget_ms", "memory_mb")  # shown at every size
HEADS = [each.name + (f", {each.unit}" if each.unit != "ms" else "") for each in MEASURES]


def shown_size(growth: Results | None) -> str | None:
    """The size of README's table: the largest up to SHOWN at which ours has figures."""
    stores = growth["stores"] if growth else {}
    sizes = [size for size, rows in stores.items() if SEARCH.of(rows.get(OURS, {}))]
    return max((size for size in sizes if int(size) <= SHOWN), key=int, default=None)


def cells_of(rows: dict[str, Row]) -> Iterator[list[str]]:
    """The name of each store and its figures."""
    for name, row in rows.items():
        yield [strong(name), *(number(each.of(row)) for each in MEASURES)]


def rate(row: Row) -> float | None:
    """Calls a second as a number that is lower if there are more."""
    return -row["calls_per_second"] if "calls_per_second" in row else None


def most_processes(several: Results | None) -> tuple[str, dict[str, Row]]:
    """The largest number of processes, and its rows."""
    return list(several["processes"].items())[-1] if several else ("", {})


def less(rows: dict[str, Row], of: Callable[[Row], float | None]) -> Iterator[str]:
    """Who has less than ours, or than the variant of ours that does the same work."""
    ours = {name: of(row) for name, row in rows.items() if is_ours(name)}
    if (least := ours.get(OURS)) is None:
        return
    for name, row in rows.items():
        like, value = ours.get(LIKE.get(name, OURS)), of(row)
        if not is_ours(name) and value is not None and value < max(least, like or least):
            yield name


def grown(growth: Results) -> str:
    """As Markdown, of what `growth.measure` found: what the stores are, and how they grow."""
    sizes = growth["stores"]
    names = list(dict.fromkeys(name for rows in sizes.values() for name in rows))
    engines = {
        name: [
            f"{package} {each}"
            for package, each in found.get("versions", {}).items()
            if package not in ("python", "amplifier-module-tool-memory-semantic")
        ]
        for name, found in growth["environments"].items()
    }
    shown = [each for each in MEASURES if each.key in GROWING]
    lines = (
        [strong(name), STORES.get(name, ""), *engines.get(name, [""])[:1]]
        + [_through(sizes.values(), name, each) for each in shown]
        for name in names
    )
    return "\n\n".join(
        [
            f"Among {', then '.join(f'{int(size):,}' for size in sizes)} memories of "
            f"{growth['characters']} characters, the same for all and spread over two years; "
            f"medians of {growth['calls']} calls in a loop, of fewer that come alone, and of "
            f"{growth['runs']} first answers, each of a new process. To forget one is to remove it "
            "so that no search finds it; ours also leaves it in no file. Memory is what a "
            "process has more than a bare Python. What a call stored is on the disk when it "
            "returns, but with mcp-memory-service (`synchronous=NORMAL`) a loss of power can come "
            "first.",
            table(
                ["", "what it is", "with", *(f"{each.name}, {each.unit}" for each in shown)],
                lines,
                words=True,
            ),
        ]
    )


def _through(sizes: Iterable[dict[str, Row]], name: str, measure: Measure) -> str:
    """The figures of a store at all sizes."""
    return "; ".join(number(measure.of(rows.get(name, {}))) for rows in sizes)


def together(several: Results) -> str:
    """As Markdown, of what `several.measure` found."""
    processes = several["processes"]
    last, final = most_processes(several)
    lines = []
    for name, row in final.items():
        rates = [rows.get(name, {}).get("calls_per_second") for rows in processes.values()]
        longest = [(row.get(key) or {}).get("max") for key in ("add_ms", "search_ms")]
        lines.append([strong(name), *map(number, rates + longest)])
    notes: dict[str, list[str]] = {}
    for name, row in final.items():
        for note in _troubles(row):
            notes.setdefault(cell(note), []).append(name)
    wrong = bullets(f"{', '.join(names)}: {note}" for note, names in notes.items())
    heads = [f"calls/s of {count}" for count in processes]
    return "\n\n".join(
        [
            f"Each process adds a memory, asks for it, and so on for {several['seconds']} s, on a "
            f"store of {several['memories_before']:,} memories. Calls that returned, of all "
            f"processes together; then, with {last}, the longest calls in milliseconds.",
            table(["store", *heads, "longest add", "longest search"], lines),
            "Calls that failed, memories that had been added and are gone, and searches that did "
            f"not find what the same process had just added:{'' if notes else ' none.'}",
            wrong,
        ]
    ).strip()


def _troubles(row: Row) -> Iterable[str]:
    if "failed" in row:
        return [row["failed"]]
    found = [f"{count:,} x {what.split('. ')[0]}" for what, count in row["failures"].items()]
    found += [f"{row['lost']:,} memories lost"] if row["lost"] else []
    found += [f"{row['missed']:,} searches missed what was added"] if row["missed"] else []
    return found + row["ended_badly"]
