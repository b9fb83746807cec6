"""What `stats` says about how memories are used, if that is recorded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click
from memory_semantic import counted

from .output import Output, local_time

if TYPE_CHECKING:
    from memory_semantic import Memory, Search

# What the statistics cover: searches of a month, and memories not found for a quarter of a year.
DAYS = 30
IDLE = timedelta(days=90)
_MOST = 5  # how many of the most recalled memories are shown


@dataclass(frozen=True)
class Recalled:
    """How often searches have found a memory, and when they last did."""

    id: str
    times: int
    last: datetime


@dataclass(frozen=True)
class UsageStats:
    """What the log says. It begins with the search at `first` and covers at most a year.

    `searches` counts them by day, in UTC, for the last 30 days; `answers` and `milliseconds` are
    the medians of these searches. `recalled` are the memories that were found, most often found
    first. `not_recalled` are the ids of memories stored before `not_recalled_since` that no search
    has found since: for 90 days, or since the log began.
    """

    searches: dict[str, int]
    first: datetime | None = None
    answers: float | None = None
    milliseconds: float | None = None
    recalled: list[Recalled] = field(default_factory=list)
    not_recalled: list[str] = field(default_factory=list)
    not_recalled_since: datetime | None = None


def statistics(
    recorded: Sequence["Search"], memories: Sequence["Memory"], now: datetime
) -> UsageStats:
    """What the `recorded` searches, oldest first, say about all `memories` of a store."""
    from statistics import median  # here, because help loads nothing heavy

    days = {(now.date() - timedelta(days=ago)).isoformat(): 0 for ago in reversed(range(DAYS))}
    lately = [search for search in recorded if search.time.date().isoformat() in days]
    for search in lately:
        days[search.time.date().isoformat()] += 1
    if not recorded:
        return UsageStats(days)
    times = Counter(id for search in recorded for id in search.ids)
    last = {id: search.time for search in recorded for id in search.ids}
    since = max(recorded[0].time, now - IDLE)
    found = [Recalled(m.id, times[m.id], last[m.id]) for m in memories if m.id in times]
    return UsageStats(
        searches=days,
        first=recorded[0].time,
        answers=median(len(search.ids) for search in lately) if lately else None,
        milliseconds=median(search.ms for search in lately) if lately else None,
        recalled=sorted(found, key=lambda each: (each.times, each.last), reverse=True),
        not_recalled=[
            memory.id
            for memory in memories
            if max(memory.timestamp, last.get(memory.id, memory.timestamp)) < since
        ],
        not_recalled_since=since,
    )


def searches(usage: UsageStats) -> str:
    """How many searches there were lately, and how long they took."""
    number = f"{sum(usage.searches.values()):,} in the last {len(usage.searches)} days"
    took = usage.milliseconds
    return number if took is None else f"{number}, median {took:,.0f} ms"


def draw(usage: UsageStats, memories: Sequence["Memory"], out: Output) -> None:
    """The memories recalled most, and how many were not recalled."""
    by_id = {memory.id: memory for memory in memories}
    if usage.recalled:
        out.line(click.style("\nRecalled most", bold=True))
        rows = (
            [f"{each.times:,}", local_time(each.last), each.id, by_id[each.id].content]
            for each in usage.recalled[:_MOST]
        )
        out.table(("times", "last", "id", "memory"), rows)
    if usage.not_recalled_since:
        since = f"{local_time(usage.not_recalled_since):.10}"
        number = counted(len(usage.not_recalled))
        out.line(f"\nStored before {since} and not recalled since: {number}")
