"""The figures of the documents, between `<!-- measured NAME -->` and `<!-- /measured -->`.

The words around them are the documents' own; what is between comes from the saved results alone.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Options = argparse.Namespace
Row = dict[str, Any]
Log = Callable[[str], None]

NONE = "\N{EN DASH}"  # a cell without a figure, and what stands between the ends of a range
OURS = "agent-memory"
BUILT_IN = f"{OURS}, built-in model"  # how most people use it
_BLOCK = re.compile(r"<!-- measured (?P<name>[\w ]*?) ?-->\n.*?<!-- /measured -->", re.DOTALL)


def number(value: float | None) -> str:
    """Two or three digits, as many as mean something."""
    if value is None:
        return NONE
    if abs(value) >= 9.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 0.995 else f"{value:.2g}"


def strong(name: str, emphasised: str = OURS) -> str:
    """The name, in bold if it is the one that a table is about."""
    return f"**{name}**" if name == emphasised else name


def of(counts: Sequence[int] | float) -> str:
    """So many of so many, or a number."""
    return number(counts) if isinstance(counts, int | float) else f"{counts[0]} of {counts[1]}"


def cell(text: Any) -> str:
    """A text of elsewhere, so that it cannot end a cell or start a tag."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def bullets(lines: Iterable[str]) -> str:
    """A list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> str:
    """A table in Markdown; all columns but the first are numbers unless it is of `words`."""
    head, *lines = ["| " + " | ".join(line) + " |" for line in (heads, *rows)]
    return "\n".join(
        [head, "|---" + ("|---" if words else "|--:") * (len(heads) - 1) + "|", *lines]
    )


def stamp(name: str, ran: Row) -> str:
    """The command that measured a part, with which version and when, and what went wrong."""
    options = " --locomo locomo10.json" if name == "locomo" else ""
    quick = " --quick" if ran["quick"] else ""
    text = f"`uv run benchmarks/run.py --parts {name}{options}{quick}`, {when(ran)}."
    text += " **A quick look: few calls. Not figures to quote.**" if quick else ""
    failed = ran.get("failed")
    return text + (f"\n\n**This part is not complete: {cell(failed)}.**" if failed else "")


def when(ran: Row) -> str:
    """The version of this project that a part was measured with, and the day."""
    return f"version {ran['version']} on {ran['started'][:10]}"


def fill(text: str, blocks: dict[str, str]) -> str:
    """The text of a document with these blocks; one that is not there was not run."""

    def new(old: re.Match[str]) -> str:
        inside = blocks.get(old["name"] or "readme", "This part was not run.")
        first, _, _ = old[0].partition("\n")
        return f"{first}\n{inside}\n<!-- /measured -->"

    return _BLOCK.sub(new, text)


def write(blocks: dict[str, str], source: Path, target: Path) -> None:
    """Fill the README and the documents of the project at `source`; `target` may be another."""
    for file in (source / "README.md", *(source / "docs").glob("*.md")):
        old = file.read_text("utf-8")
        text = fill(old, blocks)
        if text != old or (target != source and _BLOCK.search(text)):
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
