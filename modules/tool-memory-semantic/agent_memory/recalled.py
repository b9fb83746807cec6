"""What the log of searches and prompts says about memories."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_semantic import Memory, Search


def statistics(recorded: Sequence["Search"], memories: Sequence["Memory"]) -> dict[str, Any]:
    """When the `first` line was recorded, the number of `searches` by day, in UTC, and the median
    of their `milliseconds`, None without any; of the `prompts`, how many there were, and at how
    many recall was `silent`. `recalled` are the memories that searches found or recall showed, most
    often first, with the `last` time; `not_recalled`, those older than the log that were neither.
    Needs a line.
    """
    from statistics import median  # here, because help loads nothing heavy

    first = recorded[0].time
    searches = [search for search in recorded if not search.prompt]
    prompts = [search for search in recorded if search.prompt]
    times = Counter(id for search in recorded for id in search.ids)
    last = {id: search.time for search in recorded for id in search.ids}
    found = sorted((times[m.id], last[m.id], m.id) for m in memories if m.id in last)
    return {
        "first": first,
        "searches": Counter(f"{search.time:%Y-%m-%d}" for search in searches),
        "milliseconds": median(search.ms for search in searches) if searches else None,
        "prompts": {"number": len(prompts), "silent": sum(not each.ids for each in prompts)},
        "recalled": [{"id": id, "times": n, "last": time} for n, time, id in reversed(found)],
        "not_recalled": [m.id for m in memories if m.id not in last and m.timestamp < first],
    }
