"""The overview, in the terminal and as a page: `stats`."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from memory_semantic import counted, readable_size

from .. import charts, recalled
from ..options import command
from ..output import Output, local_time
from ..session import Session, run

if TYPE_CHECKING:
    from memory_semantic import Memory, Store

_MOST = 5  # how many of the most recalled memories are shown


@command("stats", "stats --html memory.html", "stats --json")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False), help="Write a page.")
def stats(session: Session, html: str | None) -> None:
    """Show numbers, growth and tags over time.

    With the setting `usage: true`, also shows which memories searches find and recall shows, how
    many neither does, and at how many prompts recall was silent.

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
    numbers = charts.count(memories)
    searches = storage.searches()
    usage = recalled.statistics(searches, memories) if searches else None
    info = run(storage.info())
    size = upkeep.size(session.place)
    model = info.model._asdict() if info else None
    facts = {"agent": session.agent, "bytes": size, "embedding": model}
    facts |= {"usage": usage} if usage else {}
    session.out.json({**facts, **asdict(numbers)})
    for name, value in (
        ("agent", session.agent),
        ("memories", f"{numbers.memories:,}, {counted(numbers.characters, 'character')}"),
        ("stored", charts.span(numbers)),
        ("server", session.place.address) if size is None else ("on disk", readable_size(size)),
        ("model", str(info.model) if info else "-"),
        *(_use(usage) if usage else []),
    ):
        session.out.line(f"{name:<10}{value}")
    charts.draw(numbers, session.out)
    if usage:
        _draw(usage, memories, session.out)


def _use(usage: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How many searches and prompts there were, as far as there were any."""
    since = f"since {local_time(usage['first']):.10}"
    if number := sum(usage["searches"].values()):
        yield "searches", f"{number:,} {since}, median {usage['milliseconds']:,.0f} ms"
    if number := usage["prompts"]["number"]:
        silent = usage["prompts"]["silent"] / number
        yield "prompts", f"{number:,} {since}, recall was silent at {silent:.0%}".replace("%", " %")


def _draw(usage: dict[str, Any], memories: Sequence["Memory"], out: Output) -> None:
    """The memories recalled most, and how many were not recalled."""
    texts = {memory.id: memory.content for memory in memories}
    if usage["recalled"]:
        out.line(click.style("\nRecalled most", bold=True))
        rows = (
            [f"{each['times']:,}", local_time(each["last"]), each["id"], texts[each["id"]]]
            for each in usage["recalled"][:_MOST]
        )
        out.table(("times", "last", "id", "memory"), rows)
    since = f"{local_time(usage['first']):.10}"
    number = counted(len(usage["not_recalled"]))
    out.line(f"\nStored before {since} and not recalled since: {number}")


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
    return store.info.model.model, memories, np.array(rows).reshape(len(rows), -1)
