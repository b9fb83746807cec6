"""README's figures, and the table that comes first on the page."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import report_stores as stores
from tables import NONE, OURS, Row, default_method, number, table

Results = dict[str, Any]

BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->"  # around README's figures
ALONE = ("lone_ms", "lone_add_ms", "forget_ms")  # what README compares


def put(text: str, file: Path) -> None:
    """Replace what `file` has between the markers, if it is there and has them."""
    if file.exists() and BEGIN in (whole := file.read_text()):
        before, _, rest = whole.partition(BEGIN)
        file.write_text(f"{before}{BEGIN}{text}\n{END}{rest.partition(END)[2]}")


def shown(results: Results) -> str:
    """README's figures: how well it finds, and how fast; empty where a part of them is missing."""
    growth, recall, locomo, holds = (
        results["parts"].get(part) for part in ("growth", "recall", "locomo", "holds")
    )
    if not (recall and locomo and holds and (size := stores.shown_size(growth))):
        return ""
    five, words = (
        f"{recall['scores'][method]['all']['recall@5'][0]:.0f} %"
        for method in (default_method(recall), "BM25")
    )
    asked, turns = recall["scores"]["BM25"]["all"]["n"], locomo["by session, local"]
    least, needed = min(each["with others"]["needed"] for each in holds["loops"].values())
    found = [
        [
            f"{asked} questions about two years of a team's work",
            f"{five} among the first five; by keywords {words}",
        ],
        [
            f"{turns['with evidence']:,} questions of LoCoMo, by session",
            f"{100 * turns['any@5'] / turns['with evidence']:.0f} % among the first five",
        ],
        [
            "what first prompts need, among 600 other memories",
            f"{least} of {needed}, without a search",
        ],
    ]
    rows = _measured(growth, size)
    ours = {each.key: number(each.of(rows[OURS])) for each in stores.MEASURES}
    alone = [each for each in stores.MEASURES if each.key in ALONE]
    return "\n\n".join(
        [
            table(["with the built-in model", "found"], found, words=True),
            f"{title_of(results)}, a search that comes alone took {ours['lone_ms']} ms, a store "
            f"{ours['lone_add_ms']} ms, and a forget, after which no file has the text, "
            f"{ours['forget_ms']} ms ({when(results['ran']['growth'])}). **Others are faster** at: "
            f"{'; '.join(_better(rows, alone)) or 'nothing'}. [All figures](docs/benchmarks.md).",
        ]
    )


def title_of(results: Results) -> str:
    """What the table is about."""
    size = stores.shown_size(results["parts"].get("growth"))
    return f"Among {int(size or 0):,} memories"


def table_of(results: Results) -> str:
    """The page's table, with the sentence above it that names who is better; empty without ours."""
    growth, recall = (results["parts"].get(part) for part in ("growth", "recall"))
    if not growth or not (size := stores.shown_size(growth)):
        return ""
    rows = _measured(growth, size)
    count, final = stores.most_processes(results["parts"].get("several"))
    together = {name: row for name, row in final.items() if name in rows}
    better = _better(rows, stores.MEASURES)
    if more := [*stores.less(together, stores.rate)]:
        better.append(f"calls of {count} processes ({', '.join(more)})")
    heads = [f"{count} processes, calls/s", "failed + lost"] if together else []
    cells = (
        [
            *cells,
            number(together.get(name, {}).get("calls_per_second")),
            _failed_and_lost(together.get(name, {})),
        ][: 1 + len(stores.HEADS) + len(heads)]
        for name, cells in zip(rows, stores.cells_of(rows), strict=True)
    )
    text = [
        f"{title_of(results)} of {growth['dimensions']:,} dimensions, "
        f"{when(results['ran']['growth'])}, beside what people would use instead. Times are "
        "medians in milliseconds; a call alone comes after a pause, in which ours closes its "
        f"store. **Others are better** at: {'; '.join(better) or 'nothing'}. Who asks a service "
        "for its vectors is compared with ours that does.",
        table(["", *stores.HEADS, *heads], cells),
        "Some are faster because they stay open. Here a call that comes alone opens the store and "
        "closes it, so that any number of sessions can use one. To forget takes seconds, because "
        "the store is written anew without the text before it is reported, so that no file has it; "
        "the others do not promise that.",
    ]
    if recall:
        scores = recall["scores"]
        found, words = (scores[each]["all"] for each in (default_method(recall), "BM25"))
        text.append(
            f"Of the answers to {found['n']} questions about two years of a team's work, "
            f"{found['recall@5'][0]:.0f} % are among the first five results with the built-in "
            f"model, and {words['recall@5'][0]:.0f} % by keywords alone (BM25)."
        )
    return "\n\n".join(text)


def _measured(growth: Results, size: str) -> dict[str, Row]:
    """The rows of this size that have figures."""
    return {name: row for name, row in growth["stores"][size].items() if row.get("search_ms")}


def _better(rows: dict[str, Row], measures: Iterable[stores.Measure]) -> list[str]:
    """At what others are better, and who."""
    named = ((each.name, ", ".join(stores.less(rows, each.of))) for each in measures)
    return [f"{name} ({who})" for name, who in named if who]


def when(ran: Row) -> str:
    """The version of this project that a part was measured with, and the day."""
    return f"version {ran['version']} on {ran['started'][:10]}"


def _failed_and_lost(row: Row) -> str:
    if "lost" not in row:
        return NONE
    return number(sum(row["failures"].values()) + (row["lost"] or 0))
