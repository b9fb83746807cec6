"""Delete for good: `forget`."""

import signal
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
from memory_semantic import InputError, counted

from ..options import When, command, since_filter, tag_filter, yes_option
from ..session import Session, ask, confirm, fail, run
from .memories import beginning, by_id

if TYPE_CHECKING:
    from memory_semantic import Memory


@command(
    "forget mem-a3f2b8c1d4e5",
    'forget "the coffee machine"',
    "forget --tag draft --since 1d",
    "forget --before 2025-01-01 --yes",
)
@click.argument("ids", nargs=-1, metavar="[ID]... | WORDS")
@tag_filter
@since_filter
@click.option("--before", type=When(), help="Only those stored before: 2025-01-31, 52w.")
@yes_option
def forget(
    session: Session,
    ids: Sequence[str],
    tags: Sequence[str],
    since: datetime | None,
    before: datetime | None,
    yes: bool,
) -> None:
    """Delete memories for good.

    Shows them and asks first; for words, offers what a search finds. Afterwards, they are gone from
    search and from the files on disk; a server removes them from its files later.
    """
    if bool(ids) == bool(tags or since or before):
        raise click.UsageError("Name memories by ids or words, or by --tag, --since and --before.")
    if session.out.as_json and not yes:
        raise click.UsageError("With --json nothing is shown before it is deleted: add --yes.")
    storage = session.existing
    if ids:
        from memory_semantic import clean_ids  # here, because help loads nothing heavy

        try:
            ids = clean_ids(ids)
        except InputError:  # these are words
            if yes or any(each.startswith("mem-") for each in ids):
                raise
            words, _ = storage.masked(" ".join(ids))
            found = run(storage.search(words, select=storage.fitting))
            doomed = [each for each in found if ask(f"{beginning(each)}\nForget this one?")]
            if found and not doomed:
                session.out.note("Nothing was changed.")
                return
        else:
            doomed = by_id(session, ids)
    else:
        found = run(storage.get_recent(None, since, before, tags))
        ids = [memory.id for memory in found if not before or memory.timestamp < before]
        doomed = run(storage.with_ids(ids))
    _forget(session, doomed, yes)


def _forget(session: Session, doomed: Sequence["Memory"], yes: bool) -> None:
    session.out.first_memories(doomed)
    sentence, ids = "", [memory.id for memory in doomed]
    again: list[str] = []
    if doomed:
        confirm(f"Delete {counted(len(doomed))} of {session.agent} for good?", yes)
        again = _delete(session, doomed)
        sentence = session.place.forgotten
    result = {"agent": session.agent, "forgotten": ids}
    session.out.json(result | ({"holds_again": again} if again else {}))
    if doomed:
        session.out.line(f"Forgotten: {len(doomed):,}. {sentence}")
        if again:
            session.out.note(f"What they had replaced holds again: {', '.join(again)}")
    else:
        session.out.note(f"{session.agent} has no such memories. Nothing was changed.")


def _delete(session: Session, doomed: Sequence["Memory"]) -> list[str]:
    """Delete the memories for good; returns the ids of those that hold again. The first Ctrl-C has
    no effect: a deletion that has begun is completed, and told.
    """
    from memory_mcp import sessions
    from memory_semantic import upkeep

    storage, before = session.storage, signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, before))
    try:
        linked = [memory.id for memory in run(storage.replaced(doomed))]
        ids = [memory.id for memory in doomed]
        sessions.forget(session.settings.config, session.agent, ids)
        run(storage.delete(ids))
    finally:
        signal.signal(signal.SIGINT, before)
    if remove := upkeep.removal_of_damaged(session.place):
        fail(
            "Deleted from the store, but an earlier repair has kept files that may hold traces of "
            f"them. When you no longer need these: {remove}"
        )
    left = run(storage.with_ids(linked))
    return [memory.id for memory in left if not memory.replaced_by]
