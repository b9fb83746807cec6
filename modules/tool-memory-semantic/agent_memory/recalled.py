"""What the log of searches says about memories."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_semantic import Memory, Search


def statistics(recorded: Sequence["Search"], memories: Sequence["Memory"]) -> dict[str, Any]:
    """When the `first` search was recorded, the number of `searches` by day, in UTC, and the median
    of their `milliseconds`. `recalled` are the memories that they found, most often first, with the
    `last` time; `not_recalled`, those older than the log that none has found. Needs a search.
    """
    from statistics import median  # here, because help loads nothing heavy

    first = recorded[0].time
    times = Counter(id for search in recorded for id in search.ids)
    last = {id: search.time for search in recorded for id in search.ids}
    found = sorted((times[m.id], last[m.id], m.id) for m in memories if m.id in last)
    return {
        "first": first,
        "searches": Counter(f"{search.time:%Y-%m-%d}" for search in recorded),
        "milliseconds": median(search.ms for search in recorded),
        "recalled": [{"id": id, "times": n, "last": time} for n, time, id in reversed(found)],
        "not_recalled": [m.id for m in memories if m.id not in last and m.timestamp < first],
    }
