"""Give memories to another agent: `share`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
from memory_semantic import DamagedStoreError, counted, validate_agent_id

from ..options import BadInputError, command, since_filter, tag_filter, until_filter, yes_option
from ..session import Session, confirm, cost, fail, in_parts, run

if TYPE_CHECKING:
    from memory_semantic import Memory
    from memory_sharing.copies import Copied, Sharing


_UNDONE_BY_ID = 10  # copies, at most, for which a command is shown that deletes them


@command(
    "share mem-a3f2b8c1d4e5 --to alice",
    "share --tag database --since 30d --to alice",
    "share --tag team --to team --yes",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--to", metavar="NAME", required=True, help="The other agent.")
@tag_filter
@since_filter
@until_filter
@yes_option
def share(
    session: Session,
    ids: Sequence[str],
    to: str,
    tags: Sequence[str],
    since: datetime | None,
    until: datetime | None,
    yes: bool,
) -> None:
    """Copy memories to another agent.

    Shows them, and asks unless they are named by their ids. A copy keeps text, tags and time, says
    whom it is from, and has its own id. What the other agent already has stays unchanged. If both
    stores have the same model, nothing is embedded; else the other store's model embeds the texts.
    If the other agent has no store yet, one is created with the same model. Safe to rerun: resumes
    after an interruption.
    """
    if bool(ids) == bool(tags or since or until):
        raise click.UsageError("Name memories by their ids, or by --tag, --since and --until.")
    yes = yes or bool(ids)  # what was named is added, and can be taken back
    if validate_agent_id(to) == session.agent:
        raise BadInputError(f"These are the memories of {to}. Name another agent with --to.")
    sharing, asked = _chosen(session, ids, (since, until, tags), to)
    new = run(sharing.new(asked)) if asked else []
    copied: list[Copied] = []
    if new:
        _announce(session, sharing, new)
        confirm(session, f"Copy {counted(len(new))} of {session.agent} to {to}?", yes)
        copied = in_parts(session, "Copying", new, sharing.copy)
    done = [each for each in copied if not each.known]
    known = len(asked) - len(new) + len(copied) - len(done)
    made, masked = sharing.creates and bool(done), sum(each.masked for each in done)
    what = {"copied": [{"id": each.id, "copy": each.copy} for each in done]}
    counts = {"already_there": known, "store_created": made, "masked_secrets": masked}
    session.out.json({"agent": session.agent, "to": to, **what, **counts})
    if not asked:
        session.out.note(f"{session.agent} has no such memories. Nothing was changed.")
        return
    already = f" Already there, and left as they were: {known:,}." if known else ""
    session.out.line(f"Copied to {to}: {len(done):,}.{already}")
    if 0 < len(done) <= _UNDONE_BY_ID:
        copies = " ".join(each.copy for each in done)
        session.out.note(f"Undo: agent-memory forget {copies} --agent {to}{session.rooted}")
    session.out.masked(masked)


def _chosen(
    session: Session,
    ids: Sequence[str],
    where: tuple[datetime | None, datetime | None, Sequence[str]],
    to: str,
) -> tuple["Sharing", list["Memory"]]:
    """How to copy, and the memories that were asked for, in the order of the list."""
    from memory_sharing.copies import sharing

    source = session.existing
    asked = session.with_ids(ids) if ids else run(source.get_recent(None, *where, holding=True))
    for memory in asked:
        session.require_current(memory, "share")
    try:
        found = run(sharing(source, session.settings.storage(to)))
    except DamagedStoreError as error:
        fail(f"The store of {to} (--agent {to}{session.rooted}): {error}")
    if found is None:  # its folder is there, its store is not
        fail(f"{session.agent} has no store. Nothing was changed.")
    return found, asked


def _announce(session: Session, sharing: "Sharing", new: Sequence["Memory"]) -> None:
    session.out.first_memories(new)
    if sharing.creates:
        session.out.note(f"{sharing.target.agent_id} has no store yet; one will be created.")
    if sharing.embeds:
        generator = sharing.target.generator(sharing.info)
        session.out.note(
            f"The store of {sharing.target.agent_id} has the model {sharing.info.model}: the texts "
            f"are embedded again.\n{cost(new, generator)}"
        )
