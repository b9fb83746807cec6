"""The sections of the page about tokens, the first answer, and what version 1 asks for."""

from report_stores import ADD, ASKING, DISK, MEMORY, SEARCH, Measure, most_processes
from tables import NONE, OURS, Row, number, table

FIRST = {  # milliseconds on the clock
    "a search, 1,000 memories": 150,
    "a search, 10,000 memories": 250,
    "`agent-memory search`, 1,000 memories": 200,
    "`agent-memory mcp`, its first answer": 150,
    "… to its first search": 1_100,
    "… a hook before a later prompt": 50,
    "`agent-memory hook` at a start, 60 memories": 60,
    "mounting, after amplifier_core": 30,
}
BUILT_IN = "agent-memory, built-in model"


def tokens(found: Row) -> str:
    """As Markdown, of what `tokens.measure` found, in the largest store."""
    every = {name: amount["tokens"] for name, amount in found["every_request"].items()}
    spelled = ", ".join(f"`{name}` {amount}" for name, amount in every.items())
    size = max(row["size"] for row in found["calls"])
    rows = [
        [
            row["call"] + (f", limit {row['limit']}" if row["limit"] else ""),
            number(row["text"]),
            f"{number(row['overhead'])} (most {number(row['overhead_most'])})",
            number(row["text"] + row["overhead"]),
        ]
        for row in found["calls"]
        if row["size"] == size
    ]
    return "\n\n".join(
        [
            f"By the tokenizer of {found['tokenizer']}, which counts about a fifth more than "
            "OpenAI's. On every request, what describes the tools, with what the bundle adds to "
            f"the instructions: **{sum(every.values()):,}** ({spelled}). In each call, among "
            f"{size:,} memories of {found['calls'][0]['characters']} characters, the text that is "
            "stored or recalled, and all else, which are the other arguments and the rest of the "
            "result; medians.",
            table(["call", "text", "else", "together"], rows),
            "The [token-efficient design](v1.md#the-token-efficient-design) aims at about 300 for "
            "a call, and recalls two or three memories.",
        ]
    )


def first_answer(found: Row) -> str:
    """As Markdown, of what `first_answer.measure` found."""
    rows = (
        [name, *map(number, (row["clock"], FIRST.get(name), row.get("processor"), *steps))]
        for name, row in found.items()
        for steps in [row.get("steps", [None] * 3)]
    )
    heads = ["", "ms", "aim", "of the processor", "imports", "the model", "the search"]
    return "\n\n".join(
        [
            "With the built-in model, a new process for each; medians in milliseconds, the last "
            "three columns the processor's, too.",
            table(heads, rows),
        ]
    )


def version_1(parts: Row) -> str:
    """The performance criteria of the V1 design and the targets of this project, as Markdown."""
    sizes = parts["growth"]["stores"]
    mounting = "mounting, after amplifier_core"
    first = parts.get("first_answer", {}).get(mounting, {}).get("clock")
    count, final = most_processes(parts.get("several"))
    spreads = (final.get(OURS, {}).get(key) or {} for key in ("add_ms", "search_ms"))
    longest = max((spread.get("max", 0) for spread in spreads), default=0)

    def at(size: str, name: str, measure: Measure, times: float = 1, unit: str = "") -> str:
        value = measure.of(sizes.get(size, {}).get(name, {}))
        return NONE if value is None else f"{number(value * times)} {unit or measure.unit}"

    rows = [
        ["V1: search, 1,000 memories", "< 200 ms", at("1000", OURS, SEARCH)],
        ["V1: store, built-in model included", "< 500 ms", at("1000", BUILT_IN, ADD)],
        ["V1: memory taken, 1,000 memories", "< 50 MB", at("1000", OURS, MEMORY)],
        ["the same, with an embeddings service", "< 50 MB", at("1000", ASKING, MEMORY)],
        ["the same, with the built-in model", "< 50 MB", at("1000", BUILT_IN, MEMORY)],
        ["V1: disk, 10,000 memories", "< 2 MB", at("10000", OURS, DISK, 10, "MB")],
        [mounting, f"{FIRST[mounting]} ms", f"{number(first)} ms"],
        [f"{count} processes", "no call over 1 s", f"longest {number(longest)} ms"],
    ]
    return "\n\n".join(
        [
            "Medians of calls in a loop, which share an opening of the store.",
            table(["what", "target", "measured"], rows),
            "Nothing that keeps the vectors can meet V1's 2 MB: 10,000 of 1,536 numbers of 16 bits "
            "are 31 MB.",
        ]
    )
