"""What `stats` says about how memories are used, if that is recorded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .output import Output, counted, local_time

if TYPE_CHECKING:
    from memory_semantic import Memory, UsageStats

_MOST = 5  # how many of the most recalled memories are shown


def searches(usage: "UsageStats") -> str:
    """How many searches there were lately, and how long they took."""
    number = f"{sum(usage.searches.values()):,} in the last {len(usage.searches)} days"
    took = usage.milliseconds
    return number if took is None else f"{number}, median {took:,.0f} ms"


def draw(usage: "UsageStats", memories: Sequence["Memory"], out: Output) -> None:
    """The memories recalled most, and how many were not recalled."""
    by_id = {memory.id: memory for memory in memories}
    most = [each for each in usage.recalled if each.id in by_id][:_MOST]
    if most:
        out.line(click.style("\nRecalled most", bold=True))
        rows = (
            [f"{each.times:,}", local_time(each.last), each.id, by_id[each.id].content]
            for each in most
        )
        out.table(("times", "last", "id", "memory"), rows)
    if usage.not_recalled_since:
        since = f"{local_time(usage.not_recalled_since):.10}"
        number = counted(len(usage.not_recalled))
        out.line(f"\nStored before {since} and not recalled since: {number}")
