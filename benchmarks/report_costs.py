"""The sections of the page about tokens, the first answer, and what version 1 asks for."""

from collections.abc import Iterable, Iterator

from report_stores import ADD, ASKING, MEASURES, SEARCH, Measure
from tables import NONE, OURS, Row, number, table

AIM = 300  # tokens of a call, recalled text included, in the token-efficient design
USUAL = 5  # memories of a search without a limit
FIRST = {  # milliseconds on the clock
    "a search, 1,000 memories": 150,
    "a search, 10,000 memories": 250,
    "`agent-memory search`, 1,000 memories": 200,
    "mounting, after amplifier_core": 30,
}
MEMORY = next(each for each in MEASURES if each.key == "memory_mb")
DISK = next(each for each in MEASURES if each.key == "disk_bytes")


def tokens(found: Row) -> str:
    """As Markdown, of what `tokens.measure` found."""
    every = {name: amount["tokens"] for name, amount in found["every_request"].items()}
    spelled = ", ".join(f"`{name}` {amount}" for name, amount in every.items())
    rows = [
        [
            row["call"] + (f", limit {row['limit']}" if row["limit"] else ""),
            f"{row['size']:,} of {row['characters']:,} characters",
            str(row["memories"]) if row["call"] == "search" else NONE,
            number(row["text"]),
            f"{number(row['overhead'])} (most {number(row['overhead_most'])})",
            number(row["overhead"] / row["memories"]) if row["memories"] else NONE,
        ]
        for row in found["calls"]
    ]
    heads = ["call", "memories in the store", "recalled", "text", "overhead (most)"]
    usual = list(_usual(found))
    stores, searches = (
        [row["text"] + row["overhead"] for row in usual if row["call"] == call]
        for call in ("store", "search")
    )
    beside = [row["overhead"] for row in usual if row["memories"] == USUAL]
    met = ["is within that" if max(each) <= AIM else "is not" for each in (stores, searches)]
    return "\n\n".join(
        [
            f"Counted with the tokenizer of {found['tokenizer']}, which needs no network and "
            "counts more than those of GPT do. What a provider wraps around a tool or a call is "
            "not in it. On every request: both tools as JSON, and what the bundle adds to the "
            "instructions, together "
            f"**{sum(every.values()):,}** ({spelled}).",
            "In each call: the text that is stored or recalled, and all else, which are the other "
            "arguments and the rest of the result. Medians.",
            table([*heads, "overhead a memory"], rows),
            f"The [token-efficient design](v1.md#the-token-efficient-design) aims at about {AIM} "
            "for a call, the recalled text included, and recalls two or three memories. By this "
            f"tokenizer, with memories of {usual[0]['characters']} characters and the default "
            f"limit of five, a store ({_range(stores)} in all) {met[0]}, and a search "
            f"({_range(searches)}) {met[1]}. With five recalled, what comes beside the text is "
            f"{_range(beside)} tokens, among {_range(row['size'] for row in usual)} memories.",
        ]
    )


def _usual(found: Row) -> Iterator[Row]:
    """The calls as a model makes them: short memories, the default limit."""
    shortest = min(row["characters"] for row in found["calls"])
    for row in found["calls"]:
        if row["characters"] == shortest and row["limit"] in (None, USUAL):
            yield row


def _range(values: Iterable[float]) -> str:
    ordered = sorted(values)
    return " to ".join(dict.fromkeys([number(ordered[0]), number(ordered[-1])]))


def first_answer(found: Row) -> str:
    """As Markdown, of what `first_answer.measure` found."""
    rows = (
        [name, *map(number, (row["clock"], FIRST.get(name), row["processor"], *steps))]
        for name, row in found.items()
        for steps in [row.get("steps", [None] * 3)]
    )
    missed = [name for name, aim in FIRST.items() if name in found and found[name]["clock"] > aim]
    heads = ["", "ms", "aim", "of the processor", "imports", "the model", "the search"]
    return "\n\n".join(
        [
            "With the built-in model, a new process for each; medians in milliseconds. The last "
            "three columns are the processor's, too. Where other work shares the machine, the "
            "processor's time is the better guide.",
            table(heads, rows),
            f"Longer than the aim: {'; '.join(missed) or 'none'}.",
            "What is left is not ours to shorten without another design: most of it are imports, "
            "of Python's own modules and of `pydantic`, which builds the classes of memories and "
            "settings, and the model, nearly all of it `tokenizers` reading 1.8 MB of vocabulary. "
            "The vectors are mapped, and neither numpy nor the patterns for times and keys are "
            "loaded before a text needs them.",
        ]
    )


def version_1(parts: Row) -> str:
    """The performance criteria of the V1 design and the targets of this project, as Markdown."""
    sizes = parts["growth"]["stores"]
    built_in = "agent-memory, built-in model"
    first = {name: row["clock"] for name, row in parts.get("first_answer", {}).items()}
    several = list(parts.get("several", {"processes": {"": {}}})["processes"].items())
    count, ours = several[-1][0], several[-1][1].get(OURS, {})
    longest = max(
        ((ours.get(key) or {}).get("max", 0) for key in ("add_ms", "search_ms")), default=0
    )
    lost = (
        f"{sum(ours['failures'].values())} failed, {ours['lost']} lost, " if "lost" in ours else ""
    )

    def at(size: str, name: str, measure: Measure, times: float = 1, unit: str = "") -> str:
        value = measure.of(sizes.get(size, {}).get(name, {}))
        return NONE if value is None else f"{number(value * times)} {unit or measure.unit}"

    mounting = "mounting, after amplifier_core"
    rows = [
        ["V1: search, 1,000 memories", "< 200 ms", at("1000", OURS, SEARCH)],
        ["V1: store, built-in model included", "< 500 ms", at("1000", built_in, ADD)],
        ["V1: memory taken, 1,000 memories", "< 50 MB", at("1000", OURS, MEMORY)],
        ["the same, with an embeddings service", "< 50 MB", at("1000", ASKING, MEMORY)],
        ["the same, with the built-in model", "< 50 MB", at("1000", built_in, MEMORY)],
        ["V1: disk, 10,000 memories", "< 2 MB", at("10000", OURS, DISK, 10, "MB")],
        ["search, 10,000 memories", "80 ms", at("10000", OURS, SEARCH)],
        ["store, 1,000 memories", "40 ms", at("1000", OURS, ADD)],
        ["store, 10,000 memories", "80 ms", at("10000", OURS, ADD)],
        ["disk for a memory, 10,000 memories", "4 kB", at("10000", OURS, DISK)],
        [mounting, f"{FIRST[mounting]} ms", f"{number(first.get(mounting))} ms"],
        [f"{count} processes", "no call over 1 s", f"{lost}longest {number(longest)} ms"],
    ]
    return "\n\n".join(
        [
            "From the tables above: medians of calls in a loop, which share an opening of the "
            "store. Memory is counted from a bare Python on, and so with what a session has loaded "
            "anyway.",
            table(["what", "target", "measured"], rows),
            "Nothing that keeps the vectors can meet V1's 2 MB: 1,536 numbers of 16 bits are 3 kB, "
            "and 10,000 such vectors 31 MB. The rest is text, indexes, backup and room to grow.",
        ]
    )
