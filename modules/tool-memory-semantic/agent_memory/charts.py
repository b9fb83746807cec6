"""The numbers that `stats` shows, and how they are drawn in a terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import click
from memory_semantic import counted

from .output import Output, first_line, local, local_time, window_columns

if TYPE_CHECKING:
    from memory_semantic import Memory

_TOP_TAGS = 10
_PERIODS = 24  # rows that fit a window
# Days that lead from the start of a unit into the next one, never beyond it.
_YEARS = {"year": 1, "decade": 10, "century": 100}
_UNITS = {"day": 1, "week": 7, "month": 31} | {name: 366 * n for name, n in _YEARS.items()}
_SPARKS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 40


@dataclass
class Numbers:
    """What `stats` counts. `periods` says for each day, week, month, … (`unit`) from the first
    memory to the last how many were stored in it; `tags` says the same for each tag, the most
    used first.
    """

    memories: int
    characters: int
    first: datetime | None
    last: datetime | None
    unit: str
    periods: dict[str, int]
    tags: dict[str, dict[str, int]]
    untagged: int


def count(memories: Sequence["Memory"]) -> Numbers:
    """The numbers of `memories`, by the local calendar."""
    times = sorted(local(memory.timestamp) for memory in memories)
    unit, starts = _calendar(times[0].date(), times[-1].date()) if times else ("day", [])
    names = {start: _name(start, unit) for start in starts}

    def over_time(some: Sequence["Memory"]) -> dict[str, int]:
        found = Counter(_start(local(memory.timestamp).date(), unit) for memory in some)
        return {name: found[start] for start, name in names.items()}

    return Numbers(
        memories=len(memories),
        characters=sum(len(memory.content) for memory in memories),
        first=times[0] if times else None,
        last=times[-1] if times else None,
        unit=unit,
        periods=over_time(memories),
        tags={tag: over_time(tagged) for tag, tagged in _by_tag(memories).items()},
        untagged=sum(not memory.tags for memory in memories),
    )


def _by_tag(memories: Iterable["Memory"]) -> dict[str, list["Memory"]]:
    """The memories of each tag, in the order given; the most used tag first."""
    found: dict[str, list[Memory]] = {}
    for memory in memories:
        for tag in memory.tags:
            found.setdefault(tag, []).append(memory)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def draw(numbers: Numbers, out: Output) -> None:
    """Growth and tags over time, as bars."""
    from rich.cells import cell_len, set_cell_size

    if not numbers.first or not numbers.last:
        return
    most = max(numbers.periods.values())
    room = window_columns() - len(max(numbers.periods, key=len)) - len(f"   {most}")
    width = _BAR_WIDTH if out.piped else max(1, min(_BAR_WIDTH, room))
    out.line(click.style(f"\nStored per {numbers.unit}", bold=True))
    for name, number in numbers.periods.items():
        bar = "█" * -(-number * width // most)
        out.line(f"{click.style(name, dim=True)}  {click.style(bar, fg='cyan')} {number or ''}")
    if not numbers.tags:
        return
    out.line(click.style(f"\nTags, and when they were used (by {numbers.unit})", bold=True))
    names = [first_line(tag) for tag in numbers.tags][:_TOP_TAGS]
    longest = max(map(cell_len, names))
    for name, periods in zip(names, numbers.tags.values(), strict=False):
        most = max(periods.values())
        sparks = "".join(_spark(number, most) for number in periods.values())
        padded = set_cell_size(name, longest)
        out.line(f"#{padded}  {click.style(sparks, fg='cyan')}  {sum(periods.values()):,}")
    if rest := len(numbers.tags) - len(names):
        more = f"and {counted(rest, 'tag')} more: agent-memory stats --json"
        out.line(click.style(more, dim=True))
    if numbers.untagged:
        out.line(click.style(f"{numbers.untagged:,} without a tag", dim=True))


def span(numbers: Numbers) -> str:
    """The times of the first and the last memory, in words."""
    if not numbers.first or not numbers.last:
        return "nothing stored yet"
    return f"{local_time(numbers.first)} to {local_time(numbers.last)}"


def _spark(number: int, most: int) -> str:
    return _SPARKS[(number * len(_SPARKS) - 1) // most] if number else " "


def _calendar(first: date, last: date) -> tuple[str, list[date]]:
    """The finest unit that covers the whole time in few enough periods, else centuries; and the
    start of each period.
    """
    unit, starts = "", []
    for unit, step in _UNITS.items():
        starts = [_start(first, unit)]
        while starts[-1] < _start(last, unit) and len(starts) <= 10 * _PERIODS:
            # Into the next one, whatever its length, and back to its start.
            starts.append(_start(starts[-1] + timedelta(days=step), unit))
        if len(starts) <= _PERIODS:
            break
    return unit, starts


def _start(day: date, unit: str) -> date:
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    years = _YEARS.get(unit)
    return date(max(1, day.year - day.year % years), 1, 1) if years else day


def _name(start: date, unit: str) -> str:
    name = start.isoformat()[: {"day": 10, "week": 10, "month": 7}.get(unit, 4)]
    return f"{name[:-1]}0s" if unit in ("decade", "century") else name
