"""Move a store between this machine and a Qdrant server: `move`."""

from typing import TYPE_CHECKING

import click
from memory_semantic import AgentMemoryError, counted, limits

from ..options import BadInputError, command, yes_option
from ..output import listed
from ..plan import plan
from ..session import Session, confirm, fail, run

if TYPE_CHECKING:
    from memory_semantic import moving


@command("move --to https://example.com:6333", "move --to local", "move --to local --keep-source")
@click.option("--to", metavar="URL", required=True, help='A Qdrant server, or "local".')
@click.option("--from", "source", metavar="URL", help="The old place.  [default: the other one]")
@click.option("--keep-source", is_flag=True, help="Keep the old store, too, as a second one.")
@click.option("--remove-source", is_flag=True, hidden=True, expose_value=False)  # of 2.0
@yes_option
def move(session: Session, to: str, source: str | None, keep_source: bool, yes: bool) -> None:
    """Move a store to a Qdrant server, or back to this machine.

    Copies everything, vectors unchanged, compares the two stores, and deletes the old one. Sessions
    with the old settings on this machine are then told where it is. Safe to rerun: resumes after an
    interruption and includes what was stored meanwhile. Afterwards set qdrant_url, so that sessions
    use the new place.
    """
    from memory_semantic import moving

    settings = session.storage.config
    new = session.settings.storage(session.agent, qdrant_url=to)
    to = new.config.qdrant_url
    others = [each for each in (limits.HERE, settings.qdrant_url) if each != to]
    source = source or (others or [to])[0]
    old = session.settings.storage(session.agent, qdrant_url=source)
    ours, theirs = old.backend, new.backend
    here, there = ours.where, theirs.where
    if here == there:
        raise BadInputError("The store is already there. Name another place with --to or --from.")
    planned = run(moving.plan_move(ours, theirs, new.config))
    if planned is None:
        run(old.info())  # if it was moved, this says where to
        fail(f"The agent {session.agent!r} has no store in {here}.")
    _announce(session, planned, keep_source)
    confirm("Start?", yes)
    number = len(planned.memories)
    problems = _copied(session, planned)
    if problems:
        fail(f"{counted(len(problems))} did not arrive unchanged.{listed(problems)}")
    agree = "texts, tags and times" if planned.generator else "texts, tags, times and vectors"
    session.out.line(f"{counted(number)} of {session.agent} in {there}: {agree} agree.")
    if not keep_source:
        _remove(session, planned)
    places = {"from": here, "to": there, "source_removed": not keep_source}
    session.out.json({"agent": session.agent, "memories": number, **places})
    if settings.qdrant_url != to:
        set_this = session.settings.to_set(qdrant_url=to)
        session.out.warn(f"Sessions use it once their settings say so. {set_this}")


def _announce(session: Session, planned: "moving.Move", keep_source: bool) -> None:
    here, there = planned.source.where, planned.target.where
    already = f", where {len(planned.known):,} of them are already" if planned.present else ""
    number = counted(len(planned.memories))
    session.out.note(f"{number} of {session.agent}: from {here} to {there}{already}")
    stays = (
        f"The store in {here} stays, as a second one. What is forgotten in one of them stays in "
        "the other, and comes back with the next move from there."
    )
    deleted = f"Once all is there, the store in {here} is deleted."
    if planned.source.url != limits.HERE:
        deleted += " Change the settings of other machines, too: they would begin a new one there."
    session.out.note(stays if keep_source else deleted)
    if planned.present and planned.generator:
        texts = [each for key, each in planned.memories.items() if key not in planned.known]
        session.out.note(
            f"The store there has the model {planned.present.model}: the texts are embedded again."
            f"\n{run(plan(texts, planned.generator)).sentence}"
        )


def _copied(session: Session, planned: "moving.Move") -> list[str]:
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


def _remove(session: Session, planned: "moving.Move") -> None:
    here, there = planned.source.where, planned.target.where
    try:
        removed = run(planned.remove_source())
    except AgentMemoryError as error:
        failed = f"All is in {there}, but deleting the store in {here} failed: {error}"
        fail(f"{failed}\nRun it again to finish.")
    if not removed:
        fail(
            f"All that was copied is in {there}, but nothing was deleted from {here}: either "
            "others changed something meanwhile (then run it again), or both places are the same."
        )
    if remove := planned.source.kept:
        session.out.warn(f"An earlier repair kept files. When you no longer need them: {remove}")
    session.out.line(f"Deleted from {here}.")
