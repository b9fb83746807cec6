"""Keep it in order: what `reembed` and `doctor` do."""

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import click
from memory_semantic import EmbeddingGenerator, InputError, MemoryStorage, StorageError, maintenance
from memory_semantic.check import clean_local
from memory_semantic.embeddings.choice import new_info
from memory_semantic.errors import DamagedStoreError
from memory_semantic.files.backend import FileBackend
from memory_semantic.memory import utc_now
from memory_semantic.server.backend import ServerBackend
from memory_semantic.store import StoreInfo

from . import doctor as examination
from .findings import Finding, only_shared_ids
from .output import counted
from .plan import plan, tried
from .session import Session, confirm, fail, run
from .settings import MODULE

# Told how many of how many are done.
ShowDone = Callable[[int, int], None]


def reembed(
    session: Session, model: str, base_url: str | None, dimensions: int | None, yes: bool
) -> None:
    """Give the store another embedding model, after saying what that takes."""
    storage, config, model = session.existing, session.settings.storage(), clean_local(model)
    base_url = base_url or config.base_url
    if model == config.embedding_model:
        dimensions = dimensions or config.dimensions
    generator = EmbeddingGenerator(model, base_url=base_url, dimensions=dimensions)
    info, wanted = run(storage.info()), _wanted(storage, generator)
    same = info is not None and info.model == wanted.model
    if info and same:
        kept = {"endpoint": info.endpoint, "words": info.words or wanted.words}
        wanted = wanted.model_copy(update=kept)
    elif info:
        left = run(maintenance.unembedded(storage.backend, wanted))
        session.out.note(
            f"{session.agent}: from {info.model} to {wanted.model}.\n"
            f"{run(plan(left, generator)).sentence}"
        )
        confirm("Start?", yes)
    if same:
        run(maintenance.give_up(storage.backend))  # a rebuild with another model
    embedding = None if same else generator
    number = _with_progress(
        session, lambda show: maintenance.rebuild(storage.backend, wanted, embedding, show)
    )
    if session.out.as_json:
        session.out.json({"agent": session.agent, "memories": number, "model": model})
    else:
        session.out.line(f"{counted(number)} of {session.agent} with the model {wanted.model}.")
    try:
        session.storage.generator(run(storage.info()))
    except StorageError as error:
        chosen = {"embedding_model": model, "base_url": base_url, "dimensions": dimensions}
        lines = [f"      {name}: {value}" for name, value in chosen.items() if value]
        where = session.settings.sources.get("embedding_model", "~/.amplifier/settings.yaml")
        set_these = "\n".join([f"In {where}:", "overrides:", f"  {MODULE}:", "    config:", *lines])
        session.out.warn(
            f"Sessions are refused until their settings agree with this. {error}\n{set_these}"
        )


def doctor(session: Session, offline: bool, repair: bool, yes: bool) -> None:
    """Examine everything, repair what can be, and end with code 1 if there is a problem left."""
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
    else:
        _repair_files(session, yes)


def _renew_ids(session: Session) -> None:
    number = run(maintenance.renew_ids(session.storage.backend))
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
    wanted = _wanted(storage, generator)
    left = run(maintenance.unembedded(files, wanted, found.memories))
    session.out.note(
        f"A new store will be made, with {wanted.model}.\n{run(plan(left, generator)).sentence}"
    )
    confirm("Start? The damaged files are kept.", yes)
    number = _with_progress(
        session, lambda show: maintenance.repair(files, wanted, generator, show)
    )
    session.out.note(f"Rebuilt, with {counted(number)}.\n")


def _wanted(storage: MemoryStorage, generator: EmbeddingGenerator) -> StoreInfo:
    """What a store with the vectors of `generator` is."""
    return new_info(storage.agent_id, storage.config, run(tried(generator)), utc_now())


def _with_progress(session: Session, work: Callable[[ShowDone], Coroutine[Any, Any, int]]) -> int:
    """Do the work with a progress bar. Returns how many memories there are."""
    try:
        with session.out.progress("Embedding", 1) as progress:
            return run(work(progress.done_of))
    except KeyboardInterrupt:
        fail("Interrupted: the store is as it was. Run it again to resume.")
