"""The page and README's table, from the results that run.py has saved.

It measures nothing. Every figure and every comparison is computed; the sentences here are true
whatever the figures are.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import report_costs as costs
import report_readme as readme
import report_recall
import report_stores as stores
from tables import OURS, Row, bullets, cell, number, table

Results = dict[str, Any]

COMMANDS = """```bash
uv run benchmarks/run.py            # all that is not measured yet, into docs/
uv run benchmarks/run.py --again    # all of it
uv run benchmarks/run.py --quick    # a look, into a temporary folder
uv run benchmarks/run.py --parts recall,tokens
uv run benchmarks/run.py --redraw   # this page again, from results.json
```

`--help` tells of sizes and an embeddings service. Each store gets an environment of its
own from `uv`; their scripts are in `benchmarks/stores/`. [Figures that others
publish](published.md), such as those of LoCoMo, have a page of their own."""
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
# What others may be better at with several processes, as a number that is lower if it is better.
TOGETHER: dict[str, Callable[[Row], float | None]] = {
    "calls/s": stores.rate,
    "longest add ms": lambda row: (row.get("add_ms") or {}).get("max"),
    "longest search ms": lambda row: (row.get("search_ms") or {}).get("max"),
    "failed": lambda row: sum(row["failures"].values()) if "failures" in row else None,
    "lost": lambda row: row.get("lost"),
    "missed": lambda row: row.get("missed"),
}


def write(results: Results, folder: Path) -> None:
    """Write benchmarks.md into `folder`, and the table of the README beside it, if that has a place
    for one.
    """
    parts, ran = results["parts"], results["ran"]
    sections: dict[str, tuple[str, Callable[[], str]]] = {
        "Stores, as memories grow": ("growth", lambda: stores.grown(parts["growth"])),
        "Several processes on one store": ("several", lambda: stores.together(parts["several"])),
        "The first answer of a process": (
            "first_answer",
            lambda: costs.first_answer(parts["first_answer"]),
        ),
        "What version 1 asks for": ("growth", lambda: costs.version_1(parts)),
        "Does a search find the right memory?": (
            "recall",
            lambda: report_recall.section(parts["recall"]),
        ),
        "Tokens": ("tokens", lambda: costs.tokens(parts["tokens"])),
        "Recall before a prompt": (
            "recall_hook",
            lambda: report_recall.before_a_prompt(parts["recall_hook"]),
        ),
        "Where others are better": ("growth", lambda: bullets(_better(parts)) or "Nowhere."),
    }
    quick = any(each["quick"] for each in ran.values())
    head = (
        "# Benchmarks\n\nagent-memory beside what people would use instead. Written by "
        "`benchmarks/run.py` from [results.json](benchmarks/results.json), which also holds what "
        "the tables leave out."
    )
    text = [
        head,
        "**A quick look: few calls, three parts at a time. Not figures to quote.**"
        if quick
        else "",
        shown := readme.table_of(results),
        f"## Where and when\n\n{_where(ran, results)}",
        *(
            f"## {title}\n\n{_part(results, part, body)}"
            for title, (part, body) in sections.items()
        ),
        f"## What is not measured\n\n{bullets([*NOT_MEASURED, *_missing(parts)])}",
        f"## Run it yourself\n\n{COMMANDS}",
    ]
    (folder / "benchmarks.md").write_text("\n\n".join(each for each in text if each) + "\n")
    if shown:
        readme.put(shown, folder.parent / "README.md")


def _part(results: Results, name: str, body: Callable[[], str]) -> str:
    """A section, or a sentence about why it is empty or not whole."""
    failed = results["ran"].get(name, {}).get("failed")
    note = f"**This part is not complete: {cell(failed)}.**\n\n" if failed else ""
    if name not in results["parts"]:
        return note or "This part was not run."
    return note + body()


def _where(ran: Row, results: Results) -> str:
    machines: dict[str, list[str]] = {}
    for part, about in ran.items():
        machine = about["machine"]
        virtual = ", of a virtual machine" if machine["virtual"] else ""
        text = (
            f"{machine['cores']} cores{virtual}, {machine['cpu']} ({machine['architecture']}), "
            f"{machine['memory_gb']:.0f} GB of memory; "
            f"{machine['system']}, {machine['kernel']}; temporary files on "
            f"{machine['file_system'] or 'an unknown file system'}; Python {machine['python']}"
        )
        machines.setdefault(text, []).append(part)
    versions = {part: readme.version(results, part) for part in ran}
    rows = (
        [
            part,
            versions[part],
            about["started"][:16].replace("T", " "),
            number(about.get("seconds", 0) / 60),
            f"{about['load']:.1f}",
        ]
        for part, about in ran.items()
    )
    mixed = "**The parts are of several versions.**\n\n" if len(set(versions.values())) > 1 else ""
    heads = ["part", "version", "started (UTC)", "minutes", "load of the machine before"]
    lines = bullets(f"{', '.join(parts)}: {text}." for text, parts in machines.items())
    return f"{mixed}{lines}\n\n{table(heads, rows)}"


def _better(parts: Row) -> Iterator[str]:
    """Every figure of another store, model or method that is better than ours, ours in brackets."""
    for each in stores.MEASURES:
        found = [
            f"{int(size):,} memories ({number(each.of(rows[OURS]))}): {', '.join(names)}"
            for size, rows in parts["growth"]["stores"].items()
            if (names := [f"{name} {number(value)}" for name, value in stores.less(rows, each.of)])
        ]
        if found:
            yield f"**{each.name.capitalize()}**, {each.unit}. {'; '.join(found)}."
    for size, rows in parts["growth"]["stores"].items():
        for key in ("found", "found_week"):
            most = stores.less(rows, lambda row, key=key: -row[key] if row.get(key) else None)
            if names := ", ".join(f"{name} {-value:.0%}" for name, value in most):
                about = "Found" if key == "found" else "Found of the last week"
                yield f"**{about}**, {int(size):,} memories ({rows[OURS][key]:.0%}): {names}."
    for count, rows in parts.get("several", {"processes": {}})["processes"].items():
        found = []
        for what, of in TOGETHER.items():
            names = [f"{name} {number(abs(value))}" for name, value in stores.less(rows, of)]
            if names:
                found.append(f"{what} ({number(abs(of(rows[OURS]) or 0))}): {', '.join(names)}")
        if found:
            yield f"**Processes: {count}.** {'; '.join(found)}."
    if "recall" in parts:
        yield from report_recall.better(parts["recall"])


def _missing(parts: Row) -> Iterator[str]:
    """What some stores have no figures of, and why."""
    growth = parts.get("growth", {"environments": {}, "stores": {}})
    for name, environment in growth["environments"].items():
        if "failed" in environment:
            yield f"{name}: {cell(environment['failed'])}"
    for size, rows in growth["stores"].items():
        reasons: dict[str, list[str]] = {}
        for name, row in rows.items():
            if "failed" in row:
                reasons.setdefault(row["failed"], []).append(name)
        for reason, names in reasons.items():
            yield f"{int(size):,} memories: {', '.join(names)}: {cell(reason)}"
