"""What a person reads in the terminal, and what a script reads instead.

Text of memories is never taken for markup or for terminal control: it may come from anywhere.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from memory_semantic.models import Memory, timestamp_text
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Wide enough for any line when nobody's window is known.
_PIPED_WIDTH = 100_000
_BEGINNING = 400  # characters of a memory among others
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Output:
    """Standard output, for a person or with `as_json` for a script; notes go to standard error."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.piped = not sys.stdout.isatty()
        width = _PIPED_WIDTH if self.piped else None
        self.console = Console(highlight=False, markup=False, emoji=False, width=width)
        self.notes = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def json(self, data: Any) -> None:
        """`data` as one JSON document; times in UTC."""
        print(json.dumps(data, indent=2, default=str))

    def line(self, text: str | Text = "", style: str = "") -> None:
        """One line for the person."""
        self.console.print(text if isinstance(text, Text) else Text(text), style=style)

    def masked(self, number: int) -> None:
        """Say that credentials were masked, if any were."""
        if number:
            self.note(
                "1 credential was masked." if number == 1 else f"{number} credentials were masked."
            )

    def memory(self, memory: Memory, whole: bool = False) -> None:
        """A memory to be read: its facts, then its text, or the beginning of it."""
        facts = Text(memory.id, "bold")
        if memory.score is not None:
            facts = Text.assemble((f"{memory.score:.2f}  ", "cyan"), facts)
        facts.append(f"  {local_time(memory.timestamp)}", "dim")
        facts.append("".join(f"  #{first_line(tag)}" for tag in memory.tags), "cyan")
        self.line(facts)
        text = plain(memory.content) if whole else first_line(memory.content)
        if not whole and len(text) > _BEGINNING:
            text = f"{text[:_BEGINNING]}…  (agent-memory show {memory.id})"
        self.line(text)
        self.line()

    def finding(self, state: str, subject: str, text: str, mend: str) -> None:
        """What the doctor found, and what mends it."""
        mark, style = {"ok": ("✓", "green"), "warning": ("!", "yellow")}.get(state, ("✗", "red"))
        self.line(Text.assemble((f"{mark} ", style), (f"{subject:<12}", "bold"), plain(text)))
        if mend:
            self.line(Text.assemble(" " * 14, ("→ ", "dim"), plain(mend)))

    def note(self, text: str) -> None:
        """A word beside the result: not part of what a script reads."""
        if not self.as_json:
            self.notes.print(text, style="dim", soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], last: str = "") -> None:
        """Rows under their columns, cut to the window; tab-separated and whole when piped.

        `last` is the style of the last column, which takes what room there is.
        """
        if self.piped:
            for row in rows:
                print("\t".join(row))
            return
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for column in columns[:-1]:
            table.add_column(column, no_wrap=True)
        table.add_column(columns[-1], style=last, no_wrap=True, overflow="ellipsis", ratio=1)
        for row in rows:
            table.add_row(*map(Text, row))
        self.console.print(table)

    @contextmanager
    def progress(self, doing: str, total: int) -> Iterator["Progress"]:
        """A bar with the time left, on standard error, if that is a terminal."""
        from rich import progress

        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            console=self.notes,
            transient=True,
            disable=self.as_json or not self.notes.is_terminal,
        )
        with bar:
            yield Progress(bar, bar.add_task(doing, total=total))


class Progress:
    """How far something is."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def done(self, number: float) -> None:
        """`number` of the total are done."""
        self._bar.update(self._task, completed=number)

    def done_of(self, number: float, total: float) -> None:
        """The same where the total becomes known, or changes, on the way."""
        self._bar.update(self._task, completed=number, total=total)


def plain(text: str) -> str:
    """`text` with a dot for each character that a terminal would obey: controls, and reversals of
    the writing direction. Tabs and line breaks stay.
    """
    return _CONTROL.sub("·", text)


def first_line(text: str) -> str:
    """`text` on one line."""
    return plain(" ".join(text.split()))


def local_time(moment: datetime) -> str:
    """`moment` as the clock on the wall showed it."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def memory_json(memory: Memory) -> dict[str, Any]:
    """A memory for scripts and for the export; its score only if a search gave it one."""
    fields: dict[str, Any] = {
        "id": memory.id,
        "timestamp": timestamp_text(memory.timestamp),
        "tags": memory.tags,
        "content": memory.content,
    }
    return fields if memory.score is None else {**fields, "score": round(memory.score, 4)}


def memory_row(memory: Memory) -> list[str]:
    """A memory as a row: id, time, tags, text."""
    tags = " ".join(f"#{first_line(tag)}" for tag in memory.tags)
    return [memory.id, local_time(memory.timestamp), tags, first_line(memory.content)]


MEMORY_COLUMNS = ("id", "stored", "tags", "memory")


def size_on_disk(folder: Path) -> int:
    """Bytes that the files in `folder` really take; the engine's are sparse."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except FileNotFoundError:  # another process is at work
            continue
    return total


def readable_size(size: float) -> str:
    """Bytes as people say them: `3.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
