"""The page and its plots, from the results that run.py has saved. It measures nothing.

Every figure and every comparison on the page is computed; the sentences here are true whatever the
figures are.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import report_first_answer
import report_recall
from plots import Plots, draw_processes, draw_sizes, draw_space
from report_recall_hook import section as recall_hook
from results import (
    NONE,
    OURS,
    Row,
    all_stores,
    default_method,
    estimate_text,
    is_ours,
    is_variant,
    name_text,
    number,
    peers,
    ratio_of,
    shown_size,
    table,
    troubles,
    value_of,
)

# What does the same work as a variant of ours, and so may be better than that one alone: both ask
# a service for their vectors.
LIKE = {name: "agent-memory, endpoint" for name in ("mem0", "mcp-memory-service")}
TO = NONE  # between the ends of a range
AIM = 300  # tokens of a call, recalled text included, in the token-efficient design
FSYNC = "yes: fsync before the call returns"
STORES = {
    OURS: ("this project, vectors given; opens and closes its store at each call", FSYNC),
    "agent-memory, endpoint": ("the same, vectors from an embeddings service", FSYNC),
    "agent-memory, built-in model": ("the same, with its built-in model of 256 dimensions", FSYNC),
    "agent-memory, kept open": (
        "an experiment, not on offer: the store stays open, and locked, between calls",
        FSYNC,
    ),
    "numpy float32": (
        "two files and a dot product, nothing else: the physical limit",
        "yes: fsync of both files",
    ),
    "sqlite-vec": ("SQLite with exact search", "yes: fsync of the log (`synchronous=FULL`)"),
    "Chroma": ("SQLite, and an approximate index (HNSW)", "yes: fsync of SQLite's log"),
    "LanceDB": (
        "columns in files, exact search without an index",
        "**no**: no fsync; outlives the process, not always the power",
    ),
    "Qdrant local": (
        "Qdrant's client without a server: SQLite, all vectors in memory; one process only",
        "yes: fsync by SQLite",
    ),
    "mcp-server-qdrant": (
        "the class behind that server's tools, on Qdrant local; MCP itself is not measured",
        "yes: fsync by SQLite",
    ),
    "mcp-memory-service": (
        "the class behind its tools, on SQLite with sqlite-vec; vectors from an embeddings service; "
        "MCP itself is not measured",
        "**no**: SQLite's log with `synchronous=NORMAL`; outlives the process, not always the power",
    ),
    "mem0": (
        "on Qdrant local, without a language model; vectors from an embeddings service",
        "yes: fsync by SQLite, twice",
    ),
}
MEASURES = [  # in growth: key, part of it, what it is called, unit
    ("search_ms", "median", "search", "ms"),
    ("week_ms", "median", "search of the last week", "ms"),
    ("add_ms", "median", "add", "ms"),
    ("cold_ms", "median", "first answer of a new process", "ms"),
    ("disk_bytes", None, "disk for a memory", "kB"),
    ("memory_mb", "rss", "memory", "MB"),
]


def write(results: dict[str, Any], folder: Path) -> None:
    """Write benchmarks.md into `folder`, and the plots into benchmarks/ below it."""
    (folder / "benchmarks").mkdir(parents=True, exist_ok=True)
    parts: dict[str, Any] = results["parts"]
    plots = Plots(folder / "benchmarks")
    sections = [
        _head(results),
        "## What this says\n\n" + _bullets(_says(parts)),
        _where(results),
        "## Stores, as memories grow\n\n" + _part(results, "growth", _growth, plots),
        "## Several processes on one store\n\n" + _part(results, "several", _several, plots),
        "## Does a search find the right memory?\n\n"
        + _part(results, "recall", report_recall.section, plots),
        "## Tokens\n\n" + _part(results, "tokens", _tokens, plots),
        "## Money\n\n" + _part(results, "money", _money, plots),
        "## Recall before a prompt\n\n" + _part(results, "recall_hook", recall_hook, plots),
        "## The first answer of a process\n\n"
        + _part(results, "first_answer", report_first_answer.section, plots)
        + f"\n\n{report_first_answer.LEFT}",
        "## Where others are better\n\n" + _better(parts),
        "## What is not measured\n\n" + _bullets(_missing(results)),
        COMMANDS,
    ]
    (folder / "benchmarks.md").write_text("\n\n".join(each.strip() for each in sections) + "\n")


COMMANDS = """## Run it yourself

```bash
uv run benchmarks/run.py            # all of it, into docs/
uv run benchmarks/run.py --quick    # a look, into a temporary folder
uv run benchmarks/run.py --parts recall,tokens,money
uv run benchmarks/run.py --redraw   # this page again, from results.json
```

`--help` tells of prices, sizes, an embeddings service and the LoCoMo set. Each store gets an
environment of its own from `uv`; their scripts are in `benchmarks/stores/`."""


def _head(results: dict[str, Any]) -> str:
    quick = (
        "\n\n**A quick look: few calls, three parts at a time. Not figures to quote.**"
        if _quick(results)
        else ""
    )
    return (
        "# Benchmarks\n\nagent-memory beside what people would use instead. Written by "
        "`benchmarks/run.py` from [results.json](benchmarks/results.json), which also holds what "
        f"the tables leave out.{quick}"
    )


def _quick(results: dict[str, Any]) -> bool:
    return any(ran["quick"] for ran in results["ran"].values())


def _part(
    results: dict[str, Any], name: str, body: Callable[[dict[str, Any], Plots], str], plots: Plots
) -> str:
    """A section, or a sentence about why it is empty or not whole."""
    failed = results["ran"].get(name, {}).get("failed")
    note = f"**This part is not complete: {_cell(failed)}.**\n\n" if failed else ""
    result = results["parts"].get(name)
    if result is None:
        return note or "This part was not run."
    return note + body(result, plots)


# What this says


def _says(parts: dict[str, Any]) -> Iterable[str]:
    growth = parts.get("growth")
    if growth and (size := shown_size(growth)):
        for key, part, what, unit in MEASURES:
            if key in ("search_ms", "add_ms"):
                yield _compared(growth, size, key, part, what, unit)
        yield " ".join(
            _compared(growth, size, key, part, what, unit)
            for key, part, what, unit in MEASURES
            if key in ("disk_bytes", "memory_mb")
        )
    if several := parts.get("several"):
        processes, rows = list(several["processes"].items())[-1]
        rows = {name: row for name, row in rows.items() if "failed" not in row}
        rates = {name: f"{name} {number(row['calls_per_second'])}" for name, row in rows.items()}
        bad = [name for name, row in rows.items() if troubles(row)]
        others = [name for name in rows if not is_ours(name)]
        yield (
            f"**Processes: {processes} on one store.** Calls a second: "
            f"{rates.get(OURS, f'{OURS} none')}, {'with' if OURS in bad else 'without'} errors or "
            "losses. Others without: "
            f"{_names([rates[name] for name in others if name not in bad])}. "
            f"With: {_names([rates[name] for name in others if name in bad])}."
        )
    if recall := parts.get("recall"):
        scores = recall["scores"]
        found = [
            f"{method} {estimate_text(scores[method]['all']['recall@5'])}"
            for method in recall["methods"]
        ]
        asked = scores[default_method(recall)]["all"]["n"]
        yield (
            f"**Found.** Of the answers to {asked} questions, these "
            f"shares in % are among the first five results: {'; '.join(found)}."
        )
    if tokens := parts.get("tokens"):
        usual = [row for row in _short(tokens) if row["limit"] == 5]
        every = sum(amount["tokens"] for amount in tokens["every_request"].values())
        store, search = (_range(_wholes(tokens, call)) for call in ("store", "search"))
        yield (
            f"**Tokens.** Every request carries {every:,}. With memories of "
            f"{usual[0]['characters']} characters, a store takes {store}, and a search of the "
            f"default size {search}, of them "
            f"{_range(row['overhead'] for row in usual)} beside the recalled text, among "
            f"{_range(row['size'] for row in usual)} memories."
        )
    if money := parts.get("money"):
        model = next(iter(money["prices"]["embedding"]))
        each = [
            f"{user['name']} {dollars(_total(user, model))}, of it "
            f"{dollars(sum(user['embedding'][model].values()))} for embeddings (V1 design: "
            f"{dollars(user['v1'])} in all)"
            for user in money["users"]
        ]
        yield f"**A year costs,** with {model}: {'; '.join(each)}."


def _compared(growth: Row, size: str, key: str, part: str | None, what: str, unit: str) -> str:
    """Ours, and who needs less or more of it."""
    ours = value_of(growth, size, OURS, key, part)
    if ours is None:
        return f"**{what.capitalize()}:** {OURS} has no figure."
    values = {
        name: value
        for name in growth["stores"][size]
        if (value := value_of(growth, size, name, key, part)) is not None
    }
    shown = {name: f"{name} {number(value)}" for name, value in values.items()}
    variants = [
        words.removeprefix(f"{OURS}, ") for name, words in shown.items() if is_variant(name)
    ]
    less = [words for name, words in shown.items() if not is_ours(name) and values[name] < ours]
    more = [words for name, words in shown.items() if not is_ours(name) and values[name] >= ours]
    brackets = f" ({', '.join(variants)})" if variants else ""
    below, above = ("Faster", "Slower") if unit == "ms" else ("Less", "More")
    return (
        f"**{what.capitalize()}, {int(size):,} memories:** {OURS} {number(ours)} {unit}{brackets}. "
        f"{below}: {_names(less)}. {above}: {_names(more)}."
    )


# Where it was measured


def _where(results: dict[str, Any]) -> str:
    machines: dict[str, list[str]] = {}
    for part, ran in results["ran"].items():
        machine = ran["machine"]
        virtual = ", of a virtual machine" if machine["virtual"] else ""
        text = (
            f"{machine['cores']} cores{virtual}, {machine['cpu']} ({machine['architecture']}), "
            f"{machine['memory_gb']:.0f} GB of memory; "
            f"{machine['system']}, {machine['kernel']}; temporary files on "
            f"{machine['file_system'] or 'an unknown file system'}; Python {machine['python']}"
        )
        machines.setdefault(text, []).append(part)
    lines = ["## Where", ""]
    for text, parts in machines.items():
        lines.append(f"- {', '.join(parts)}: {text}.")
    rows = [
        [
            part,
            ran["started"][:16].replace("T", " "),
            NONE if _quick(results) else number(ran.get("seconds", 0) / 60),
            f"{ran['load']:.1f}",
        ]
        for part, ran in results["ran"].items()
        if part != "money"
    ]
    heads = ["part", "started (UTC)", "minutes", "load of the machine before"]
    return "\n".join([*lines, "", table(heads, rows)])


# Stores, as memories grow


def _growth(growth: dict[str, Any], plots: Plots) -> str:
    size = shown_size(growth)
    text = [
        f"All hold the same memories: {growth['characters']} characters, vectors of "
        f"{growth['dimensions']:,} dimensions that cost next to nothing, times spread over two "
        "years. Each store runs in its own environment and process. Times are milliseconds in one "
        f"process, medians of {growth['calls']} calls; a first answer is that of a new process, "
        f"with all that it imports, the median of {growth['runs']}. Ratios are to {OURS}; below 1 "
        f"is less, and better. mem0 asks a service for its vectors, as "
        f"`{LIKE['mem0']}` does.",
        table(
            ["store", "what it is", "a memory is on disk when `add` returns", "version"],
            [
                [name_text(name), *STORES.get(name, ("", "")), _versions(growth, name)]
                for name in all_stores(growth)
            ],
            words=True,
        ),
    ]
    if not size:
        return "\n\n".join([*text, f"There are no figures of {OURS}."])
    text += [
        plots.add("search", lambda theme: draw_sizes(growth, theme), _alt_search(growth)),
        f"### Among {int(size):,} memories",
        _times_table(growth, size, ["search_ms", "week_ms"], ["search", "last week"]),
        _times_table(growth, size, ["add_ms", "cold_ms"], ["add", "first answer"]),
        _kept_open(growth, size),
        plots.add("space", lambda theme: draw_space(growth, size, theme), _alt_space(size)),
        _space_table(growth, size),
        "Memory is what the process has more than a bare Python after its searches; `own` is the "
        "part that is no page of a file, which the system cannot take back. Found is the share of "
        "the exactly nearest memories, each by its own rule of ranking.",
        "### At every size",
        "Median milliseconds of a search, then of an add.",
        _sizes_table(growth, "search_ms"),
        _sizes_table(growth, "add_ms"),
    ]
    return "\n\n".join(text)


def _kept_open(growth: Row, size: str) -> str:
    """What the experiment shows, and why it stays one."""
    name = "agent-memory, kept open"
    faster, memory = (
        value_of(growth, size, name, key, part)
        for key, part in (("search_ms", "median"), ("memory_mb", "rss"))
    )
    if faster is None or memory is None:
        return ""
    ours = value_of(growth, size, OURS, "memory_mb", "rss")
    return (
        f"A store that stays open answers in {number(faster)} ms and takes {number(memory)} MB, "
        f"not {number(ours)}. It is not done: while one process has a store open and locked all "
        "others wait, and two that have it open without the lock lose writes."
    )


def _versions(growth: Row, name: str) -> str:
    versions = growth["environments"].get(name, {}).get("versions", {})
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _times_table(growth: Row, size: str, keys: list[str], heads: list[str]) -> str:
    columns = ["store"]
    for head in heads:
        columns += [f"{head} ms", "ratio", "p95", f"min{TO}max"]
    rows = []
    for name, row in growth["stores"][size].items():
        cells = [name_text(name)]
        for key in keys:
            if spread := row.get(key):
                ratio = ratio_of(growth, size, name, key, "median")
                ends = f"{number(spread['min'])}{TO}{number(spread['max'])}"
                cells += [number(spread["median"]), ratio, number(spread["p95"]), ends]
            else:
                cells += [NONE] * 4
        if any(cell != NONE for cell in cells[1:]):
            rows.append(cells)
    return table(columns, rows)


def _space_table(growth: Row, size: str) -> str:
    rows = []
    for name, row in growth["stores"][size].items():
        if "disk_bytes" not in row:
            continue
        memory = row.get("memory_mb") or {}
        rows.append(
            [
                name_text(name),
                number(row["disk_bytes"] / 1000),
                ratio_of(growth, size, name, "disk_bytes", None),
                number(memory.get("rss")),
                ratio_of(growth, size, name, "memory_mb", "rss"),
                number(memory.get("anon")),
                number(row.get("fill_seconds")),
                _share(row.get("found")),
                _share(row.get("found_week")),
            ]
        )
    heads = ["store", "kB of disk a memory", "ratio", "MB of memory", "ratio", "own"]
    return table([*heads, "fill s", "found", "found, last week"], rows)


def _sizes_table(growth: Row, key: str) -> str:
    sizes = list(growth["stores"])
    rows = []
    for name in all_stores(growth):
        cells = [name_text(name)]
        for size in sizes:
            value = value_of(growth, size, name, key, "median")
            cells.append(
                NONE
                if value is None
                else number(value)
                if name == OURS
                else f"{number(value)} ({ratio_of(growth, size, name, key, 'median')})"
            )
        rows.append(cells)
    return table(["store", *(f"{int(size):,}" for size in sizes)], rows)


# Several processes


def _several(several: dict[str, Any], plots: Plots) -> str:
    processes = several["processes"]
    last = list(processes)[-1]
    rows = []
    for name in dict.fromkeys(name for rows in processes.values() for name in rows):
        cells = [name_text(name)]
        for rows_of in processes.values():
            rate = rows_of.get(name, {}).get("calls_per_second")
            ours = rows_of.get(OURS, {}).get("calls_per_second")
            ratio = f" ({number(rate / ours)})" if rate and ours and name != OURS else ""
            cells.append(number(rate) + ratio)
        row = processes[last].get(name, {})
        for key in ("add_ms", "search_ms"):
            spread = row.get(key)
            cells.append(
                f"{number(spread['median'])} (most {number(spread['max'])})" if spread else NONE
            )
        for count in (_failures(row), row.get("lost"), row.get("missed")):
            cells.append(NONE if count is None else f"{count:,}")
        rows.append(cells)
    heads = [f"calls/s, processes: {count}" for count in processes]
    notes = [
        f"{name}, processes: {count}: {note}"
        for count, rows_of in processes.items()
        for name, row in rows_of.items()
        for note in troubles(row)
    ]
    text = [
        f"Each process adds a memory, asks for it, and so on for {several['seconds']} s, on a "
        f"store of {several['memories_before']:,} memories. Calls that returned, of all processes "
        f"together; then, with {last}, the median and the longest milliseconds, calls that "
        "failed, memories whose adding had returned and that a fresh process does not find, and "
        "searches that did not find what the same process had just added. Ratios are in brackets; "
        "above 1 is more than ours, and better.",
        plots.add(
            "processes",
            lambda theme: draw_processes(several, theme),
            "Calls a second over the number of processes, for each store. The figures are in the "
            "table.",
        ),
        table(["store", *heads, "add ms", "search ms", "failed", "lost", "missed"], rows),
    ]
    if notes:
        text.append(_details("What went wrong, by store and number of processes", notes))
    return "\n\n".join(text)


def _failures(row: Row) -> int | None:
    return sum(row["failures"].values()) if "failures" in row else None


# Tokens and money


def _tokens(tokens: dict[str, Any], plots: Plots) -> str:
    every = [
        [name.replace("_", "\\_"), f"{amount['tokens']:,}", number(amount["characters"] / 4)]
        for name, amount in tokens["every_request"].items()
    ]
    sums = [
        sum(amount[key] for amount in tokens["every_request"].values())
        for key in ("tokens", "characters")
    ]
    every.append(["**together**", f"**{sums[0]:,}**", number(sums[1] / 4)])
    rows = [
        [
            row["call"] + (f", limit {row['limit']}" if row["limit"] else ""),
            f"{row['size']:,} of {row['characters']:,} characters",
            str(row["memories"]) if row["call"] == "search" else NONE,
            number(row["text"]),
            f"{number(row['overhead'])} (most {number(row['overhead_most'])})",
            number(row["overhead"] / row["memories"]) if row["memories"] else NONE,
            f"{number(row['quarter']['text'])} + {number(row['quarter']['overhead'])}",
        ]
        for row in tokens["calls"]
    ]
    heads = ["call", "memories in the store", "recalled", "text", "overhead (most)"]
    return "\n\n".join(
        [
            f"Counted with the tokenizer of {tokens['tokenizer']}, which needs no network and "
            "counts more than those of GPT do; the last column is the rule of thumb, a quarter of "
            "the characters, which on JSON counts less than those do. What a provider wraps around "
            "a tool or a call is not in it.",
            "On every request: both tools as JSON, and what the bundle adds to the instructions.",
            table(["", "tokens", "characters / 4"], every),
            "In each call: the text that is stored or recalled, and all else, which are the other "
            "arguments and the rest of the result. Medians.",
            table([*heads, "overhead a memory", "characters / 4, text + overhead"], rows),
            f"{_verdict(tokens)} {_constant(tokens)}",
        ]
    )


def _short(tokens: dict[str, Any]) -> list[Row]:
    shortest = min(row["characters"] for row in tokens["calls"])
    return [row for row in tokens["calls"] if row["characters"] == shortest]


def _wholes(tokens: dict[str, Any], call: str) -> list[float]:
    """The tokens of such a call as a model makes it, with the default limit: text and overhead."""
    usual = [row for row in _short(tokens) if row["call"] == call and row["limit"] in (None, 5)]
    return [row["text"] + row["overhead"] for row in usual]


def _verdict(tokens: dict[str, Any]) -> str:
    """Whether the aim is met."""
    stores, searches = (_wholes(tokens, call) for call in ("store", "search"))
    met = ("is within that" if max(each) <= AIM else "is not" for each in (stores, searches))
    return (
        f"The [token-efficient design](v1.md#the-token-efficient-design) aims at about {AIM} for a "
        "call, the recalled text included, and recalls two or three memories. By this tokenizer, "
        f"with memories of {_short(tokens)[0]['characters']} characters and the default limit of "
        f"five, a store ({_range(stores)} in all) {next(met)}, and a search ({_range(searches)}) "
        f"{next(met)}."
    )


def _constant(tokens: dict[str, Any]) -> str:
    """How the overhead depends on the size of the store, and on how much is recalled."""
    full = [row for row in _short(tokens) if row["limit"] == row["memories"] == 5]
    sizes = sorted(row["size"] for row in full)
    if len(sizes) < 2:
        return ""
    low, high = (end(row["overhead"] for row in full) for end in (min, max))
    each = [row["overhead"] / row["memories"] for row in tokens["calls"] if row["memories"]]
    return (
        f"From {sizes[0]:,} to {sizes[-1]:,} memories, what comes beside the text differs by "
        f"{number(high - low)} tokens; it depends on how many are recalled, {_range(each)} tokens "
        "for each."
    )


def _money(money: dict[str, Any], plots: Plots) -> str:
    prices, assumed = money["prices"], money["assumed"]
    models = list(prices["embedding"])
    rows = [
        [
            user["name"],
            *(" + ".join(map(dollars, user["embedding"][model].values())) for model in models),
            *(dollars(user[key]) for key in ("writing", "reading", "every_request")),
            f"**{dollars(_total(user, models[0]))}**",
            dollars(user["v1"]),
        ]
        for user in money["users"]
    ]
    users = "; ".join(
        f"{user['name']}: {user['memories']} memories of {user['words']} words, "
        f"{user['searches']:,.0f} searches, {user['sessions']} sessions"
        for user in money["users"]
    )
    embedding = ", ".join(f"{model} ${price:.2f}" for model, price in prices["embedding"].items())
    heads = ["user", *(f"memories + queries, {model}" for model in models)]
    heads += ["calls written", "results read", "tools in every request"]
    return "\n\n".join(
        [
            "Dollars a year for the three kinds of user of the V1 design, whose figure is in the "
            "last column. It counts the embedding of memories alone, and calls searches free; but "
            "a query is embedded too, and the model that calls the tools writes the calls, reads "
            "the results, and is told of the tools in every request.",
            table([*heads, f"all, with {models[0]}", "V1 design"], rows),
            "With the built-in model, memories and queries cost nothing.",
            "Assumed, each month (memories and words are the design's, the rest is ours): "
            f"{users}. A query has {assumed['query_words']} words, a search finds "
            f"{assumed['results']} memories, a session has {assumed['requests_per_session']} "
            "requests, and what a call leaves is read again from the cache in half of them. "
            f"{assumed['tokens_per_word']:.2f} tokens a word, "
            "counted as above, and so rather too many.",
            f"Prices for a million tokens, assumptions of 2026: {embedding}; the model that calls "
            f"the tools ${prices['input']:.2f} to read, ${prices['cached_input']:.2f} from the "
            f"cache, ${prices['output']:.2f} to write. Flags of `run.py` change them.",
        ]
    )


def _total(user: Row, model: str) -> float:
    embedding = user["embedding"].get(model, {})
    return sum(embedding.values()) + user["writing"] + user["reading"] + user["every_request"]


def dollars(value: float) -> str:
    """An amount, with as many digits as it takes to see that it is not nothing."""
    return "$0" if not value else f"${value:,.2f}" if value >= 0.1 else f"${value:.2g}"


# Where others are better, and what is missing


def _better(parts: dict[str, Any]) -> str:
    lines = [*_better_growth(parts.get("growth")), *_better_several(parts.get("several"))]
    lines += _better_recall(parts.get("recall"))
    if not any(parts.get(name) for name in ("growth", "several", "recall")):
        return "Nothing was compared."
    head = "Every figure of the tables above that is better than ours, ours in brackets."
    return f"{head}\n\n{_bullets(lines)}" if lines else "No figure of the tables above is."


def _better_growth(growth: dict[str, Any] | None) -> Iterable[str]:
    if not growth:
        return
    for key, part, what, unit in MEASURES:
        found = []
        for size in growth["stores"]:
            ours = value_of(growth, size, OURS, key, part)
            if ours is None:
                continue
            names = []
            for name in peers(growth, size):
                value = value_of(growth, size, name, key, part)
                like = value_of(growth, size, LIKE.get(name, OURS), key, part)
                if value is None:
                    continue
                if value < ours:
                    names.append(f"{name} {number(value)}")
                elif like is not None and value < like:
                    names.append(f"{name} {number(value)} ({LIKE[name]}: {number(like)})")
            if names:
                found.append(f"{int(size):,} memories ({number(ours)}): {', '.join(names)}")
        if found:
            yield f"**{what.capitalize()}**, {unit}. {'; '.join(found)}."
    for size in growth["stores"]:
        rows = growth["stores"][size]
        for key, what in (("found", "found"), ("found_week", "found of the last week")):
            ours = rows.get(OURS, {}).get(key)
            names = [
                f"{name} {_share(rows[name][key])}"
                for name in peers(growth, size)
                if ours is not None and (rows[name].get(key) or 0) > ours
            ]
            if names:
                about = f"**{what.capitalize()}**, {int(size):,} memories ({_share(ours)})"
                yield f"{about}: {', '.join(names)}."


def _better_several(several: dict[str, Any] | None) -> Iterable[str]:
    for processes, rows in several["processes"].items() if several else ():
        ours = rows.get(OURS, {})
        if "failed" in ours or not ours:
            continue
        found = []
        for what, key, better in (
            ("calls/s", lambda row: row["calls_per_second"], 1),
            ("longest add ms", lambda row: (row["add_ms"] or {}).get("max"), -1),
            ("longest search ms", lambda row: (row["search_ms"] or {}).get("max"), -1),
            ("failed", _failures, -1),
            ("lost", lambda row: row["lost"], -1),
            ("missed", lambda row: row["missed"], -1),
        ):
            names = []
            for name, row in rows.items():
                if is_ours(name) or "failed" in row:
                    continue
                value, other = key(row), key(ours)
                if value is None or other is None:
                    continue
                if (value - other) * better > 0:
                    names.append(f"{name} {number(value)}")
            if names and key(ours) is not None:
                found.append(f"{what} ({number(key(ours))}): {', '.join(names)}")
        if found:
            yield f"**Processes: {processes}.** {'; '.join(found)}."


def _better_recall(recall: dict[str, Any] | None) -> Iterable[str]:
    if not recall:
        return
    sets = {"": recall["scores"]}
    if recall.get("locomo"):
        sets["LoCoMo, "] = recall["locomo"]["scores"]
    for name, scores in sets.items():
        for kind, row in scores[default_method(recall)].items():
            for metric in (each for each in row if each != "n"):
                if metric != "recall@5" and (name or kind != "all"):
                    continue
                better = [
                    f"{method} {other[kind][metric][0]:.1f}"
                    for method, other in scores.items()
                    if other[kind][metric][0] > row[metric][0]
                ]
                if better:
                    about = f"{name}{'all' if kind == 'all' else kind} questions"
                    yield f"**{metric}, {about}** ({row[metric][0]:.1f}): {', '.join(better)}."
    if recall.get("locomo"):
        nameless = recall["locomo"]["nameless"]
        ours = nameless[default_method(recall)][0]
        better = [f"{name} {each[0]:.1f}" for name, each in nameless.items() if each[0] > ours]
        if better:
            yield f"**recall@5, LoCoMo without names** ({ours:.1f}): {', '.join(better)}."


NOT_MEASURED = [
    "Whether an agent works better with a memory than without: that needs agents, tasks and "
    "judges, not a store.",
    "Time and quality of services for embeddings, unless one is given: they depend on the service, "
    "the network and the day. The stores get vectors that cost next to nothing.",
    "mem0 with a language model, which rewrites what is stored: that has a bill of its own.",
    "What MCP adds to a call, and servers such as Qdrant's or Postgres: a process of their own to "
    "set up, which is not what this replaces.",
    "Loss of power, and other machines: durable is what each store asks of the system. Faults are "
    "in the project's tests.",
]


def _missing(results: dict[str, Any]) -> list[str]:
    lines = list(NOT_MEASURED)
    growth = results["parts"].get("growth") or {}
    for name, environment in growth.get("environments", {}).items():
        if "failed" in environment:
            lines.append(f"{name}: {_cell(environment['failed'])}")
    for size, rows in growth.get("stores", {}).items():
        reasons: dict[str, list[str]] = {}
        for name, row in rows.items():
            for key in ("failed", "no_week"):
                if key in row:
                    reasons.setdefault(row[key], []).append(name)
        lines += [
            f"{int(size):,} memories: {', '.join(names)}: {_cell(reason)}"
            for reason, names in reasons.items()
        ]
    return lines


# Words and tables


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def _range(values: Iterable[float]) -> str:
    ordered = sorted(values)
    ends = dict.fromkeys([number(ordered[0]), number(ordered[-1])])
    return " to ".join(ends)


def _names(names: Sequence[str]) -> str:
    return "; ".join(names) or "none"


def _cell(text: Any) -> str:
    """A text of elsewhere, so that it cannot end a cell or start a tag."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Nothing was run."


def _details(head: str, lines: Sequence[str]) -> str:
    items = "\n".join(f"- {_cell(line)}" for line in lines)
    return f"<details><summary>{head}</summary>\n\n{items}\n\n</details>"


def _alt_search(growth: dict[str, Any]) -> str:
    sizes = [f"{int(size):,}" for size in growth["stores"]]
    return f"Search time over {', '.join(sizes)} memories, for each store. The figures are below."


def _alt_space(size: str) -> str:
    return f"Disk and memory of each store at {int(size):,} memories. The figures are in the table."
