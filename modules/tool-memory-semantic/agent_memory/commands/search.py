"""Find memories: `search`."""

from collections.abc import Sequence
from datetime import datetime

import click

from ..options import command, limit_option, since_filter, tag_filter, until_filter
from ..session import Session, run


@command('search "which database did we pick?"', 'search "deploys" --since 30d --tag ops -n 3')
@click.argument("query", nargs=-1, required=True)
@limit_option(5, "How many at most, up to 20.")
@since_filter
@until_filter
@tag_filter
def search(
    session: Session,
    query: Sequence[str],
    limit: int,
    since: datetime | None,
    until: datetime | None,
    tags: Sequence[str],
) -> None:
    """Find memories by meaning, best first."""
    words, _ = session.storage.masked(" ".join(query))
    storage = session.existing
    select = storage.fitting
    found = run(storage.search(words, limit, since, tags, until=until, select=select))
    session.out.unfitting(found)
    for memory in found:
        memory.content, _ = storage.masked(memory.content)
    session.out.json(found)
    if session.out.piped:
        session.out.memories(found)
    else:
        for memory in found:
            session.out.memory(memory)
    if not found:
        session.out.note(f"{session.agent} has no such memories.")
