"""See what there is: `list`."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from memory_semantic import AgentMemoryError, readable_size

from ..options import command, limit_option, since_filter, tag_filter, until_filter
from ..output import local_time
from ..session import FIRST_STORE, Session, run

if TYPE_CHECKING:
    from memory_semantic import Memory, Store

# The list of agents does not wait long for a store that is in use.
_PATIENCE_SECONDS = 2


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
    holding = not (replaced or expired) and (pinned or not everything)
    only = partial(session.existing.get_recent, holding=holding, pinned=pinned)
    asked = None if everything else limit + 1
    found = run(only(asked, since, until, tags, replaced=replaced, expired=expired))
    shown = found if everything else found[:limit]
    session.out.json(shown)
    session.out.memories(shown)
    if len(shown) < len(found):
        session.out.note(f"The newest {limit} of {session.agent}; more with --limit or --all.")
    elif not found:
        session.out.note(f"{session.agent} has no such memories.")


def _list_agents(session: Session) -> None:
    place = session.settings.place
    rows = [_agent(session, agent) for agent in place.agents()]
    session.out.json(rows)
    cells = (_cells(row, session.rooted) for row in rows)
    session.out.table(("agent", "memories", "size", "model", "last stored"), cells)
    if not rows:
        first = f"{FIRST_STORE} --agent NAME{session.rooted}"
        session.out.note(f"No agent has a store in {place.address} yet. {first}")


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


def _cells(row: dict[str, Any], rooted: str) -> list[str]:
    if "problem" in row:
        look = f"run: agent-memory doctor --agent {row['agent']}{rooted}"
        return [row["agent"], "?", "?", "?", look]
    return [
        row["agent"],
        f"{row['memories']:,}",
        "-" if row["bytes"] is None else readable_size(row["bytes"]),
        row["model"] or "-",
        local_time(row["last_stored"]) if row["last_stored"] else "-",
    ]
