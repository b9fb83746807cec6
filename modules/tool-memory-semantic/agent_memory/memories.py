"""See and correct: what `agents`, `search`, `store`, `list`, `show` and `forget` do."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Event, current_thread, main_thread
from typing import Any, NoReturn

import click
from memory_semantic import AgentMemoryError, InputError, Memory, MemoryStorage, maintenance
from memory_semantic.limits import ALL
from memory_semantic.memory import timestamp_text

from . import formats
from .output import MEMORY_COLUMNS, counted, local_time, memory_json, memory_row, readable_size
from .session import Session, confirm, fail, known_agents, place_of, run, size_of

_ON_SERVER = (
    "Gone from search. The server takes them out of its files when it next rewrites these, or at "
    "once with: "
)
_SHOWN = 20  # of the memories that are to be forgotten
# A list of agents does not wait long for one that is at work.
_PATIENCE_SECONDS = 2


def agents(session: Session) -> None:
    """Who has a memory, how large, by which model, last used when."""
    config = session.settings.storage()
    rows = [_agent(session, agent) for agent in known_agents(session.settings)]
    if session.out.as_json:
        session.out.json(rows)
    elif rows:
        session.out.table(("agent", "memories", "size", "model", "last stored"), map(_cells, rows))
    else:
        session.out.note(f"No agent has a memory in {place_of(config)} yet.")
    if config.doubt and not rows:
        session.out.warn(config.doubt)


def _agent(session: Session, agent: str) -> dict[str, Any]:
    try:
        storage = MemoryStorage(agent, {**session.settings.core, "lock_timeout": _PATIENCE_SECONDS})
        newest = run(storage.get_recent(1))
        info = run(storage.info())
        return {
            "agent": agent,
            "memories": run(storage.count()),
            "bytes": size_of(storage),
            "model": info.model.model if info else None,
            "last_stored": timestamp_text(newest[0].timestamp) if newest else None,
        }
    except AgentMemoryError as error:
        return {"agent": agent, "problem": str(error)}


def _cells(row: dict[str, Any]) -> list[str]:
    if "problem" in row:
        return [row["agent"], "?", "?", "?", f"run: agent-memory doctor --agent {row['agent']}"]
    last = row["last_stored"]
    return [
        row["agent"],
        f"{row['memories']:,}",
        "-" if row["bytes"] is None else readable_size(row["bytes"]),
        row["model"] or "-",
        local_time(datetime.fromisoformat(last)) if last else "-",
    ]


def search(
    session: Session, query: str, limit: int, since: datetime | None, tags: Sequence[str]
) -> None:
    """What the tool memory_search finds, for a person."""
    query, _ = session.masked(query)
    found = run(session.existing.search(query, limit, since, tags))
    for memory in found:
        memory.content, _ = session.masked(memory.content)
    if session.out.as_json or session.out.piped:
        session.memories(found)
        return
    for memory in found:
        session.out.memory(memory)
    if not found:
        session.out.note(f"{session.agent} has no such memories.")


def store(session: Session, text: str, tags: Sequence[str]) -> None:
    """What the tool memory_store does."""
    content, masked = session.masked(_standard_input() if text == "-" else text)
    labels, masked_tags = session.masked(list(tags))
    [stored] = run(session.storage.upsert([(content, labels, {"stored_by": "agent-memory store"})]))
    status = "already known: time renewed, tags merged" if stored.known else "stored"
    masked += masked_tags
    if session.out.as_json:
        result = {"agent": session.agent, "memory_id": stored.id, "status": status}
        session.out.json({**result, "embedding_model": stored.model, "masked_secrets": masked})
        return
    session.out.line(f"{stored.id}  {status} for {session.agent}")
    session.out.masked(masked)


def _standard_input() -> str:
    try:
        return formats.read_all(sys.stdin.buffer.read).decode()
    except UnicodeDecodeError:
        raise InputError(f"The text on standard input is not UTF-8. {formats.ENCODING}") from None


def list_(session: Session, since: datetime | None, tags: Sequence[str], limit: int | None) -> None:
    """The newest memories; all of them without a limit."""
    found = run(session.existing.get_recent(limit + 1 if limit else ALL, since, tags=tags))
    session.memories(found[:limit])
    if limit and len(found) > limit:
        session.out.note(f"The newest {limit} of {session.agent}; more with --limit or --all.")
    elif not found:
        session.out.note(f"{session.agent} has no such memories.")


def show(session: Session, memory_id: str) -> None:
    """One memory, with all its text."""
    [memory] = _by_id(session, [memory_id])
    if session.out.as_json:
        session.out.json(memory_json(memory))
    else:
        session.out.memory(memory, whole=True)


def forget(
    session: Session,
    ids: Sequence[str],
    tags: Sequence[str],
    since: datetime | None,
    before: datetime | None,
    yes: bool,
) -> None:
    """Delete those with the ids, or all of the tags and the time; ask, and verify."""
    if session.out.as_json and not yes:
        raise click.UsageError("With --json nothing is shown before it is deleted: add --yes.")
    storage = session.existing
    run(maintenance.erase(storage.backend))  # what an interrupted one has left on the disk
    if ids:
        doomed = _by_id(session, ids)
    else:
        found = run(storage.get_recent(ALL, since, before, tags))
        doomed = [memory for memory in found if not before or memory.timestamp < before]
    try:
        _forget(session, storage, doomed, yes)
    except KeyboardInterrupt:
        _fail_interrupted(storage, doomed)


def _forget(session: Session, storage: MemoryStorage, doomed: Sequence[Memory], yes: bool) -> None:
    if doomed and not session.out.as_json:
        session.out.table(MEMORY_COLUMNS, map(memory_row, doomed[:_SHOWN]))
        if len(doomed) > _SHOWN:
            session.out.line(f"… and {len(doomed) - _SHOWN:,} more")
    if doomed:
        confirm(f"Delete {counted(len(doomed))} of {session.agent} for good?", yes)
        with _interrupt_held_back() as interrupted:
            if not interrupted.is_set():
                run(storage.delete([memory.id for memory in doomed]))
        if interrupted.is_set():
            raise KeyboardInterrupt
        if not session.on_server:
            _require_gone(storage, doomed)
    if session.on_server and doomed and storage.folder.holds_memories:
        session.out.warn(
            "The files of this machine have a memory of this agent, too, which was not touched. "
            f"There: agent-memory forget … --root {storage.config.storage_root}"
        )
    if session.out.as_json:
        session.out.json({"agent": session.agent, "forgotten": [memory.id for memory in doomed]})
    elif doomed:
        gone = "Gone from search and from the files."
        if session.on_server:
            info = run(storage.info())
            model = info.model.model if info else "local"
            gone = f"{_ON_SERVER}agent-memory reembed --model {model}"
        session.out.line(f"Forgotten: {len(doomed):,}. {gone}")
    else:
        session.out.note(f"{session.agent} has no such memories. Nothing was changed.")


@contextmanager
def _interrupt_held_back() -> Iterator[Event]:
    """What is deleted in the block is deleted whole: the first Ctrl-C only sets the event."""
    interrupted = Event()

    def interrupt(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    if current_thread() is not main_thread():  # which signals do not reach
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _require_gone(storage: MemoryStorage, doomed: Sequence[Memory]) -> None:
    """Look through the bytes on disk, and end the command if anything of them is left."""
    living = run(storage.get_recent(ALL))
    again = {memory.id for memory in doomed} & {memory.id for memory in living}
    if again:
        fail(f"{len(again)} of them were stored again meanwhile, and are still there.")
    folder = storage.folder.path
    left = maintenance.traces(folder, doomed, living)
    kept = {folder / path.relative_to(folder).parts[0] for path in left}
    if storage.folder.database in kept:
        fail(f"Deleted from the store, but traces are left in its files: {left[0]}")
    if kept:
        places = " ".join(map(str, sorted(kept)))
        fail(
            "Deleted from the store, but an earlier repair has kept files in which traces are "
            f"left. When you no longer need them: rm -r {places}"
        )


def _fail_interrupted(storage: MemoryStorage, doomed: Sequence[Memory]) -> NoReturn:
    """End with what was done until Ctrl-C; a deletion that had begun is waited for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    living = {memory.id for memory in run(storage.get_recent(ALL))}
    gone = sum(memory.id not in living for memory in doomed)
    if not gone:
        fail("Interrupted. Nothing was deleted.")
    if gone < len(doomed):
        fail(f"Interrupted: {gone:,} of {counted(len(doomed))} were deleted. Run it again.")
    fail(
        f"Interrupted. All {counted(gone)} were deleted, but the files were not searched for "
        "what is left of them. See: agent-memory doctor"
    )


def _by_id(session: Session, ids: Sequence[str]) -> list[Memory]:
    """The memories with these ids, which may lack their `mem-`: all, or the command ends."""
    found = []
    for given in dict.fromkeys(id.strip().lower().removeprefix("mem-") for id in ids):
        memory = run(session.existing.get(f"mem-{given}"))
        if memory is None:
            fail(f"{session.agent} has no memory mem-{given}. Nothing was changed.")
        found.append(memory)
    return found
