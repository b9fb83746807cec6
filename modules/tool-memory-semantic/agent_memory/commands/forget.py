"""Delete for good: `forget`."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import click
from memory_semantic import InputError, StorageError, counted

from ..options import When, command, since_filter, tag_filter, yes_option
from ..output import beginning
from ..session import Session, ask, confirm, fail, run

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
    if ids:
        doomed = _named(session, ids, yes)
    else:
        found = run(session.existing.get_recent(None, since, before, tags))
        doomed = [memory for memory in found if not before or memory.timestamp < before]
    session.out.first_memories(doomed)
    if doomed:
        confirm(session, f"Delete {counted(len(doomed))} of {session.agent} for good?", yes)
    again = _delete(session, doomed)
    result = {"agent": session.agent, "forgotten": [memory.id for memory in doomed]}
    session.out.json(result | ({"holds_again": again} if again else {}))
    if doomed:
        session.out.line(f"Forgotten: {len(doomed):,}. {session.place.forgotten}")
    else:
        session.out.note(f"{session.agent} has no such memories. Nothing was changed.")
    if again:
        session.out.note(f"What they had replaced holds again: {', '.join(again)}")


def _named(session: Session, asked: Sequence[str], yes: bool) -> list["Memory"]:
    """The memories with these ids; for words, those that the person picks of what is found."""
    from memory_semantic import clean_ids  # here, because help loads nothing heavy

    unasked = yes or session.out.as_json
    try:
        ids = clean_ids(asked)
    except InputError as error:  # these are words
        if unasked:
            error.remedy = "For words, leave out --yes and --json: you are asked about each."
        if unasked or any(each.startswith("mem-") for each in asked):
            raise
    else:
        may_be_words = all(each.isalpha() or each.isdecimal() for each in asked)  # "cafe", "2025"
        if unasked or not may_be_words or run(session.existing.with_ids(ids)):
            return session.with_ids(ids)
    words, _ = session.storage.masked(" ".join(asked))
    found = run(session.existing.search(words, select=session.storage.fitting))
    session.out.unfitting(found)
    answers = [ask(f"{beginning(each)}\nForget this one?") for each in found]
    if None in answers:
        fail("Nobody is there to answer: name ids, and add --yes. Nothing was changed.")
    picked = [each for each, agreed in zip(found, answers, strict=True) if agreed]
    if found and not picked:
        session.out.note("Nothing was changed.")
        raise click.exceptions.Exit(0)
    return picked


def _delete(session: Session, doomed: Sequence["Memory"]) -> list[str]:
    """Delete the memories for good; returns the ids of those that hold again."""
    from memory_mcp import sessions
    from memory_semantic import upkeep

    if not doomed:
        return []
    storage, ids = session.storage, [memory.id for memory in doomed]
    linked = [memory.id for memory in run(storage.replaced(doomed))]
    sessions.forget(session.settings.config, session.agent, ids)
    run(storage.delete(ids))
    if remove := upkeep.removal_of_damaged(session.place):
        fail(
            "Deleted from the store, but an earlier repair has kept files that may hold traces of "
            f"them. When you no longer need these: {remove}"
        )
    with suppress(StorageError):  # they are deleted, whatever comes now
        return [each.id for each in run(storage.with_ids(linked)) if not each.replaced_by]
    return []
