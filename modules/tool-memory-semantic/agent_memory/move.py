"""Move a memory between this machine and a Qdrant server: what `move` does."""

from collections.abc import Coroutine
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Event
from typing import Any, TypeVar

from memory_semantic import AgentMemoryError, MemoryStorage
from memory_semantic.collection import EVERYWHERE, Collection
from memory_semantic.config import clean_place
from memory_semantic.manifest import Manifest
from memory_semantic.models import HERE
from memory_semantic.open_store import OpenStore
from memory_semantic.workers import run_blocking

from . import rebuild
from .copying import copy, lacking, memories_in, missing
from .options import BadInputError
from .output import counted
from .plan import plan
from .session import Session, confirm, fail, place_of, run, server_of
from .settings import MODULE

T = TypeVar("T")

_SHOWN = 10  # of what is missing


def move(session: Session, to: str, source: str | None, remove_source: bool, yes: bool) -> None:
    """Copy everything, compare, and leave the source unless told otherwise."""
    settings = session.settings.storage()
    to = clean_place(to)
    source = clean_place(source or (HERE if to != HERE else settings.qdrant_url))
    old, new = _storage(session, source), _storage(session, to)
    if place_of(old) == place_of(new):
        what = "That is where it is. Name another place with --to or --from."
        raise BadInputError(f"{what} {settings.doubt}".rstrip())
    manifest, present = run(_peek(old)), run(_peek(new))
    if manifest is None:
        fail(f"The agent {session.agent!r} has no memory in {place_of(old)}.")
    generator = None
    memories, known = run(memories_in(old.place.open)), run(memories_in(new.place.open))
    number, there = len(memories), len(memories.keys() & known.keys())
    already = f", where {there:,} of them are already" if present else ""
    session.out.note(
        f"{counted(number)} of {session.agent}: from {place_of(old)} to {place_of(new)}{already}"
    )
    if present and present.embedding != manifest.embedding:
        generator = new.generator(present)
        texts = [memories[key] for key in memories.keys() - known.keys()]
        session.out.note(
            f"The memory there has the model {present.embedding}: the texts are embedded anew.\n"
            f"{run(plan(texts, generator)).sentence}"
        )
    embedding = (present or manifest).embedding
    confirm("Start?", yes)
    described = replace(manifest, shard="shard-1", memories=0)

    async def work() -> list[str]:
        with session.out.progress("Copying", number) as progress:
            copied = await copy(old.place.open, target, embedding, generator, progress.done_of)
        with session.out.progress("Comparing", number) as progress:
            return await missing(
                copied,
                old.place.open,
                target,
                same_model=generator is None,
                progress=progress.done_of,
            )

    def target(cancelled: Event) -> AbstractContextManager[OpenStore[Collection] | None]:
        return new.place.open(cancelled, described)

    problems = _resumable(work())
    if problems:
        shown = "".join(f"\n  {problem}" for problem in problems[:_SHOWN])
        fail(f"{len(problems):,} memories did not arrive as they are.{shown}")
    if not session.out.as_json:
        agree = "texts, tags and times" if generator else "texts, tags, times and vectors"
        session.out.line(f"{counted(number)} of {session.agent} in {place_of(new)}: {agree} agree.")
    removed = remove_source and _remove(session, old, new, yes)
    if session.out.as_json:
        places = {"from": place_of(old), "to": place_of(new)}
        session.out.json(
            {"agent": session.agent, "memories": number, **places, "source_removed": removed}
        )
    elif not removed:
        session.out.note(f"It is in {place_of(old)} too, until: move … --remove-source")
    if settings.qdrant_url != to:
        where = session.settings.sources.get("qdrant_url", "~/.amplifier/settings.yaml")
        session.out.warn(
            f"Sessions use it once their settings say so. In {where}:\n"
            f"overrides:\n  {MODULE}:\n    config:\n      qdrant_url: {to}"
        )


def _remove(session: Session, old: MemoryStorage, new: MemoryStorage, yes: bool) -> bool:
    question = f"Delete the memory of {session.agent} in {place_of(old)}?"
    confirm(question, yes, "It was copied, and nothing was deleted.")
    copied = run(memories_in(new.place.open))

    def agreed(store: OpenStore[Collection]) -> bool:
        hits = store.collection.newest(rebuild.ALL, EVERYWHERE)
        if any(lacking(store.memory(hit), copied.get(hit.id)) for hit in hits):
            return False
        try:  # the same server by another name would have nothing that is ready
            return new.place.peek(Event()) is not None
        except AgentMemoryError:
            return False

    server = server_of(old)
    if not server:
        rebuild.give_up(old)
    removed = run(run_blocking(lambda _: (server or old.folder).remove(agreed)))
    if not removed:
        fail(
            "Nothing was deleted: others have stored more there meanwhile (then run it again), or "
            "both places are one."
        )
    for kept in old.folder.kept if not server else ():
        session.out.warn(
            f"An earlier repair has kept files. When you no longer need it: rm -r {kept}"
        )
    if not session.out.as_json:
        session.out.line(f"Deleted in {place_of(old)}.")
    return True


def _storage(session: Session, url: str) -> MemoryStorage:
    return MemoryStorage(session.agent, {**session.settings.core, "qdrant_url": url})


async def _peek(storage: MemoryStorage) -> Manifest | None:
    return await run_blocking(storage.place.peek)


def _resumable(work: Coroutine[Any, Any, T]) -> T:
    again = "The memory is whole where it was. Run it again to go on."
    try:
        return run(work)
    except KeyboardInterrupt:
        fail(f"Interrupted. {again}")
    except AgentMemoryError as error:
        fail(f"{error}\n{again}")
