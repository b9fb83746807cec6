# pyright: reportMissingImports=false
"""The page and its plots, from the results that run.py has saved. It measures nothing.

Every figure and every comparison on the page is computed; what is written here is true whatever
the figures are.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator

Row = dict[str, Any]

OURS = "agent-memory"
# What does the same work as a variant of ours, and so may be better than that one alone: both ask
# a service for their vectors.
LIKE = {"mem0": "agent-memory, endpoint"}
LARGEST_SHOWN = 10_000
NONE = TO = "\N{EN DASH}"  # a cell without a figure; between the ends of a range
AIM = 300  # tokens, which an older design allowed for a call beside the recalled text
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
        "## Does a search find the right memory?\n\n" + _part(results, "recall", _recall, plots),
        "## Tokens\n\n" + _part(results, "tokens", _tokens, plots),
        "## Money\n\n" + _part(results, "money", _money, plots),
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
    results: dict[str, Any], name: str, body: Callable[[dict[str, Any], "Plots"], str], plots: Any
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
    if growth and (size := _shown_size(growth)):
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
        bad = [name for name, row in rows.items() if _troubles(row)]
        others = [name for name in rows if not _is_ours(name)]
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
            f"{method} {_estimate(scores[method]['all']['recall@5'])}"
            for method in recall["methods"]
        ]
        yield (
            f"**Found.** Of the answers to {scores[_default(recall)]['all']['n']} questions, these "
            f"shares in % are among the first five results: {'; '.join(found)}."
        )
    if tokens := parts.get("tokens"):
        usual = [row for row in _short(tokens) if row["limit"] == 5]
        every = sum(amount["tokens"] for amount in tokens["every_request"].values())
        yield (
            f"**Tokens.** Every request carries {every:,}. A search of the default size brings "
            f"{_range(row['overhead'] for row in usual)} beside the recalled text, for "
            f"{_range(row['size'] for row in usual)} memories: {_verdict(tokens)}."
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
    ours = _value(growth, size, OURS, key, part)
    if ours is None:
        return f"**{what.capitalize()}:** {OURS} has no figure."
    values = {
        name: value
        for name in growth["stores"][size]
        if (value := _value(growth, size, name, key, part)) is not None
    }
    shown = {name: f"{name} {number(value)}" for name, value in values.items()}
    variants = [words.removeprefix(f"{OURS}, ") for name, words in shown.items() if _variant(name)]
    less = [words for name, words in shown.items() if not _is_ours(name) and values[name] < ours]
    more = [words for name, words in shown.items() if not _is_ours(name) and values[name] >= ours]
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
    return "\n".join([*lines, "", _table(heads, rows)])


# Stores, as memories grow


def _growth(growth: dict[str, Any], plots: "Plots") -> str:
    size = _shown_size(growth)
    text = [
        f"All hold the same memories: {growth['characters']} characters, vectors of "
        f"{growth['dimensions']:,} dimensions that cost next to nothing, times spread over two "
        "years. Each store runs in its own environment and process. Times are milliseconds in one "
        f"process, medians of {growth['calls']} calls; a first answer is that of a new process, "
        f"with all that it imports, the median of {growth['runs']}. Ratios are to {OURS}; below 1 "
        f"is less, and better. mem0 asks a service for its vectors, as "
        f"`{LIKE['mem0']}` does.",
        _table(
            ["store", "what it is", "a memory is on disk when `add` returns", "version"],
            [
                [_name(name), *STORES.get(name, ("", "")), _versions(growth, name)]
                for name in _all(growth)
            ],
            words=True,
        ),
    ]
    if not size:
        return "\n\n".join([*text, f"There are no figures of {OURS}."])
    text += [
        plots.add("search", lambda theme: _draw_sizes(growth, theme), _alt_search(growth)),
        f"### Among {int(size):,} memories",
        _times_table(growth, size, ["search_ms", "week_ms"], ["search", "last week"]),
        _times_table(growth, size, ["add_ms", "cold_ms"], ["add", "first answer"]),
        plots.add("space", lambda theme: _draw_space(growth, size, theme), _alt_space(size)),
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


def _versions(growth: Row, name: str) -> str:
    versions = growth["environments"].get(name, {}).get("versions", {})
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _times_table(growth: Row, size: str, keys: list[str], heads: list[str]) -> str:
    columns = ["store"]
    for head in heads:
        columns += [f"{head} ms", "ratio", "p95", f"min{TO}max"]
    rows = []
    for name, row in growth["stores"][size].items():
        cells = [_name(name)]
        for key in keys:
            if spread := row.get(key):
                ratio = _ratio(growth, size, name, key, "median")
                ends = f"{number(spread['min'])}{TO}{number(spread['max'])}"
                cells += [number(spread["median"]), ratio, number(spread["p95"]), ends]
            else:
                cells += [NONE] * 4
        if any(cell != NONE for cell in cells[1:]):
            rows.append(cells)
    return _table(columns, rows)


def _space_table(growth: Row, size: str) -> str:
    rows = []
    for name, row in growth["stores"][size].items():
        if "disk_bytes" not in row:
            continue
        memory = row.get("memory_mb") or {}
        rows.append(
            [
                _name(name),
                number(row["disk_bytes"] / 1000),
                _ratio(growth, size, name, "disk_bytes", None),
                number(memory.get("rss")),
                _ratio(growth, size, name, "memory_mb", "rss"),
                number(memory.get("anon")),
                number(row.get("fill_seconds")),
                _share(row.get("found")),
                _share(row.get("found_week")),
            ]
        )
    heads = ["store", "kB of disk a memory", "ratio", "MB of memory", "ratio", "own"]
    return _table([*heads, "fill s", "found", "found, last week"], rows)


def _sizes_table(growth: Row, key: str) -> str:
    sizes = list(growth["stores"])
    rows = []
    for name in _all(growth):
        cells = [_name(name)]
        for size in sizes:
            value = _value(growth, size, name, key, "median")
            cells.append(
                NONE
                if value is None
                else number(value)
                if name == OURS
                else f"{number(value)} ({_ratio(growth, size, name, key, 'median')})"
            )
        rows.append(cells)
    return _table(["store", *(f"{int(size):,}" for size in sizes)], rows)


# Several processes


def _several(several: dict[str, Any], plots: "Plots") -> str:
    processes = several["processes"]
    last = list(processes)[-1]
    rows = []
    for name in dict.fromkeys(name for rows in processes.values() for name in rows):
        cells = [_name(name)]
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
        for note in _troubles(row)
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
            lambda theme: _draw_processes(several, theme),
            "Calls a second over the number of processes, for each store. The figures are in the "
            "table.",
        ),
        _table(["store", *heads, "add ms", "search ms", "failed", "lost", "missed"], rows),
    ]
    if notes:
        text.append(_details("What went wrong, by store and number of processes", notes))
    return "\n\n".join(text)


def _failures(row: Row) -> int | None:
    return sum(row["failures"].values()) if "failures" in row else None


def _troubles(row: Row) -> list[str]:
    """What went wrong with a store, in words."""
    if "failed" in row:
        return [row["failed"]]
    troubles = [f"{count:,} x {what}" for what, count in row["failures"].items()]
    troubles += [f"{row['lost']:,} memories lost"] if row["lost"] else []
    troubles += [f"{row['missed']:,} searches missed what was added"] if row["missed"] else []
    return troubles + row["ended_badly"]


# Recall


def _recall(recall: dict[str, Any], plots: "Plots") -> str:
    scores, questions = recall["scores"], recall["set"]["questions"]
    metrics = [name for name in scores[_default(recall)]["all"] if name != "n"]
    kinds = [kind for kind in scores[_default(recall)] if kind != "all"]
    tuned = sum(each["tune"] for each in questions.values())
    reported = sum(each["report"] for each in questions.values())
    text = [
        f"Our own set ([what it is](../benchmarks/recall/README.md)): "
        f"{recall['set']['memories']} memories of two years, {tuned} questions to tune on and "
        f"{reported} others, of which all that follows is. In %, with the interval that holds 95 % "
        "of what resampling the questions gives.",
        plots.add("recall", lambda theme: _draw_recall(recall, theme), _alt_recall(recall)),
        _table(
            ["method", *metrics],
            [
                [
                    _name(method, _default(recall)),
                    *(_estimate(scores[method]["all"][metric]) for metric in metrics),
                ]
                for method in recall["methods"]
            ],
        ),
        "recall@5 by kind of question:",
        _table(
            ["method", *(f"{kind} ({scores[_default(recall)][kind]['n']})" for kind in kinds)],
            [
                [
                    _name(method, _default(recall)),
                    *(_estimate(scores[method][kind]["recall@5"]) for kind in kinds),
                ]
                for method in recall["methods"]
            ],
        ),
    ]
    if differences := recall.get("differences"):
        rows: dict[str, dict[str, Any]] = {}
        for each in differences:
            rows.setdefault(each["what"], {})[each["kind"]] = each["recall@5"]
        columns = list(dict.fromkeys(each["kind"] for each in differences))
        text += [
            "Differences question by question, in points of recall@5; where the interval holds 0, "
            "it may be chance:",
            _table(
                ["", *columns],
                [
                    [
                        what,
                        *(_estimate(row[kind], True) if kind in row else NONE for kind in columns),
                    ]
                    for what, row in rows.items()
                ],
            ),
        ]
    if recall.get("tuning"):
        weight = recall.get("weight")
        default = f" The default is {weight:g}." if weight is not None else ""
        text += [
            "How much shared words should count was chosen on the questions to tune on, and only "
            f"on those.{default}",
            plots.add(
                "tuning",
                lambda theme: _draw_tuning(recall, theme),
                "recall@5 over the weight of shared words, for all questions to tune on and for "
                "each kind of them.",
            ),
        ]
    if recency := recall.get("recency"):
        share = recency["pays_from_share"]
        pays = (
            "never pays here"
            if share is None
            else f"pays if {share:.0%} of all questions or more are such"
        )
        without = recency.get("without_since")
        instead = f" instead of {_estimate(without['recall@5'])} %" if without else ""
        text.append(
            "Memories of the last seven days count a fifth more. On questions about that week this "
            f"gains {_estimate(recency['gain_recent'])} points of recall@5, on all others it loses "
            f"{_estimate(recency['loss_other'])}: it {pays}. With `since` given instead, "
            f"{_estimate(recency['with_since']['recall@5'])} % of the answers to such questions "
            f"are found{instead}."
        )
    if none := recall.get("none"):
        text.append(
            "Can the score tell that there is no answer? It puts a question with an answer above "
            f"one without in {_estimate([100 * each for each in none['auc']])} % of all pairs; 50 "
            "is chance."
        )
    if locomo := recall.get("locomo"):
        text += ["### LoCoMo", _locomo(locomo)]
    else:
        text.append("The public set LoCoMo was not given to this run (`--locomo`).")
    return "\n\n".join(text)


def _locomo(locomo: dict[str, Any]) -> str:
    scores = locomo["scores"]
    kinds = list(next(iter(scores.values())))
    first = next(iter(scores.values()))
    return "\n\n".join(
        [
            "Ten long conversations; what was said is what is remembered, and what its authors "
            "name as evidence is the answer. recall@5 in %:",
            _table(
                ["method", *(f"{kind} ({first[kind]['n']:,})" for kind in kinds)],
                [
                    [method, *(_estimate(row[kind]["recall@5"]) for kind in kinds)]
                    for method, row in scores.items()
                ],
            ),
        ]
    )


def _default(recall: dict[str, Any]) -> str:
    """The method that a user has without a setting: the last of the built-in model."""
    return [method for method in recall["methods"] if method.startswith("built-in")][-1]


# Tokens and money


def _tokens(tokens: dict[str, Any], plots: "Plots") -> str:
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
            _table(["", "tokens", "characters / 4"], every),
            "In each call: the text that is stored or recalled, and all else, which are the other "
            "arguments and the rest of the result. Medians.",
            _table([*heads, "overhead a memory", "characters / 4, text + overhead"], rows),
            f"An older design aimed at about {AIM} tokens beside the recalled text, however large "
            f"the store is: {_verdict(tokens)}. {_constant(tokens)}",
        ]
    )


def _short(tokens: dict[str, Any]) -> list[Row]:
    shortest = min(row["characters"] for row in tokens["calls"])
    return [row for row in tokens["calls"] if row["characters"] == shortest]


def _verdict(tokens: dict[str, Any]) -> str:
    """Whether the aim is met by the calls as a model makes them: the default limit."""
    usual = [row for row in _short(tokens) if row["limit"] in (None, 5)]
    said = []
    for call in ("store", "search"):
        most = max(row["overhead"] for row in usual if row["call"] == call)
        said.append(f"a {call} is {'within' if most <= AIM else 'above'} {AIM}")
    return f"by this tokenizer, with the default limit, {' and '.join(said)}"


def _constant(tokens: dict[str, Any]) -> str:
    """How the overhead depends on the size of the store, and on how much is recalled."""
    full = [row for row in _short(tokens) if row["limit"] == row["memories"] == 5]
    sizes = sorted(row["size"] for row in full)
    if len(sizes) < 2:
        return ""
    low, high = (end(row["overhead"] for row in full) for end in (min, max))
    each = [row["overhead"] / row["memories"] for row in tokens["calls"] if row["memories"]]
    return (
        f"From {sizes[0]:,} to {sizes[-1]:,} memories it differs by {number(high - low)} tokens; "
        f"it depends on how many are recalled, {_range(each)} tokens for each."
    )


def _money(money: dict[str, Any], plots: "Plots") -> str:
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
            _table([*heads, f"all, with {models[0]}", "V1 design"], rows),
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
            ours = _value(growth, size, OURS, key, part)
            if ours is None:
                continue
            names = []
            for name in _peers(growth, size):
                value = _value(growth, size, name, key, part)
                like = _value(growth, size, LIKE.get(name, OURS), key, part)
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
                for name in _peers(growth, size)
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
                if _is_ours(name) or "failed" in row:
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
    ours = recall["scores"][_default(recall)]
    for kind, row in ours.items():
        for metric in (name for name in row if name != "n"):
            if kind != "all" and metric != "recall@5":
                continue
            names = [
                f"{method} {recall['scores'][method][kind][metric][0]:.1f}"
                for method in recall["methods"]
                if recall["scores"][method][kind][metric][0] > row[metric][0]
            ]
            if names:
                what = "all questions" if kind == "all" else f"{kind} questions"
                yield f"**{metric}, {what}** ({row[metric][0]:.1f}): {', '.join(names)}."


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


# Reading the results


def _shown_size(growth: dict[str, Any]) -> str | None:
    """The size of the detailed tables: the largest that all stores are made for."""
    sizes = [size for size in growth["stores"] if _value(growth, size, OURS, "search_ms", "median")]
    return max(
        (size for size in sizes if int(size) <= LARGEST_SHOWN),
        key=int,
        default=min(sizes, key=int, default=None),
    )


def _all(growth: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for rows in growth["stores"].values() for name in rows))


def _is_ours(name: str) -> bool:
    return name.startswith(OURS)


def _variant(name: str) -> bool:
    return _is_ours(name) and name != OURS


def _peers(growth: dict[str, Any] | None, size: str) -> list[str]:
    return [name for name in growth["stores"][size] if not _is_ours(name)] if growth else []


def _value(growth: Any, size: str, name: str, key: str, part: str | None) -> float | None:
    value = growth["stores"][size].get(name, {}).get(key)
    value = value.get(part) if part and value else value
    return value / 1000 if key == "disk_bytes" and value is not None else value


def _ratio(growth: Row, size: str, name: str, key: str, part: str | None) -> str:
    value, ours = (_value(growth, size, each, key, part) for each in (name, OURS))
    return "" if name == OURS or value is None or not ours else number(value / ours)


# Words and tables


def number(value: float | None) -> str:
    """Two or three digits, as many as mean something."""
    if value is None:
        return NONE
    if abs(value) >= 9.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 0.995 else f"{value:.2g}"


def _estimate(estimate: Sequence[float], signed: bool = False) -> str:
    mean, low, high = estimate
    sign = "+" if signed else ""
    between = " to " if signed or low < 0 else TO
    return f"{mean:{sign}.1f} ({low:{sign}.0f}{between}{high:{sign}.0f})"


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def _range(values: Iterable[float]) -> str:
    ordered = sorted(values)
    ends = dict.fromkeys([number(ordered[0]), number(ordered[-1])])
    return " to ".join(ends)


def _names(names: Sequence[str]) -> str:
    return "; ".join(names) or "none"


def _name(name: str, emphasised: str = OURS) -> str:
    return f"**{name}**" if name == emphasised else name


def _cell(text: Any) -> str:
    """A text of elsewhere, so that it cannot end a cell or start a tag."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> str:
    lines = [heads, ["---", *["---" if words else "--:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Nothing was run."


def _details(head: str, lines: Sequence[str]) -> str:
    items = "\n".join(f"- {_cell(line)}" for line in lines)
    return f"<details><summary>{head}</summary>\n\n{items}\n\n</details>"


# Plots

# Told apart with any kind of colour vision, by line or mark where not by colour; for a page in
# black on white, and one in white on black.
STYLES: dict[str, tuple[str, str, Any, str]] = {
    OURS: ("#cc4c00", "#ff8c42", "-", "o"),
    "agent-memory, endpoint": ("#cc4c00", "#ff8c42", "--", "o"),
    "agent-memory, built-in model": ("#cc4c00", "#ff8c42", ":", "o"),
    "agent-memory, kept open": ("#cc4c00", "#ff8c42", (0, (6, 2, 1, 2, 1, 2)), "."),
    "numpy float32": ("#6b7280", "#9ca3af", "-", "x"),
    "sqlite-vec": ("#0072b2", "#4aa8e8", "-", "s"),
    "Chroma": ("#008a64", "#2fc99a", "-", "^"),
    "LanceDB": ("#b0508c", "#e79bc6", "-", "v"),
    "Qdrant local": ("#3a96d0", "#7cc8f2", "--", "D"),
    "mcp-server-qdrant": ("#7a5cc0", "#b09cf0", "--", "P"),
    "mem0": ("#8f7000", "#e0bd3a", "-.", "X"),
}
HUES = ["mem0", "sqlite-vec", "LanceDB", "Chroma", "mcp-server-qdrant"]  # for what is no store
THEMES = {"light": ("#1f2328", "#d0d7de"), "dark": ("#e6edf3", "#3d444d")}  # text, and lines


class Theme:
    """The colours of a page, and the settings of matplotlib for it."""

    def __init__(self, name: str) -> None:
        self.dark = name == "dark"
        self.ink, self.faint = THEMES[name]
        self.settings: dict[str, Any] = {
            "svg.hashsalt": OURS,  # the same figures give the same file
            "svg.fonttype": "none",
            # The widest first, so that labels have room with whatever the reader has.
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": self.faint,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.titlesize": 10,
            "axes.titlelocation": "left",
            "grid.color": self.faint,
            "grid.linewidth": 0.5,
            "legend.frameon": False,
            "xtick.color": self.ink,
            "ytick.color": self.ink,
            "axes.labelcolor": self.ink,
            "text.color": self.ink,
        }

    def style(self, name: str) -> tuple[str, Any, str]:
        """The colour, line and mark of a store."""
        light, dark, line, mark = STYLES.get(name, (self.ink, self.ink, "-", "."))
        return (dark if self.dark else light), line, mark

    def shade(self, step: int) -> str:
        """A colour for one of several methods, none of them ours."""
        light = ["#56606b", "#9ecae1", "#3182bd", "#9e9ac8", "#a8ddb5", "#43a2ca", "#238b45"]
        dark = ["#8b949e", "#2f6690", "#6cb6ff", "#8a7fd0", "#2f7d4f", "#58b5c9", "#7ee2a8"]
        shades = dark if self.dark else light
        return shades[step % len(shades)]


class Plots:
    """Draws each plot for both themes, and says how a page shows the right one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, draw: Callable[[Theme], Any], alt: str) -> str:
        for theme in THEMES:
            chosen = Theme(theme)
            with plt.rc_context(chosen.settings):
                figure = draw(chosen)
                # Without a date and a version, which would make every file a new one.
                figure.savefig(
                    self._folder / f"{name}-{theme}.svg",
                    transparent=True,
                    metadata={"Date": None, "Creator": None},
                )
                plt.close(figure)
        source = f"benchmarks/{name}-dark.svg"
        return (
            f'<picture><source media="(prefers-color-scheme: dark)" srcset="{source}">'
            f'<img alt="{alt}" src="benchmarks/{name}-light.svg"></picture>'
        )


def _draw_sizes(growth: dict[str, Any], theme: Theme) -> Any:
    lines = {}
    for name in _all(growth):
        points = [
            (int(size), value)
            for size in growth["stores"]
            if (value := _value(growth, size, name, "search_ms", "median")) is not None
        ]
        if points:
            lines[name] = points
    figure, axes = plt.subplots(figsize=(7.5, 4.4))
    figure.subplots_adjust(left=0.09, right=0.71, bottom=0.12, top=0.92)
    axes.set(xscale="log", yscale="log", xlabel="memories", title="Search, milliseconds (median)")
    _lines(axes, lines, theme)
    axes.set_xticks([int(size) for size in growth["stores"]])
    return figure


def _draw_processes(several: dict[str, Any], theme: Theme) -> Any:
    lines: dict[str, list[tuple[int, float]]] = {}
    troubled: dict[str, list[tuple[int, float]]] = {}
    for processes, rows in several["processes"].items():
        for name, row in rows.items():
            if rate := row.get("calls_per_second"):
                lines.setdefault(name, []).append((int(processes), rate))
                if _troubles(row):
                    troubled.setdefault(name, []).append((int(processes), rate))
    figure, axes = plt.subplots(figsize=(7.5, 4.4))
    figure.subplots_adjust(left=0.09, right=0.71, bottom=0.12, top=0.92)
    title = "Calls a second, of all processes (ringed: with errors or losses)"
    axes.set(xscale="log", yscale="log", xlabel="processes on one store", title=title)
    _lines(axes, lines, theme)
    for name, points in troubled.items():
        axes.plot(*zip(*points, strict=True), "o", ms=11, mfc="none", mec=theme.style(name)[0])
    axes.set_xticks([int(processes) for processes in several["processes"]])
    return figure


def _lines(axes: Any, lines: dict[str, list[tuple[int, float]]], theme: Theme) -> None:
    """A line for each store, with its name beside its end."""
    plain = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_locator(NullLocator())
    for name, points in lines.items():
        colour, line, mark = theme.style(name)
        ours = name == OURS
        axes.plot(
            *zip(*points, strict=True),
            linestyle=line,
            color=colour,
            marker=mark,
            ms=6 if ours else 4,
            lw=3 if ours else 1.4,
            zorder=4 if ours else 3,
        )
    axes.margins(y=0.12)
    axes.figure.canvas.draw()  # so that the places below are those of the plot
    to_axes = axes.transData + axes.transAxes.inverted()
    last = max(points[-1][0] for points in lines.values())
    ends, wanted = {}, []
    for name, points in lines.items():
        before, end = (to_axes.transform(point) for point in (points[-2:] * 2)[:2])
        ends[name] = end
        slope = (end[1] - before[1]) / (end[0] - before[0]) if end[0] > before[0] else 0.0
        # A line that ends early is led on as it went, so that it meets its name.
        wanted.append(float(end[1] + slope * (to_axes.transform((last, 1))[0] - end[0])))
    for (name, end), place in zip(ends.items(), _apart(wanted, 0.062), strict=True):
        colour = theme.style(name)[0]
        axes.annotate(
            name,
            xy=(float(end[0]) + 0.012, float(end[1])),
            xytext=(1.06, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            fontweight="bold" if name == OURS else "normal",
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "relpos": (0, 0.5)}
            | {"shrinkA": 2, "shrinkB": 0, "ls": ":"},
        )


def _apart(places: list[float], gap: float, low: float = 0.0, high: float = 1.0) -> list[float]:
    """Places in the same order, between low and high, with this gap between them."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = [min(max(places[index], low), high) for index in order]
    for _ in range(500):  # each time a little better
        for i in range(len(moved) - 1):
            if (lack := gap - (moved[i + 1] - moved[i])) > 0:
                moved[i] = max(moved[i] - lack / 2, low)
                moved[i + 1] = min(moved[i + 1] + lack / 2, high)
    result = list(places)
    for index, place in zip(order, moved, strict=True):
        result[index] = place
    return result


def _draw_space(growth: dict[str, Any], size: str, theme: Theme) -> Any:
    names = [
        name for name in growth["stores"][size] if "disk_bytes" in growth["stores"][size][name]
    ]
    figure, panels = plt.subplots(1, 2, figsize=(7.5, 0.9 + 0.28 * len(names)), sharey=True)
    figure.subplots_adjust(left=0.29, right=0.96, bottom=0.03, top=0.9, wspace=0.15)
    titles = (f"Disk for a memory, kB, at {int(size):,}", f"Memory, MB, at {int(size):,}")
    for axes, title, key, part in zip(
        panels, titles, ("disk_bytes", "memory_mb"), (None, "rss"), strict=True
    ):
        values = [_value(growth, size, name, key, part) or 0 for name in names]
        bars = axes.barh(names, values, color=[theme.style(name)[0] for name in names])
        for bar, name in zip(bars, names, strict=True):
            bar.set_alpha(1 if name == OURS else 0.6)
        axes.bar_label(bars, [number(value) for value in values], padding=3, color=theme.ink)
        axes.set(title=title, xticks=[])
        axes.margins(x=0.15)
        axes.grid(False)
        axes.tick_params(length=0)
        axes.spines["bottom"].set_visible(False)
    panels[0].invert_yaxis()
    for label in panels[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == OURS else "normal")
    return figure


def _draw_recall(recall: dict[str, Any], theme: Theme) -> Any:
    methods = recall["methods"]
    kinds = list(recall["scores"][_default(recall)])
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    rows = (len(methods) + 1) // 2
    figure.subplots_adjust(left=0.07, right=0.99, bottom=0.08, top=0.9 - 0.05 * rows)
    width = 0.84 / len(methods)
    for step, method in enumerate(methods):
        estimates = [recall["scores"][method][kind]["recall@5"] for kind in kinds]
        places = [i + (step - (len(methods) - 1) / 2) * width for i in range(len(kinds))]
        means = [each[0] for each in estimates]
        below = [max(each[0] - each[1], 0) for each in estimates]
        above = [max(each[2] - each[0], 0) for each in estimates]
        colour = theme.style(OURS)[0] if method == _default(recall) else theme.shade(step)
        axes.bar(places, means, width * 0.92, color=colour, label=method)
        axes.errorbar(places, means, [below, above], fmt="none", ecolor=theme.ink, lw=0.9)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(ylim=(0, 100))
    axes.tick_params(axis="x", length=0)
    axes.grid(False, axis="x")
    figure.suptitle("recall@5, %, by kind of question", x=0.07, y=0.98, ha="left", fontsize=10)
    figure.legend(loc="upper left", bbox_to_anchor=(0.06, 0.95), ncols=2, columnspacing=1.5)
    return figure


def _draw_tuning(recall: dict[str, Any], theme: Theme) -> Any:
    curve = recall["tuning"]
    kinds = [key for key in curve[0] if key not in ("weight", "recall@5")]
    figure, axes = plt.subplots(figsize=(7.5, 3.6))
    figure.subplots_adjust(left=0.07, right=0.8, bottom=0.14, top=0.9)
    axes.set(title="recall@5, %, on the questions to tune on", xlabel="weight of shared words")
    weights = [point["weight"] for point in curve]
    ends, names = [], ["recall@5", *kinds]
    for step, name in enumerate(names):
        values = [point[name] for point in curve]
        ours = name == "recall@5"
        colour = theme.style(OURS if ours else HUES[step % len(HUES)])[0]
        axes.plot(weights, values, "o-", color=colour, lw=3 if ours else 1.3, ms=6 if ours else 3.5)
        ends.append((values[-1], "all" if ours else name, colour))
    low, high = axes.get_ylim()
    places = _apart([end[0] for end in ends], (high - low) * 0.075, low, high)
    for (_, name, colour), place in zip(ends, places, strict=True):
        weight = "bold" if name == "all" else "normal"
        axes.annotate(
            name,
            (weights[-1], place),
            (8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontweight=weight,
            annotation_clip=False,
        )
    if (default := recall.get("weight")) is not None:
        axes.axvline(default, color=theme.ink, lw=0.8, ls=":", zorder=1)
        axes.annotate(
            "default",
            (default, low),
            (4, 4),
            textcoords="offset points",
            color=theme.ink,
            fontsize=8,
        )
    axes.set_ylim(low, high)
    return figure


def _alt_search(growth: dict[str, Any]) -> str:
    sizes = [f"{int(size):,}" for size in growth["stores"]]
    return f"Search time over {', '.join(sizes)} memories, for each store. The figures are below."


def _alt_space(size: str) -> str:
    return f"Disk and memory of each store at {int(size):,} memories. The figures are in the table."


def _alt_recall(recall: dict[str, Any]) -> str:
    return (
        f"recall@5 of {', '.join(recall['methods'])}, by kind of question. The figures are below."
    )
