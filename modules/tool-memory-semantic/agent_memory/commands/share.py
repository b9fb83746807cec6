"""Give memories to another agent: `share`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from memory_semantic import DamagedStoreError, counted, validate_agent_id

from ..options import BadInputError, command, since_filter, tag_filter, until_filter, yes_option
from ..plan import plan
from ..session import Session, confirm, fail, in_parts, run
from .memories import by_id

if TYPE_CHECKING:
    from memory_semantic import Memory
    from memory_sharing.copies import Copied, Sharing


_UNDONE_BY_ID = 10  # copies, at most, for which a command is shown that deletes them


@dataclass
class _Choice:
    """The memories that were asked for: those to copy, in the order of the list, and how many the
    other agent already has.
    """

    sharing: "Sharing"
    new: list["Memory"]
    known: int
    copied: list["Copied"] = field(default_factory=list)

    @property
    def target(self) -> str:
        return self.sharing.target.agent_id


@command(
    "share mem-a3f2b8c1d4e5 --to alice",
    "share --tag database --since 30d --to alice --dry-run",
    "share --tag team --to team --yes",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--to", metavar="NAME", required=True, help="The other agent.")
@tag_filter
@since_filter
@until_filter
@click.option("--dry-run", is_flag=True, help="Only show what would be copied.")
@yes_option
def share(
    session: Session,
    ids: Sequence[str],
    to: str,
    tags: Sequence[str],
    since: datetime | None,
    until: datetime | None,
    dry_run: bool,
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
    if session.out.as_json and not (yes or dry_run):
        raise click.UsageError("With --json nothing is shown before it is copied: add --yes.")
    if validate_agent_id(to) == session.agent:
        raise BadInputError(f"These are the memories of {to}. Name another agent with --to.")
    choice = _chosen(session, ids, (since, until, tags), to)
    if choice.new:
        _announce(session, choice)
    if choice.new and not dry_run:
        confirm(f"Copy {counted(len(choice.new))} of {session.agent} to {to}?", yes)
        choice.copied = in_parts(session, "Copying", choice.new, choice.sharing.copy)
    _report(session, choice, dry_run)


def _chosen(
    session: Session,
    ids: Sequence[str],
    where: tuple[datetime | None, datetime | None, Sequence[str]],
    to: str,
) -> _Choice:
    from memory_sharing.copies import sharing

    source = session.existing
    asked = by_id(session, ids) if ids else run(source.get_recent(None, *where, holding=True))
    try:
        found = run(sharing(source, session.settings.storage(to)))
    except DamagedStoreError as error:
        fail(f"The store of {to} (--agent {to}): {error}")
    if found is None:  # its folder is there, its store is not
        fail(f"{session.agent} has no store. Nothing was changed.")
    new = run(found.new(asked)) if asked else []
    return _Choice(found, new, len(asked) - len(new))


def _announce(session: Session, choice: _Choice) -> None:
    session.out.first_memories(choice.new)
    if choice.sharing.creates:
        session.out.note(f"{choice.target} has no store yet; one will be created.")
    if choice.sharing.embeds:
        generator = choice.sharing.target.generator(choice.sharing.info)
        session.out.note(
            f"The store of {choice.target} has the model {choice.sharing.info.model}: the texts "
            f"are embedded again.\n{run(plan(choice.new, generator))}"
        )


def _report(session: Session, choice: _Choice, dry_run: bool) -> None:
    new = [copied for copied in choice.copied if not copied.known]
    known = choice.known + len(choice.copied) - len(new)
    masked = sum(copied.masked for copied in new)
    report: dict[str, Any] = {"agent": session.agent, "to": choice.target}
    if dry_run:
        report["would_copy"] = [memory.id for memory in choice.new]
    else:
        report["copied"] = [{"id": copied.id, "copy": copied.copy} for copied in new]
    made = choice.sharing.creates and bool(choice.new if dry_run else new)
    counts = {"already_there": known, "store_created": made, "masked_secrets": masked}
    session.out.json({**report, **counts})
    if not choice.new and not known:
        session.out.note(f"{session.agent} has no such memories. Nothing was changed.")
        return
    already = f" Already there, and left as they were: {known:,}." if known else ""
    if dry_run:
        session.out.line(f"Would be copied to {choice.target}: {len(choice.new):,}.{already}")
    else:
        session.out.line(f"Copied to {choice.target}: {len(new):,}.{already}")
        if 0 < len(new) <= _UNDONE_BY_ID:
            copies = " ".join(copied.copy for copied in new)
            session.out.note(f"Undo: agent-memory forget {copies} --agent {choice.target}")
    session.out.masked(masked)
