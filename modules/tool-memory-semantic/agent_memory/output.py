"""What a person reads in the terminal, and what a script reads instead.

The text of a memory is never taken for markup or terminal control: it may come from anywhere.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unicodedata import category, east_asian_width

import click
from memory_semantic import counted, limits, one_line, plain

if TYPE_CHECKING:
    from memory_semantic import Memory

_GAP = "  "  # between columns
_LONG = 400  # characters shown of a memory, except by `show`
_SHORT = 100  # characters shown of a memory that is beside the point
_DAY = len("2026-01-31")
_FIRST = 20  # memories shown before a question about all of them
_FAULTS = 10  # how many are listed, before "and … more"


class Output:
    """Standard output, for a person or, with `as_json`, for a script; notes go to standard error.

    A command says everything in both ways, and only what is for its reader is printed: `json` is
    for scripts, `warn` for both, all else for people. `piped` means that a program reads the
    output, JSON or not; `named` are the options of commands that are named in it. Click prints, and
    drops styles unless a terminal shows them.
    """

    def __init__(self, as_json: bool, named: str = "") -> None:
        self.as_json = as_json
        self._named = named
        self.piped = as_json or not sys.stdout.isatty()
        self._color = False if os.environ.get("NO_COLOR") else None

    def json(self, data: Any) -> None:
        """`data`, which may hold memories and times, as one JSON document; times in UTC."""
        if self.as_json:
            click.echo(json.dumps(data, indent=2, default=_json))

    def line(self, text: str = "") -> None:
        """One line, styled with `click.style`."""
        if not self.as_json:
            click.echo(text, color=self._color)

    def note(self, text: str) -> None:
        """A remark that is not part of the result; scripts do not get it."""
        if not self.as_json:
            click.echo(click.style(text, dim=True), err=True, color=self._color)

    def warn(self, text: str) -> None:
        """A remark that scripts, too, should not miss."""
        click.echo(click.style(plain(text), fg="yellow"), err=True, color=self._color)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows below the names of their columns, cut to the window; whole and separated by tabs
        when piped. A cell may be any text, and is shown on one line. Without rows, nothing is
        printed.
        """
        rows = [] if self.as_json else [[one_line(cell) for cell in row] for row in rows]
        if self.piped or not rows:
            for row in rows:
                self.line("\t".join(row))
            return
        widths = [max(map(_width, cells)) for cells in zip(columns, *rows, strict=True)]
        for number, row in enumerate([columns, *rows]):
            cells = (cell + " " * (w - _width(cell)) for cell, w in zip(row, widths, strict=True))
            line = _cut(_GAP.join(cells).rstrip(), window_columns())
            self.line(line if number else click.style(line, bold=True))

    def memories(self, memories: Sequence["Memory"]) -> None:
        """Memories, one per row: id, time, tags, text; and, if any is a copy, whom it is from. So
        that a window has room for the text, it gets the day, and tags behind the text.
        """
        from_others = any(memory.copied_from for memory in memories)
        columns = ["id", "stored", *(["from"] if from_others else []), "memory"]  # of a window
        rows = []
        for memory in memories:
            tags, text = " ".join(f"#{tag}" for tag in memory.tags), memory.content
            time = local_time(memory.timestamp)[: None if self.piped else _DAY] + _mark(memory)
            origin = [memory.copied_from or ""] if from_others else []
            told = [tags, *origin, text] if self.piped else [*origin, f"{text}  {tags}"]
            rows.append([memory.id, time, *told])
        self.table(columns, rows)

    def first_memories(self, memories: Sequence["Memory"]) -> None:
        """The first memories as a table, and how many more there are."""
        self.memories(memories[:_FIRST])
        if len(memories) > _FIRST:
            self.line(f"… and {len(memories) - _FIRST:,} more")

    def memory(self, memory: "Memory", whole: bool = False) -> None:
        """A memory to be read: its facts, then its text, or the beginning of it."""
        shown = f"{min(memory.score or 0, 1):.2f}  "  # boosts count for the order alone
        score = "" if memory.score is None else click.style(shown, fg="cyan")
        origin = f"  from {memory.copied_from}" if memory.copied_from and not whole else ""
        time = click.style(f"  {local_time(memory.timestamp)}{_mark(memory)}{origin}", dim=True)
        tags = click.style("".join(f"  #{one_line(tag)}" for tag in memory.tags), fg="cyan")
        self.line(f"{score}{click.style(memory.id, bold=True)}{time}{tags}")
        text = plain(memory.content) if whole else one_line(memory.content)
        if not whole and len(text) > _LONG:
            text = f"{text[:_LONG]}…  (agent-memory show {memory.id}{self._named})"
        if whole and memory.metadata:
            told = (f"{one_line(name)}: {one_line(said)}" for name, said in memory.metadata.items())
            self.line(click.style("  ".join(told), dim=True))
        self.line(f"{text}\n")

    def unfitting(self, found: Sequence["Memory"]) -> None:
        """Say that nothing which a search `found` fits well, if that is so."""
        if found and not any(memory.fit >= limits.FITS_A_PERSON for memory in found):
            self.note("Nothing fits well; the nearest are:")

    def masked(self, number: int) -> None:
        """Say that credentials were masked, if any were."""
        if number:
            self.note(f"{counted(number, 'credential')} masked.")

    @contextmanager
    def progress(self, doing: str, total: int) -> Iterator["Progress"]:
        """A bar with the time left, on standard error, if that is a terminal."""
        if self.as_json or not sys.stderr.isatty():
            yield Progress(None, total)
            return
        with click.progressbar(length=100, label=doing, file=sys.stderr) as bar:
            yield Progress(bar, total)
            bar.update(100 - bar.pos)


class Progress:
    """How much of the work is done."""

    def __init__(self, bar: Any, total: float) -> None:
        self._bar, self._total = bar, total

    def done(self, number: float, total: float | None = None) -> None:
        """`number` of the total are done. The total may become known, or change, on the way."""
        self._total = total or self._total
        if self._bar:
            self._bar.update(round(100 * number / self._total) - self._bar.pos)


def beginning(memory: "Memory") -> str:
    """Its id and the beginning of its text, on one line."""
    return f"{memory.id}: {one_line(memory.content)[:_SHORT]}"


def _mark(memory: "Memory") -> str:
    """What to know of a memory beside its time: that it is a rule, or does not hold, or ends."""
    ends = " expired" if memory.expired(datetime.now(UTC)) else " expires"
    rule = " pinned" if memory.pinned else ""
    return " replaced" if memory.replaced_by else rule + (ends if memory.expires else "")


def window_columns() -> int:
    """How wide the window is."""
    return shutil.get_terminal_size().columns


def _width(text: str) -> int:
    """How many columns of a terminal a line takes, or more: marks that join others take none."""
    wide = sum(east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(category(char) in ("Mn", "Me", "Cf") for char in text)


def _cut(line: str, columns: int) -> str:
    """As much of a line as fits."""
    if _width(line) <= columns:
        return line
    kept = line[:columns]
    while kept and _width(kept) >= columns:
        kept = kept[:-1]
    return f"{kept}…"


def local(moment: datetime) -> datetime:
    """`moment` in local time; in UTC if it is within hours of the first or the last moment that a
    datetime can hold, where local time may not exist.
    """
    try:
        return moment.astimezone()
    except (ValueError, OverflowError):
        return moment


def local_time(moment: datetime) -> str:
    """`moment` in local time, to the minute: `2026-01-31 09:00`."""
    return local(moment).replace(tzinfo=None).isoformat(" ", "minutes")


def memory_json(memory: "Memory") -> dict[str, Any]:
    """A memory for scripts; its score only if a search gave it one."""
    from memory_semantic import exchange

    fields = exchange.fields_of(memory.dict_for_storage())
    return fields if memory.score is None else {**fields, "score": round(min(memory.score, 1.0), 4)}


def _json(value: "Memory | datetime") -> Any:
    from memory_semantic import timestamp_text

    return timestamp_text(value) if isinstance(value, datetime) else memory_json(value)


def listed(faults: Sequence[str]) -> str:
    """The first faults, each on its own line, and how many more there are."""
    more = [f"and {len(faults) - _FAULTS:,} more"] if len(faults) > _FAULTS else []
    return "".join(f"\n  {fault}" for fault in [*faults[:_FAULTS], *more])
