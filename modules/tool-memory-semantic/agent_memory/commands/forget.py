"""Delete for good, and make sure of it: `forget`."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, NoReturn

import click

from ..options import When, command, since_filter, tag_filter, yes_option
from ..output import counted
from ..session import Session, confirm, fail, run
from .memories import by_id

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage


@command(
    "forget mem-a3f2b8c1d4e5",
    "forget --tag captured --since 1d",
    "forget --before 2025-01-01 --yes",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@tag_filter
@since_filter
@click.option("--before", type=When(), help="Only those stored before: 2025-01-31, 52w.")
@yes_option
def forget(
    session: Session,
    ids: Sequence[str],
    tags: Sequence[str],
    since: datetime | None,
    before: datetime | None,
    yes: bool,
) -> None:
    """Delete memories for good.

    Shows them and asks first. Afterwards, checks that they are gone from search and from the files
    on disk; a server removes them from its files later.
    """
    if bool(ids) == bool(tags or since or before):
        raise click.UsageError("Name memories by their ids, or by --tag, --since and --before.")
    if session.out.as_json and not yes:
        raise click.UsageError("With --json nothing is shown before it is deleted: add --yes.")
    storage = session.existing
    info = run(storage.info())
    if info and info.erasing:  # an earlier deletion was interrupted
        run(session.place.erase())
        session.out.note("What was forgotten before is now erased from the disk, too.")
    if ids:
        doomed = by_id(session, ids)
    else:
        found = run(storage.get_recent(None, since, before, tags))
        doomed = [memory for memory in found if not before or memory.timestamp < before]
    try:
        _forget(session, storage, doomed, yes)
    except KeyboardInterrupt:
        _fail_interrupted(storage, doomed)


def _forget(
    session: Session, storage: "MemoryStorage", doomed: Sequence["Memory"], yes: bool
) -> None:
    session.out.first_memories(doomed)
    sentence = ""
    if doomed:
        confirm(f"Delete {counted(len(doomed))} of {session.agent} for good?", yes)
        with _interrupt_held_back() as interrupted:
            run(storage.delete([memory.id for memory in doomed]))
            run(session.place.erase())  # from what rebuilds have left, too
        if interrupted.is_set():
            raise KeyboardInterrupt
        sentence, warning = run(session.place.gone(storage.config, doomed))
        if warning:
            session.out.warn(warning)
    session.out.json({"agent": session.agent, "forgotten": [memory.id for memory in doomed]})
    if doomed:
        session.out.line(f"Forgotten: {len(doomed):,}. {sentence}")
    else:
        session.out.note(f"{session.agent} has no such memories. Nothing was changed.")


@contextmanager
def _interrupt_held_back() -> Iterator[Event]:
    """A deletion in the block is completed: the first Ctrl-C only sets the event."""
    interrupted = Event()

    def interrupt(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    if current_thread() is not main_thread():  # signals do not reach it
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _fail_interrupted(storage: "MemoryStorage", doomed: Sequence["Memory"]) -> NoReturn:
    """End with how much was deleted before Ctrl-C; waits for a deletion that has begun."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    living = {memory.id for memory in run(storage.get_recent(None))}
    gone = sum(memory.id not in living for memory in doomed)
    if not gone:
        fail("Interrupted. Nothing was deleted.")
    if gone < len(doomed):
        fail(f"Interrupted: {gone:,} of {counted(len(doomed))} were deleted. Run it again.")
    fail(
        f"Interrupted. All {counted(gone)} were deleted, but the files were not searched for "
        "what is left of them. See: agent-memory doctor"
    )
