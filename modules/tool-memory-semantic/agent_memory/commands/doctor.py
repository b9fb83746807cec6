"""Diagnose and repair: `doctor`."""

import sys
from typing import TYPE_CHECKING

import click
from memory_semantic import InputError, plain

from ..options import command, yes_option
from ..session import Session, confirm, cost, run, with_progress

if TYPE_CHECKING:
    from memory_semantic import Finding

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}
_OUT_OF_USE = "Nothing is lost, but the store may be out of use until a repair is complete."


@command("doctor", "doctor --verbose", "doctor --agent sam --offline", "doctor --repair")
@click.option("--offline", is_flag=True, help="Do not try the embeddings service.")
@click.option("--repair", is_flag=True, help="Make a new store of what can be read.")
@click.option("--verbose", "-v", is_flag=True, help="Show all that was examined.")
@yes_option
def doctor(session: Session, offline: bool, repair: bool, verbose: bool, yes: bool) -> None:
    """Diagnose problems and suggest fixes.

    Shows problems and warnings, or one line if there are none, and changes nothing. Exit code 1 if
    there is a problem. A repair says what it will take, and asks. It makes a new store of all that
    the shard and the journal still hold; damaged files that cannot be read whole are kept.
    """
    if repair:
        _ = session.storage  # which says so if it is unknown whose it is
    findings = _examine(session, offline, verbose)
    if repair and any(finding.repairable for finding in findings):
        _repair(session, yes)
        findings = _examine(session, offline, verbose)
    elif repair:
        session.out.note("There is nothing that a repair could fix.")
    session.out.json([each._asdict() for each in findings])
    if any(finding.state == "problem" for finding in findings):
        sys.exit(1)


def _examine(session: Session, offline: bool, verbose: bool) -> list["Finding"]:
    """All findings, in the order of the examination. Shows them, the worst first."""
    from memory_semantic import Finding

    from .. import examination

    storage, unknown = None, []
    try:
        storage = session.storage
    except InputError as error:  # it is unknown whose store, or where
        unknown = [Finding("problem", "store", str(error))]

    async def look() -> list[Finding]:
        progress = session.out.progress
        found = examination.findings(session.settings, storage, progress, offline=offline)
        return [finding async for finding in found]

    findings = run(look()) + unknown
    shown = (each for each in findings if verbose or each.state != "ok")
    for finding in sorted(shown, key=lambda each: (each.state == "ok", each.state)):
        _show(session, finding)
    states = {each.state for each in findings}
    if states != {"ok"}:
        if not verbose:
            session.out.note(f"All that was examined: agent-memory doctor --verbose{session.named}")
        if session.named and any(each.mend for each in findings):
            session.out.note(f"To the commands above, add{session.named}")
    none = next((each for each in findings if each.says_no_store), None)
    if none:
        session.out.line(f"{none.text} {none.mend}")
    elif storage and "problem" not in states:
        # As they were found: in a busy store, another look would give another number.
        said = {each.subject: each.text for each in findings if each.state == "ok"}
        number, package = said["store"].partition(":")[0], said["version"].partition(",")[0]
        how = "all well" if states == {"ok"} else "no problems"
        session.out.line(f"{session.agent}: {number}, {how} ({package})")
    return findings


def _show(session: Session, finding: "Finding") -> None:
    """What was found, and what to do about it."""
    mark, colour = _MARKS[finding.state]
    name = click.style(f"{finding.subject:<12}", bold=True)
    session.out.line(f"{click.style(mark, fg=colour)} {name}{plain(finding.text)}")
    if finding.mend:
        session.out.line(f"{'':14}{click.style('→', dim=True)} {plain(finding.mend)}")


def _repair(session: Session, yes: bool) -> None:
    from memory_semantic import upkeep

    repair = run(upkeep.repair(session.place, session.storage.config))
    session.out.note(f"\n{repair.found}")
    if repair.generator:
        session.out.note(f"At most {cost(repair.texts, repair.generator)}")
    confirm(session, "Start?", yes)
    done = with_progress(session, repair.run, _OUT_OF_USE)
    if done:
        session.out.note(f"\n{done}\n")
