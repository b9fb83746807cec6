"""The page and README's figures, from the results that run.py has saved.

It measures nothing. Every figure and every comparison is computed; the sentences here are true
whatever the figures are.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import report_costs as costs
import report_holds
import report_readme as readme
import report_recall
import report_stores as stores
from tables import Row, bullets, cell

Results = dict[str, Any]

COMMANDS = """```bash
uv run benchmarks/run.py            # all but LoCoMo, into docs/
uv run benchmarks/run.py --quick    # a look, into a temporary folder
uv run benchmarks/run.py --redraw   # this page again, from results.json
```

Each store gets an environment of its own from `uv`; their scripts are in `benchmarks/stores/`."""
NOT_MEASURED = [
    "Whether an agent works better with a memory than without.",
    "Services for embeddings: the stores get vectors that cost next to nothing.",
    "mem0 with a language model, which rewrites what is stored, and what MCP adds to a call.",
    "Servers: [what is known](limits.md#on-a-server).",
    "Loss of power, which is in the project's tests.",
]


def write(results: Results, folder: Path) -> None:
    """Write benchmarks.md into `folder`, and the figures of the README beside it, if that has a
    place for them.
    """
    parts, ran = results["parts"], results["ran"]
    sections: dict[str, tuple[str, Callable[[], str]]] = {
        readme.title_of(results): ("growth", lambda: readme.table_of(results)),
        "Stores, as memories grow": ("growth", lambda: stores.grown(parts["growth"])),
        "Does a search find the right memory?": (
            "recall",
            lambda: report_recall.section(parts["recall"]),
        ),
        "LoCoMo": ("locomo", lambda: report_recall.locomo(parts["locomo"])),
        "Recall before a prompt": (
            "recall_hook",
            lambda: report_recall.before_a_prompt(parts["recall_hook"]),
        ),
        "What holds": ("holds", lambda: report_holds.section(parts["holds"])),
        "Tokens": ("tokens", lambda: costs.tokens(parts["tokens"])),
        "Several processes on one store": ("several", lambda: stores.together(parts["several"])),
        "The first answer of a process": (
            "first_answer",
            lambda: costs.first_answer(parts["first_answer"]),
        ),
        "What version 1 asks for": ("growth", lambda: costs.version_1(parts)),
    }
    quick = any(each["quick"] for each in ran.values())
    text = [
        "# Benchmarks",
        "**A quick look: few calls. Not figures to quote.**" if quick else "",
        "Under each heading stand the command "
        "that measures what follows, and the version that it was run with; "
        f"[results.json](benchmarks/results.json) holds what the tables leave out. {_where(ran)}",
        COMMANDS,
        *(
            f"## {title}\n\n{_part(results, part, body)}"
            for title, (part, body) in sections.items()
        ),
        f"## What is not measured\n\n{bullets([*NOT_MEASURED, *_missing(parts)])}",
    ]
    (folder / "benchmarks.md").write_text("\n\n".join(each for each in text if each) + "\n")
    if shown := readme.shown(results):
        readme.put(shown, folder.parent / "README.md")


def _part(results: Results, name: str, body: Callable[[], str]) -> str:
    """A section with its command, or a sentence about why it is empty or not whole."""
    if name not in (ran := results["ran"]):
        return "This part was not run."
    options = " --locomo locomo10.json" if name == "locomo" else ""
    text = f"`uv run benchmarks/run.py --parts {name}{options}`, {readme.when(ran[name])}."
    if failed := ran[name].get("failed"):
        text += f"\n\n**This part is not complete: {cell(failed)}.**"
    return f"{text}\n\n{body()}" if name in results["parts"] else text


def _where(ran: Row) -> str:
    machines: dict[str, list[str]] = {}
    for part, about in ran.items():
        machines.setdefault(about["machine"], []).append(part)
    if len(machines) == 1:
        return f"Measured on {next(iter(machines))}."
    return "\n\n" + bullets(
        f"{', '.join(parts)}: {machine}." for machine, parts in machines.items()
    )


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
