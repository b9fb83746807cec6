"""Diagnose and repair: `doctor`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from memory_semantic import InputError

from ..options import command, yes_option
from ..plan import plan
from ..session import Session, confirm, run
from .reembed import with_progress

if TYPE_CHECKING:
    from memory_semantic.maintenance import Finding


@command("doctor", "doctor --agent sam --offline", "doctor --repair")
@click.option("--offline", is_flag=True, help="Do not try the embeddings service.")
@click.option("--repair", is_flag=True, help="Rebuild a damaged store from what can be read.")
@yes_option
def doctor(session: Session, offline: bool, repair: bool, yes: bool) -> None:
    """Diagnose problems and suggest fixes.

    Exit code 1 if there is a problem. A repair says what it will take, asks, and keeps the damaged
    files. It also finishes what was interrupted, and gives new ids to memories that share one.
    """
    findings = _examine(session, offline)
    if repair and any(finding.repairable for finding in findings):
        _repair(session, findings, yes)
        findings = _examine(session, offline)
    elif repair:
        session.out.note("There is nothing that a repair could fix.")
    session.out.json([finding._asdict() for finding in findings])
    if any(finding.state == "problem" for finding in findings):
        sys.exit(1)


def _examine(session: Session, offline: bool) -> list["Finding"]:
    """All findings, each shown as soon as it is found."""
    from .. import examination

    try:
        storage, why = session.storage, ""
    except (click.UsageError, InputError) as error:  # it is unknown whose store, or where
        storage, why = None, str(error)

    async def look() -> list["Finding"]:
        found = []
        async for finding in examination.findings(
            session.settings, storage, why, session.out.progress, offline=offline
        ):
            session.out.finding(*finding)
            found.append(finding)
        return found

    return run(look())


def _repair(session: Session, findings: Sequence["Finding"], yes: bool) -> None:
    repair = run(session.place.repair(session.storage.config, findings))
    if repair.found:
        session.out.note(f"\n{repair.found}")
    if repair.generator:
        session.out.note(run(plan(repair.texts, repair.generator)).sentence)
    confirm(repair.question, yes)
    done = with_progress(session, repair.run)
    if done:
        session.out.note(f"\n{done}\n")
