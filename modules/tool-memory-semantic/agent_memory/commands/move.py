"""Move a store between this machine and a Qdrant server: `move`."""

from typing import TYPE_CHECKING

import click
from memory_semantic import AgentMemoryError, limits

from ..options import BadInputError, command, yes_option
from ..output import counted, listed
from ..plan import plan
from ..session import Session, confirm, fail, run

if TYPE_CHECKING:
    from memory_semantic.maintenance import Move


@command("move --to https://example.com:6333", "move --to local", "move --to local --remove-source")
@click.option("--to", metavar="URL", required=True, help='A Qdrant server, or "local".')
@click.option("--from", "source", metavar="URL", help="The old place.  [default: the other one]")
@click.option("--remove-source", is_flag=True, help="Delete the old store once all is copied.")
@yes_option
def move(session: Session, to: str, source: str | None, remove_source: bool, yes: bool) -> None:
    """Move a store to a Qdrant server, or back to this machine.

    Copies everything, vectors unchanged, and compares the two stores. The old one stays until
    --remove-source. Safe to rerun: resumes after an interruption and includes what was stored
    meanwhile. What this machine moved before, and was then forgotten in the new place, stays
    forgotten. Afterwards set qdrant_url, so that sessions use the new place.
    """
    from memory_semantic import maintenance

    settings = session.storage.config
    new = session.settings.storage(session.agent, qdrant_url=to)
    to = new.config.qdrant_url
    others = [each for each in (limits.HERE, settings.qdrant_url) if each != to]
    source = source or (others or [to])[0]
    old = session.settings.storage(session.agent, qdrant_url=source)
    ours, theirs = maintenance.place(old.backend), maintenance.place(new.backend)
    here, there = ours.where, theirs.where
    if here == there:
        what = "The store is already there. Name another place with --to or --from."
        raise BadInputError(f"{what} {settings.doubt}".rstrip())
    planned = run(maintenance.plan_move(ours, theirs, new.config))
    if planned is None:
        fail(f"The agent {session.agent!r} has no store in {here}.")
    _announce(session, planned)
    confirm("Start?", yes)
    number = len(planned.memories)
    problems = _copied(session, planned)
    if problems:
        fail(f"{len(problems):,} memories did not arrive unchanged.{listed(problems)}")
    agree = "texts, tags and times" if planned.generator else "texts, tags, times and vectors"
    session.out.line(f"{counted(number)} of {session.agent} in {there}: {agree} agree.")
    if remove_source:
        _remove(session, planned, yes)
    else:
        session.out.note(f"It stays in {here}, too, until: move … --remove-source")
    places = {"from": here, "to": there, "source_removed": remove_source}
    counts = {"memories": number, "stay_forgotten": len(planned.forgotten)}
    session.out.json({"agent": session.agent, **counts, **places})
    if settings.qdrant_url != to:
        set_this = session.settings.to_set(qdrant_url=to)
        session.out.warn(f"Sessions use it once their settings say so. {set_this}")


def _announce(session: Session, planned: "Move") -> None:
    here, there = planned.source.where, planned.target.where
    already = f", where {len(planned.known):,} of them are already" if planned.present else ""
    number = counted(len(planned.memories))
    session.out.note(f"{number} of {session.agent}: from {here} to {there}{already}")
    if planned.forgotten:
        session.out.note(
            "Not copied, because forgotten there after an earlier move: "
            f"{counted(len(planned.forgotten))}. (To copy all, first: rm {planned.moved.path})"
        )
    if planned.present and planned.generator:
        texts = [each for key, each in planned.memories.items() if key not in planned.known]
        session.out.note(
            f"The store there has the model {planned.present.model}: the texts are embedded again."
            f"\n{run(plan(texts, planned.generator)).sentence}"
        )


def _copied(session: Session, planned: "Move") -> list[str]:
    """Copy and compare: a sentence for each memory that did not arrive unchanged."""
    number = len(planned.memories)
    again = "The store is unharmed where it was. Run it again to resume."

    async def copy_and_compare() -> list[str]:
        with session.out.progress("Copying", number) as progress:
            await planned.copy(progress.done)
        with session.out.progress("Comparing", number) as progress:
            return await planned.compare(progress.done)

    try:
        return run(copy_and_compare())
    except KeyboardInterrupt:
        fail(f"Interrupted. {again}")
    except AgentMemoryError as error:
        fail(f"{error}\n{again}")


def _remove(session: Session, planned: "Move", yes: bool) -> None:
    here = planned.source.where
    question = f"Delete the store of {session.agent} in {here}?"
    if planned.forgotten:
        question = f"{question} What was forgotten in the new place exists nowhere else."
    confirm(question, yes, "It was copied, and nothing was deleted.")
    if not run(planned.remove_source()):
        fail(
            "Nothing was deleted: either others stored more there meanwhile (then run it again), "
            "or both places are the same."
        )
    for kept in planned.source.kept:
        session.out.warn(
            f"An earlier repair kept files. When you no longer need them: rm -r {kept}"
        )
    session.out.line(f"Deleted from {here}.")
