"""The overview, in the terminal and as a page: `stats`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from memory_semantic import counted, one_line, readable_size

from .. import recalled
from ..options import command
from ..output import local, local_time
from ..session import Session, run

if TYPE_CHECKING:
    from memory_semantic import Memory, Store

_TOP_TAGS = 10
_PERIODS = 24  # rows that fit a window
_UNITS = {"day": 10, "month": 7, "year": 4}  # the characters of a date that name it
_BAR_WIDTH = 40


@command("stats", "stats --html memory.html", "stats --json")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False), help="Write a page.")
def stats(session: Session, html: str | None) -> None:
    """Show numbers, growth and tags.

    With the setting `usage: true`, also shows how many searches there were, and at how many prompts
    recall was silent; which memories they found is in the JSON and on the page.

    With --html, writes a page for the browser: a list, the memories over time, and search; with the
    extra `map` installed ([cli,map]), also a map by meaning. The page is one file and loads nothing
    from the network.
    """
    if html:
        _write_page(session, html)
        return
    from memory_semantic import upkeep

    storage = session.existing
    memories = run(storage.get_recent(None))
    numbers = _numbers(memories)
    searches = storage.searches()
    usage = recalled.statistics(searches, memories) if searches else None
    info = run(storage.info())
    size = upkeep.size(session.place)
    model = info.model._asdict() if info else None
    facts = {"agent": session.agent, "bytes": size, "embedding": model}
    session.out.json({**facts, **({"usage": usage} if usage else {}), **numbers})
    times = [local_time(numbers[which]) for which in ("first", "last") if numbers[which]]
    for name, value in (
        ("agent", session.agent),
        ("memories", f"{len(memories):,}, {counted(numbers['characters'], 'character')}"),
        ("stored", " to ".join(times) or "nothing stored yet"),
        ("server", session.place.address) if size is None else ("on disk", readable_size(size)),
        ("model", str(info.model) if info else "-"),
        *(_use(usage) if usage else []),
    ):
        session.out.line(f"{name:<10}{value}")
    if memories:
        _draw(numbers, session)


def _numbers(memories: Sequence["Memory"]) -> dict[str, Any]:
    """What is counted, by the local calendar: `periods` says for each day, month or year (`unit`)
    in which any was stored how many were; `tags` how many have each, the most used first.
    """
    times = sorted(local(memory.timestamp) for memory in memories)
    by = {unit: Counter(time.isoformat()[:n] for time in times) for unit, n in _UNITS.items()}
    unit = next((unit for unit, periods in by.items() if len(periods) <= _PERIODS), "year")
    tags = Counter(tag for memory in memories for tag in sorted(memory.tags))
    return {
        "memories": len(memories),
        "characters": sum(len(memory.content) for memory in memories),
        "first": times[0] if times else None,
        "last": times[-1] if times else None,
        "unit": unit,
        "periods": by[unit],
        "tags": dict(tags.most_common()),
        "untagged": sum(not memory.tags for memory in memories),
    }


def _draw(numbers: dict[str, Any], session: Session) -> None:
    """Growth as bars, and the tags."""
    out = session.out
    most = max(numbers["periods"].values())
    out.line(click.style(f"\nStored per {numbers['unit']}", bold=True))
    for name, number in numbers["periods"].items():
        bar = click.style("█" * -(-number * _BAR_WIDTH // most), fg="cyan")
        out.line(f"{click.style(name, dim=True)}  {bar} {number:,}")
    if numbers["tags"]:
        out.line(click.style("\nTags", bold=True))
    for tag, number in list(numbers["tags"].items())[:_TOP_TAGS]:
        out.line(f"{number:>7,}  #{one_line(tag)}")
    if (rest := len(numbers["tags"]) - _TOP_TAGS) > 0:
        all = f"agent-memory stats --json{session.named}"
        out.line(click.style(f"and {counted(rest, 'tag')} more: {all}", dim=True))


def _use(usage: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How many searches and prompts there were, as far as there were any."""
    since = f"since {local_time(usage['first']):.10}"
    if number := sum(usage["searches"].values()):
        yield "searches", f"{number:,} {since}, median {usage['milliseconds']:,.0f} ms"
    if number := usage["prompts"]["number"]:
        silent = usage["prompts"]["silent"] / number
        yield "prompts", f"{number:,} {since}, recall was silent at {silent:.0%}".replace("%", " %")


def _write_page(session: Session, file: str) -> None:
    from ..page import projection, write_page

    storage = session.existing
    model, memories, vectors = run(storage.run(_contents, ("", [], None)))
    places = None
    if projection.installed():
        with session.out.progress("Drawing the map", 1) as progress:
            places = projection.project(vectors, progress.done)
    write_page(file, session.agent, model, memories, places, storage.searches())
    session.out.json({"agent": session.agent, "file": file, "memories": len(memories)})
    number = f"{counted(len(memories))} of {session.agent}"
    session.out.line(f"{number} written to {file}. Open it in a browser.")


def _contents(store: "Store") -> tuple[str, list["Memory"], Any]:
    """The model of a store, its memories, and their vectors as rows."""
    import numpy as np

    memories, rows = [], []
    for memory in store.scan(vectors=True):
        rows.append(np.array(memory.embedding, dtype=np.float32))
        memories.append(memory.model_copy(update={"embedding": []}))
    model = store.info.model
    return model.model, memories, np.array(rows).reshape(len(rows), model.dimensions)
