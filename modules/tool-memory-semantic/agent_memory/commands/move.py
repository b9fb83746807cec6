"""Move a store between this machine and a Qdrant server: `move`."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import click
from memory_semantic import AgentMemoryError, MemoryStorage, maintenance
from memory_semantic.limits import ALL, HERE
from memory_semantic.settings import clean_place
from memory_semantic.store import Store

from ..options import BadInputError, command, yes_option
from ..output import counted
from ..plan import plan
from ..session import Session, confirm, fail, place_of, run
from ..settings import MODULE

T = TypeVar("T")

_SHOWN = 10  # of what is missing


@command("move --to https://example.com:6333", "move --to local", "move --to local --remove-source")
@click.option("--to", metavar="URL", required=True, help='A Qdrant server, or "local".')
@click.option("--from", "source", metavar="URL", help="Where it is.  [default: the other place]")
@click.option("--remove-source", is_flag=True, help="Delete it there, once all of it is here.")
@yes_option
def move(session: Session, to: str, source: str | None, remove_source: bool, yes: bool) -> None:
    """Move a store to a Qdrant server, or back to this machine.

    Copies everything, vectors as they are, and compares both. The store stays where it was too,
    until --remove-source. Safe to rerun: resumes after an interruption and takes along what was
    stored meanwhile, but brings back what was forgotten in the new place alone. Afterwards set
    qdrant_url, so that sessions use the new place.
    """
    settings = session.settings.storage()
    to = clean_place(to)
    source = clean_place(source or (HERE if to != HERE else settings.qdrant_url))
    old, new = _storage(session, source), _storage(session, to)
    here, there = place_of(old.config), place_of(new.config)
    if here == there:
        what = "That is where it is. Name another place with --to or --from."
        raise BadInputError(f"{what} {settings.doubt}".rstrip())
    info, present = run(old.backend.info()), run(new.backend.info())
    if info is None:
        fail(f"The agent {session.agent!r} has no memory in {here}.")
    generator = None
    memories, known = (run(maintenance.memories_in(each.backend)) for each in (old, new))
    number, shared = len(memories), len(memories.keys() & known.keys())
    already = f", where {shared:,} of them are already" if present else ""
    session.out.note(f"{counted(number)} of {session.agent}: from {here} to {there}{already}")
    if present and present.model != info.model:
        generator = new.generator(present)
        texts = [memories[key] for key in memories.keys() - known.keys()]
        session.out.note(
            f"The store there has the model {present.model}: the texts are embedded again.\n"
            f"{run(plan(texts, generator)).sentence}"
        )
    confirm("Start?", yes)

    async def work() -> list[str]:
        places = (old.backend, new.backend)
        same = generator is None
        with session.out.progress("Copying", number) as progress:
            show = progress.done_of
            copied = await maintenance.copy(*places, present or info, generator, show)
        with session.out.progress("Comparing", number) as progress:
            show = progress.done_of
            return await maintenance.missing(copied, *places, same_model=same, progress=show)

    problems = _resumable(work())
    if problems:
        shown = "".join(f"\n  {problem}" for problem in problems[:_SHOWN])
        fail(f"{len(problems):,} memories did not arrive as they are.{shown}")
    if not session.out.as_json:
        agree = "texts, tags and times" if generator else "texts, tags, times and vectors"
        session.out.line(f"{counted(number)} of {session.agent} in {there}: {agree} agree.")
    removed = remove_source and _remove(session, old, new, yes)
    if session.out.as_json:
        places = {"from": here, "to": there, "source_removed": removed}
        session.out.json({"agent": session.agent, "memories": number, **places})
    elif not removed:
        session.out.note(f"It is in {here} too, until: move … --remove-source")
    if settings.qdrant_url != to:
        where = session.settings.sources.get("qdrant_url", "~/.amplifier/settings.yaml")
        session.out.warn(
            f"Sessions use it once their settings say so. In {where}:\n"
            f"overrides:\n  {MODULE}:\n    config:\n      qdrant_url: {to}"
        )


def _remove(session: Session, old: MemoryStorage, new: MemoryStorage, yes: bool) -> bool:
    here = place_of(old.config)
    question = f"Delete the store of {session.agent} in {here}?"
    confirm(question, yes, "It was copied, and nothing was deleted.")
    copied = run(maintenance.memories_in(new.backend))

    def agreed(store: Store) -> bool:
        found = store.newest(ALL)
        if any(maintenance.lacking(memory, copied.get(memory.key)) for memory in found):
            return False
        try:  # the same server by another name would have nothing that is ready
            return asyncio.run(new.backend.info()) is not None
        except AgentMemoryError:
            return False

    if not run(maintenance.remove(old.backend, agreed)):
        fail(
            "Nothing was deleted: others have stored more there meanwhile (then run it again), or "
            "both places are one."
        )
    for kept in old.folder.kept if old.config.qdrant_url == HERE else ():
        session.out.warn(
            f"An earlier repair has kept files. When you no longer need it: rm -r {kept}"
        )
    if not session.out.as_json:
        session.out.line(f"Deleted in {here}.")
    return True


def _storage(session: Session, url: str) -> MemoryStorage:
    return MemoryStorage(session.agent, {**session.settings.core, "qdrant_url": url})


def _resumable(work: Coroutine[Any, Any, T]) -> T:
    again = "The store is whole where it was. Run it again to resume."
    try:
        return run(work)
    except KeyboardInterrupt:
        fail(f"Interrupted. {again}")
    except AgentMemoryError as error:
        fail(f"{error}\n{again}")
