"""README's table, which is also the first of the page."""

from pathlib import Path
from typing import Any

import report_stores as stores
from tables import NONE, OURS, Row, default_method, number, strong, table

Results = dict[str, Any]

BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->"  # around it


def put(text: str, file: Path) -> None:
    """Replace what `file` has between the markers, if it is there and has them."""
    if file.exists() and BEGIN in (whole := file.read_text()):
        before, _, rest = whole.partition(BEGIN)
        file.write_text(f"{before}{BEGIN}{text}\n{END}{rest.partition(END)[2]}")


def table_of(results: Results) -> str:
    """README's table, with the sentence above it that names who is better; empty without ours."""
    growth, recall = (results["parts"].get(part) for part in ("growth", "recall"))
    if not growth or not (size := stores.shown_size(growth)):
        return ""
    rows = {
        name: row
        for name, row in growth["stores"][size].items()
        if name != stores.LIMIT and row.get("search_ms")
    }
    count, final = stores.most_processes(results["parts"].get("several"))
    together = {name: row for name, row in final.items() if name in rows}
    better = [
        f"{each.name} ({', '.join(name for name, _ in found)})"
        for each in stores.MEASURES
        if (found := [*stores.less(rows, each.of)])
    ]
    if more := [*stores.less(together, stores.rate)]:
        better.append(f"calls of {count} processes ({', '.join(name for name, _ in more)})")
    heads = [
        each.name + (f", {each.unit}" if each.unit != "ms" else "") for each in stores.MEASURES
    ]
    heads += [f"{count} processes, calls/s", "failed + lost"] if together else []
    cells = (
        [
            strong(name),
            *(number(each.of(row)) for each in stores.MEASURES),
            number(together.get(name, {}).get("calls_per_second")),
            _failed_and_lost(together.get(name, {})),
        ]
        for name, row in rows.items()
    )
    text = [
        f"Among {int(size):,} memories of {growth['dimensions']:,} dimensions, version "
        f"{version(results, 'growth')} on {results['ran']['growth']['started'][:10]}, beside what "
        "people would use instead. Times are medians in milliseconds; a call alone comes after a "
        "pause, in which ours closes its store. **Others are better** at: "
        f"{'; '.join(better) or 'nothing'}.",
        table(["", *heads], (row[: len(heads) + 1] for row in cells)),
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


def version(results: Results, part: str) -> str:
    """The version of this project that a part was measured with."""
    environments = results["parts"].get("growth", {}).get("environments", {})
    package = environments.get(OURS, {}).get("versions", {})
    known = package.get("amplifier-module-tool-memory-semantic", NONE) if part == "growth" else NONE
    return results["ran"][part].get("version", known)


def _failed_and_lost(row: Row) -> str:
    if "lost" not in row:
        return NONE
    return number(sum(row["failures"].values()) + (row["lost"] or 0))
