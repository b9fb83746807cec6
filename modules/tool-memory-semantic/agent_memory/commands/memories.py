"""See and correct: `search`, `store`, `pin`, `list` and `show`."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from memory_semantic import AgentMemoryError, InputError, limits, one_line, readable_size

from .. import files
from ..options import When, command, limit_option, since_filter, tag_filter, tag_label, until_filter
from ..output import local_time
from ..session import FIRST_STORE, Session, fail, run

if TYPE_CHECKING:
    from memory_semantic import Memory, Store

# The list of agents does not wait long for a store that is in use.
_PATIENCE_SECONDS = 2
# Of a rule, recall shows this many characters.
_SHOWN_CHARS = 600
# Characters shown of a memory that replaces another, is replaced or pinned.
_BEGINNING = 100


@command('search "which database did we pick?"', 'search "deploys" --since 30d --tag ops -n 3')
@click.argument("query")
@limit_option(5, "How many at most, up to 20.")
@since_filter
@until_filter
@tag_filter
def search(
    session: Session,
    query: str,
    limit: int,
    since: datetime | None,
    until: datetime | None,
    tags: Sequence[str],
) -> None:
    """Find memories by meaning, best first."""
    query, _ = session.storage.masked(query)
    storage = session.existing
    select = storage.fitting
    found = run(storage.search(query, limit, since, tags, until=until, select=select))
    if found and not any(memory.fit >= limits.FITS_A_PERSON for memory in found):
        session.out.note("Nothing fits well; the nearest are:")
    for memory in found:
        memory.content, _ = session.storage.masked(memory.content)
    session.out.json(found)
    if session.out.piped:
        session.out.memories(found)
    else:
        for memory in found:
            session.out.memory(memory)
    if not found:
        session.out.note(f"{session.agent} has no such memories.")


@command('store "We chose PostgreSQL for the users table." --tag database', "store - < note")
@click.argument("text")
@tag_label
@click.option("--replaces", metavar="ID", help="The memory that this one corrects.")
@click.option(
    "--expires", type=When(end=True, ahead=True), help="It holds until then: 7d, 2026-12-31."
)
@click.option("--pin", is_flag=True, help="It is a rule: each conversation begins with it.")
def store(
    session: Session,
    text: str,
    tags: Sequence[str],
    replaces: str | None,
    expires: datetime | None,
    pin: bool,
) -> None:
    """Store a memory: TEXT, or "-" for standard input."""
    content = _standard_input() if text == "-" else text
    item = (content, tags, {"stored_by": "agent-memory store"})
    old = by_id(session, [replaces])[0].id if replaces else None
    [stored] = run(session.storage.upsert([item], old, expires=expires, pin=pin))
    status = "already known: tags merged, the later time kept" if stored.known else "stored"
    result = {"agent": session.agent, "memory_id": stored.id, "status": status}
    result |= {"embedding_model": stored.model, "masked_secrets": stored.masked}
    session.out.json(result | {"replaced": stored.replaced or None, "new_store": stored.new_store})
    session.out.line(f"{stored.id}  {status} for {session.agent}{', pinned' if pin else ''}")
    if stored.new_store:
        session.out.note(f"The store of {session.agent} is new: there was none.")
    if stored.replaced:
        undo = f"agent-memory unreplace {stored.replaced}{session.named}"
        session.out.note(f"It replaces {stored.replaced}. Undo: {undo}")
    session.out.masked(stored.masked)
    if pin:
        tell_unshown(session)


def _standard_input() -> str:
    try:
        return files.read_all(sys.stdin.buffer.read).decode()
    except UnicodeDecodeError:
        raise InputError(f"The text on standard input is not UTF-8. {files.ENCODING}") from None


@command("unreplace mem-a3f2b8c1d4e5")
@click.argument("memory_id", metavar="ID")
def unreplace(session: Session, memory_id: str) -> None:
    """Let a memory that was replaced hold again, beside what replaced it."""
    [memory, *_] = by_id(session, [memory_id])
    run(session.storage.unreplace(memory.id))
    session.out.json({"agent": session.agent, "memory_id": memory.id})
    session.out.line(f"{memory.id}  {'holds again' if memory.replaced_by else 'was not replaced'}")


@command("pin mem-a3f2b8c1d4e5", "pin a3f2b8c1d4e5 0c9d8e7f6a5b")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def pin(session: Session, ids: Sequence[str]) -> None:
    """Pin memories: rules that recall shows at the beginning of each conversation."""
    _pin(session, ids, True)
    tell_unshown(session)


@command("unpin mem-a3f2b8c1d4e5")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def unpin(session: Session, ids: Sequence[str]) -> None:
    """Let memories be no rules any more; they stay."""
    _pin(session, ids, False)


def _pin(session: Session, ids: Sequence[str], pinned: bool) -> None:
    memories = by_id(session, ids)
    for memory in memories if pinned else ():
        if later := run(session.storage.replacing(memory)):
            fail(f"{memory.id} is replaced by {later.id}: pin that. Nothing was changed.")
    run(session.storage.pin([memory.id for memory in memories], pinned))
    session.out.json({"agent": session.agent, "memory_ids": [memory.id for memory in memories]})
    for memory in memories:
        did = "Pinned" if pinned else "Not pinned any more"
        session.out.line(f"{did}: {beginning(memory)}")


def tell_unshown(session: Session) -> None:
    """Tell which pinned rules do not fit into what recall shows by default, if there are any."""
    from memory_semantic import estimate_tokens

    rules = run(session.storage.get_recent(None, pinned=True, holding=True))
    left = dict[str, None]()
    for project_id in {rule.project_id for rule in rules}:  # no session shows another project's
        room = float(limits.PIN_BUDGET)
        for rule in (each for each in rules if each.project_id in (project_id, None)):
            tokens = estimate_tokens(f"{rule.id[4:8]} {rule.content[:_SHOWN_CHARS]}\n")
            left |= {rule.id: None} if tokens > room else {}
            room -= tokens if tokens <= room else 0
    if left:
        session.out.note(
            f"Recall shows about {limits.PIN_BUDGET:,} tokens of rules, the newest first, if not "
            f"all that is remembered fits. These do not fit: {', '.join(left)}. Unpin some: "
            f"agent-memory unpin ID{session.named}"
        )


@command(
    *("list", "list --since 7d", "list --tag database --limit 100", "list --all --json"),
    "list --agents",
)
@since_filter
@until_filter
@tag_filter
@limit_option(20)
@click.option("--all", "everything", is_flag=True, help="All of them, also replaced and expired.")
@click.option("--replaced", is_flag=True, help="Those that another memory has replaced.")
@click.option("--expired", is_flag=True, help="Those that have expired.")
@click.option("--pinned", is_flag=True, help="Only rules that are pinned.")
@click.option(
    "--agents", is_flag=True, help="Instead, the agents that have a store here, all of them."
)
def list_(
    session: Session,
    since: datetime | None,
    until: datetime | None,
    tags: Sequence[str],
    limit: int,
    everything: bool,
    replaced: bool,
    expired: bool,
    pinned: bool,
    agents: bool,
) -> None:
    """List memories, newest first: those that hold, unless asked for others, or all."""
    if agents:
        _list_agents(session)
        return
    asked = None if everything else limit + 1
    others = replaced or expired
    holding = not others and (pinned or not everything)
    only = partial(session.existing.get_recent, holding=holding, pinned=pinned)
    found = run(only(asked, since, until, tags, replaced=replaced, expired=expired))
    more = not everything and len(found) > limit
    shown = found[:limit] if more else found
    session.out.json(shown)
    session.out.memories(shown)
    if more:
        session.out.note(f"The newest {limit} of {session.agent}; more with --limit or --all.")
    elif not found:
        session.out.note(f"{session.agent} has no such memories.")


def _list_agents(session: Session) -> None:
    place = session.settings.place
    rows = [_agent(session, agent) for agent in place.agents()]
    session.out.json(rows)
    session.out.table(("agent", "memories", "size", "model", "last stored"), map(_cells, rows))
    if not rows:
        session.out.note(f"No agent has a store in {place.address} yet. {FIRST_STORE} --agent NAME")


def _agent(session: Session, agent: str) -> dict[str, Any]:
    from memory_semantic import upkeep

    def facts(store: "Store") -> tuple[int, str | None, list["Memory"]]:
        return store.count(), store.info.model.model, store.newest(1)

    try:
        storage = session.settings.storage(agent, lock_timeout=_PATIENCE_SECONDS)
        memories, model, newest = run(storage.run(facts, (0, None, [])))
        return {
            "agent": agent,
            "memories": memories,
            "bytes": upkeep.size(storage.place),
            "model": model,
            "last_stored": newest[0].timestamp if newest else None,
        }
    except AgentMemoryError as error:
        return {"agent": agent, "problem": str(error)}


def _cells(row: dict[str, Any]) -> list[str]:
    if "problem" in row:
        return [row["agent"], "?", "?", "?", f"run: agent-memory doctor --agent {row['agent']}"]
    return [
        row["agent"],
        f"{row['memories']:,}",
        "-" if row["bytes"] is None else readable_size(row["bytes"]),
        row["model"] or "-",
        local_time(row["last_stored"]) if row["last_stored"] else "-",
    ]


_SAID_BY = {
    "user": "Said by the user{}.",
    "tool": "Said by a page or tool that the agent had read.",
    "agent": "Said by the agent.",
}


@command("show mem-a3f2b8c1d4e5", "show a3f2b8c1d4e5 --json")
@click.argument("memory_id", metavar="ID")
def show(session: Session, memory_id: str) -> None:
    """Show one memory in full."""
    found = by_id(session, [memory_id])
    session.out.json(found[0] if len(found) == 1 else found)
    for memory in found:
        session.out.memory(memory, whole=True)
        if memory.pinned and not memory.replaced_by:
            project = memory.metadata.get("project") if memory.project_id else None
            where = f" in {one_line(project)}" if project else ""
            session.out.line(f"Pinned: recall shows it as a conversation begins{where}.")
        if memory.said_by:
            words = f': "{one_line(memory.quote)}"' if memory.quote else ", in these words"
            session.out.line(_SAID_BY[memory.said_by].format(words))
        if memory.expires:
            did = "Expired" if memory.expired(datetime.now(UTC)) else "Expires"
            session.out.line(f"{did} {local_time(memory.expires)}.")
        if later := run(session.storage.replacing(memory)):
            session.out.line(f"Replaced by {beginning(later)}")
        for earlier in run(session.storage.replaced([memory])):
            session.out.line(f"Replaces {beginning(earlier)}")


def beginning(memory: "Memory") -> str:
    """Its id and the beginning of its text, on one line."""
    return f"{memory.id}: {one_line(memory.content)[:_BEGINNING]}"


def by_id(session: Session, ids: Sequence[str]) -> list["Memory"]:
    """The memories with these ids, or ids that begin so. If one is missing, the command ends."""
    from memory_semantic import clean_ids  # here, because help loads nothing heavy

    asked = clean_ids(ids)
    memories = run(session.existing.with_ids(asked))
    found = {id: [memory for memory in memories if memory.id.startswith(id)] for id in asked}
    for id, of_id in found.items():
        if not of_id:
            fail(f"{session.agent} has no memory {id}. Nothing was changed.")
    return list({memory.key: memory for of_id in found.values() for memory in of_id}.values())
