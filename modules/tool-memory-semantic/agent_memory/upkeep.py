"""Look after it: what `reembed`, `stats` and `doctor` do."""

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import click
from memory_semantic import EmbeddingGenerator, InputError, Memory, StorageError
from memory_semantic.collection import Collection
from memory_semantic.errors import DamagedStoreError
from memory_semantic.models import clean_local
from memory_semantic.open_store import OpenStore
from memory_semantic.workers import run_blocking

from . import charts, rebuild, remake
from . import doctor as examination
from .output import counted, readable_size, size_on_disk
from .plan import model_of, plan
from .rebuild import ALL
from .session import Session, confirm, fail, place_of, run
from .settings import MODULE

# Told how many of how many are done.
ShowDone = Callable[[int, int], None]


def reembed(
    session: Session, model: str, base_url: str | None, dimensions: int | None, yes: bool
) -> None:
    """Give the memory another embedding model, after saying what that takes."""
    storage, config, model = session.existing, session.settings.storage(), clean_local(model)
    base_url = base_url or config.base_url
    if model == config.embedding_model:
        dimensions = dimensions or config.dimensions
    generator = EmbeddingGenerator(model, base_url=base_url, dimensions=dimensions)
    manifest = run(storage.manifest())
    made = run(model_of(generator))
    source, server = rebuild.whole(storage), session.server
    if manifest and manifest.embedding != made:
        if server:
            left = remake.unembedded(storage, server, made)
        else:
            left = rebuild.unembedded(storage, source, made)
        expected = run(plan(run(left), generator))
        session.out.note(
            f"{session.agent}: from {manifest.embedding} to {made}.\n{expected.sentence}"
        )
        confirm("Start?", yes)
    if server:
        number = _embedding(session, partial(remake.remake, storage, server, generator, made))
    elif manifest and manifest.embedding == made:
        rebuild.give_up(storage)
        if storage.lexical_weight(made.model) and not manifest.words:
            run(rebuild.add_words(storage))
        number = run(storage.count())
    else:
        number = _embedding(session, partial(rebuild.rebuild, storage, source, generator, made))
    if session.out.as_json:
        session.out.json({"agent": session.agent, "memories": number, "model": model})
    else:
        session.out.line(f"{counted(number)} of {session.agent} with the model {made}.")
    try:
        session.storage.generator(run(storage.manifest()))
    except StorageError as error:
        wanted = {"embedding_model": model, "base_url": base_url, "dimensions": dimensions}
        lines = [f"      {name}: {value}" for name, value in wanted.items() if value]
        where = session.settings.sources.get("embedding_model", "~/.amplifier/settings.yaml")
        set_these = "\n".join([f"In {where}:", "overrides:", f"  {MODULE}:", "    config:", *lines])
        session.out.warn(
            f"Sessions are refused until their settings agree with this. {error}\n{set_these}"
        )


def stats(session: Session) -> None:
    """Numbers, growth and tags over time."""
    storage = session.existing
    numbers = charts.count(run(storage.get_recent(ALL)))
    manifest = run(storage.manifest())
    size = None if session.server else size_on_disk(storage.folder.path)
    if session.out.as_json:
        model = manifest.embedding._asdict() if manifest else None
        facts = {"agent": session.agent, "bytes": size, "embedding": model}
        session.out.json({**facts, **charts.as_json(numbers)})
        return
    for name, value in (
        ("agent", session.agent),
        ("memories", f"{numbers.memories:,}, {numbers.characters:,} characters"),
        ("stored", charts.span(numbers)),
        ("on disk", readable_size(size)) if size is not None else ("server", place_of(storage)),
        ("model", str(manifest.embedding) if manifest else "-"),
    ):
        session.out.line(f"{name:<10}{value}")
    charts.draw(numbers, session.out)


def page(session: Session, file: str) -> None:
    """The page for the browser."""
    import numpy as np

    from .page import write_page
    from .projection import project

    def everything(store: OpenStore[Collection]) -> tuple[str, list[Memory], list[Any]]:
        memories, rows = [], []
        for points in store.collection.points():
            memories += [store.memory(point) for point in points]
            rows += [np.array(point.vector, dtype=np.float32) for point in points]
        return store.manifest.embedding.model, memories, rows

    model, memories, rows = run(session.existing.operate(everything, ("", [], [])))
    with session.out.progress("Drawing the map", 1) as progress:
        places = project(np.array(rows, dtype=np.float32).reshape(len(rows), -1), progress.done)
    write_page(file, session.agent, model, memories, places)
    if session.out.as_json:
        session.out.json({"agent": session.agent, "file": file, "memories": len(memories)})
    else:
        number = f"{counted(len(memories))} of {session.agent}"
        session.out.line(f"{number} written to {file}. Open it in a browser.")


def doctor(session: Session, offline: bool, repair: bool, yes: bool) -> None:
    """Examine everything, repair what can be, and end with code 1 if there is a problem left."""
    findings = _examine(session, offline)
    if repair and any(finding.repairable for finding in findings):
        _repair(session, yes)
        findings = _examine(session, offline)
    elif repair:
        session.out.note("There is nothing that a repair could mend.")
    if session.out.as_json:
        session.out.json([finding._asdict() for finding in findings])
    if any(finding.state == "problem" for finding in findings):
        sys.exit(1)


def _examine(session: Session, offline: bool) -> list[examination.Finding]:
    """Everything that is found, shown at once."""

    found: list[examination.Finding] = []

    def add(finding: examination.Finding) -> None:
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
        add(examination.Finding("problem", "store", f"Not looked at. {why}"))
    return found


def _repair(session: Session, yes: bool) -> None:
    storage = session.storage
    server = session.server
    if server:
        confirm("Let the memory be its newest whole collection, each id belong to one?", yes)
        shard = run(run_blocking(lambda _: server.restore()))
        if shard:
            session.out.note(f"\nThe memory is {shard} again.")
        number = run(remake.draw_anew(storage))
        session.out.note(f"\n{counted(number)} with a new id.\n")
        return
    try:
        generator = storage.generator(run(storage.manifest()))
    except DamagedStoreError:  # it has no manifest by which to choose
        generator = storage.generator(None)
    found = run(rebuild.readable(storage))
    session.out.note(
        f"\nOf the texts on disk {len(found.memories):,} can be read and {found.unreadable:,} "
        "cannot."
    )
    if found.unverified:
        session.out.note(f"{found.unverified:,} are taken as they are: their hashes are lost.")
    if not found.memories:
        fail("There is nothing to make a new store from. Nothing was changed.")
    source = rebuild.damaged(storage)
    made = run(model_of(generator))
    expected = run(plan(run(rebuild.unembedded(storage, source, made)), generator))
    session.out.note(f"A new store will be made, with {made}.\n{expected.sentence}")
    confirm("Start? The damaged files are kept.", yes)
    number = _embedding(session, partial(rebuild.rebuild, storage, source, generator, made))
    session.out.note(f"Rebuilt, with {counted(number)}.\n")


def _embedding(session: Session, work: Callable[[ShowDone], Coroutine[Any, Any, int]]) -> int:
    """Do the work with a progress bar. Returns how many memories there are."""
    try:
        with session.out.progress("Embedding", 1) as progress:
            return run(work(progress.done_of))
    except KeyboardInterrupt:
        fail("Interrupted: the memory is whole. Run it again to go on from here.")
