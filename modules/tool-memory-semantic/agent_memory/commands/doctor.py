"""Diagnose and repair: `doctor`."""

import sys
from collections.abc import Sequence

import click
from memory_semantic import InputError, maintenance
from memory_semantic.errors import DamagedStoreError
from memory_semantic.files.backend import FileBackend
from memory_semantic.server.backend import ServerBackend

from .. import examination
from ..findings import Finding, only_shared_ids
from ..options import command, yes_option
from ..output import counted
from ..plan import plan
from ..session import Session, confirm, fail, run
from .reembed import wanted_info, with_progress


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
    repairable = [finding for finding in findings if finding.repairable]
    if repair and repairable:
        _repair(session, repairable, yes)
        findings = _examine(session, offline)
    elif repair:
        session.out.note("There is nothing that a repair could mend.")
    if session.out.as_json:
        session.out.json([finding._asdict() for finding in findings])
    if any(finding.state == "problem" for finding in findings):
        sys.exit(1)


def _examine(session: Session, offline: bool) -> list[Finding]:
    """Everything that is found, shown at once."""

    found: list[Finding] = []

    def add(finding: Finding) -> None:
        found.append(finding)
        if not session.out.as_json:
            session.out.finding(*finding)

    async def look() -> None:
        async for finding in examination.findings(
            session.settings, storage, session.out.progress, offline=offline
        ):
            add(finding)

    why = None
    try:
        storage = session.storage
    except (click.UsageError, InputError) as error:  # whose, or where, cannot be known
        storage, why = None, str(error)
    run(look())
    if why:
        add(Finding("problem", "store", f"Not looked at. {why}"))
    return found


def _repair(session: Session, repairable: Sequence[Finding], yes: bool) -> None:
    backend = session.storage.backend
    problems = [finding.text for finding in repairable if finding.state == "problem"]
    if isinstance(backend, ServerBackend):
        confirm("Use the newest whole collection, and give each memory an id of its own?", yes)
        shard = run(maintenance.restore(backend))
        if shard:
            session.out.note(f"\nThe store is {shard} again.")
        _renew_ids(session)
    elif not problems:
        confirm("Erase what is left of forgotten memories?", yes)
        run(maintenance.erase(backend))
        session.out.note("\nErased.\n")
    elif only_shared_ids(problems):
        confirm("Give each memory an id of its own?", yes)
        _renew_ids(session)
        run(maintenance.erase(backend))  # if that is due
    else:
        _repair_files(session, yes)
        _renew_ids(session)


def _renew_ids(session: Session) -> None:
    number = run(maintenance.renew_ids(session.storage.backend))
    if number:
        session.out.note(f"\n{counted(number)} with a new id.\n")


def _repair_files(session: Session, yes: bool) -> None:
    storage, files = session.storage, session.storage.backend
    assert isinstance(files, FileBackend)
    try:
        generator = storage.generator(run(storage.info()))
    except DamagedStoreError:  # it has no manifest by which to choose
        generator = storage.generator(None)
    found = run(maintenance.readable(files))
    session.out.note(
        f"\nOf the texts on disk {len(found.memories):,} can be read and {found.unreadable:,} "
        "cannot."
    )
    if found.unverified:
        session.out.note(f"{found.unverified:,} are taken as they are: their hashes are lost.")
    if not found.memories:
        fail("There is nothing to make a new store from. Nothing was changed.")
    wanted = wanted_info(storage, generator)
    left = run(maintenance.unembedded(files, wanted, found.memories))
    session.out.note(
        f"A new store will be made, with {wanted.model}.\n{run(plan(left, generator)).sentence}"
    )
    confirm("Start? The damaged files are kept.", yes)
    number = with_progress(session, lambda show: maintenance.repair(files, wanted, generator, show))
    session.out.note(f"Rebuilt, with {counted(number)}.\n")
