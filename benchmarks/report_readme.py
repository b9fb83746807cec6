"""README's table, which is also the first of the page."""

from pathlib import Path
from typing import Any

import report_stores as stores
from tables import NONE, Row, default_method, number, table

Results = dict[str, Any]

BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->"  # around it


def put(text: str, file: Path) -> None:
    """Replace what `file` has between the markers, if it is there and has them."""
    if file.exists() and BEGIN in (whole := file.read_text()):
        before, _, rest = whole.partition(BEGIN)
        file.write_text(f"{before}{BEGIN}{text}\n{END}{rest.partition(END)[2]}")


def title_of(results: Results) -> str:
    """What the table is about."""
    size = stores.shown_size(results["parts"].get("growth"))
    return f"Among {int(size or 0):,} memories"


def table_of(results: Results) -> str:
    """README's table, with the sentence above it that names who is better; empty without ours."""
    growth, recall = (results["parts"].get(part) for part in ("growth", "recall"))
    if not growth or not (size := stores.shown_size(growth)):
        return ""
    rows = {name: row for name, row in growth["stores"][size].items() if row.get("search_ms")}
    count, final = stores.most_processes(results["parts"].get("several"))
    together = {name: row for name, row in final.items() if name in rows}
    better = [
        f"{each.name} ({', '.join(found)})"
        for each in stores.MEASURES
        if (found := [*stores.less(rows, each.of)])
    ]
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


def when(ran: Row) -> str:
    """The version of this project that a part was measured with, and the day."""
    return f"version {ran['version']} on {ran['started'][:10]}"


def _failed_and_lost(row: Row) -> str:
    if "lost" not in row:
        return NONE
    return number(sum(row["failures"].values()) + (row["lost"] or 0))
