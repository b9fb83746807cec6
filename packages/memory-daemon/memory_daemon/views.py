"""What the page shows: each view asks as the one who looks, for what its template shows."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request

from .acb import BuildAcb, GetArtifact
from .access import Access
from .arguments import Asked, Call
from .transfer import DECISIONS, SEE, TASKS

NEWEST = 20_000  # events that the overview is made of, so that it is quick at a million
ROWS, KEPT = 100, 1_000  # of a list, and of decisions or tasks
SLOTS = 60  # of time, in the picture of agents

NOBODY = "-"  # the agent, or the session, if none is given

_ASKED = ("query_text", "session_id", "intent", "max_tokens")
_SAID = "coalesce(content->>'text', content->>'excerpt_text', '')"
_NEWEST = f"""
  WITH newest AS (SELECT * FROM (SELECT * FROM events WHERE ts < %(before)s
    ORDER BY ts DESC LIMIT {NEWEST}) events WHERE {SEE})"""
_SESSIONS = f"""{_NEWEST}
  SELECT session_id, min(ts) AS first, max(ts) AS last, count(*) AS events,
    array_agg(DISTINCT actor_id) AS agents,
    (array_agg(left({_SAID}, 200) ORDER BY (actor_type = 'human') DESC, ts))[1] AS asked
  FROM newest GROUP BY session_id ORDER BY last DESC LIMIT {ROWS}"""
_AGENTS = f"""{_NEWEST}, span AS (SELECT min(ts) AS first, max(ts) AS last FROM newest)
  SELECT actor_id, first, last, count(*) AS events,
    least(floor({SLOTS} * extract(epoch FROM ts - first)
      / greatest(extract(epoch FROM last - first), 1)), {SLOTS} - 1)::int AS slot
  FROM newest CROSS JOIN span GROUP BY actor_id, first, last, slot ORDER BY actor_id, slot"""
_EVENTS = f"""
  SELECT events.*, {_SAID} AS text,
    EXISTS (SELECT FROM artifacts WHERE artifact_id = event_id) AS whole
  FROM events WHERE session_id = %(session)s AND {SEE}
  ORDER BY ts, event_id LIMIT {ROWS} + 1 OFFSET %(offset)s"""
_ARTIFACTS = f"""
  SELECT artifact_id, ts, kind, meta, actor_id, octet_length(bytes) AS size
  FROM artifacts WHERE ts < %(before)s AND {SEE} ORDER BY ts DESC LIMIT {ROWS}"""


_Tool = TypeVar("_Tool", bound=Asked)


class Who(NamedTuple):
    """Who looks: what the token allows, and which agent's private events are shown."""

    access: Access
    agent: str


Context = dict[str, Any]


class Look(NamedTuple):
    """A request for a view, who makes it, and what a tool would work with."""

    request: Request
    who: Who
    call: Call

    async def rows(self, query: str, **asked: Any) -> list[Context]:
        """What a query finds that `who` may see."""
        asked |= {"channel": self.who.access.channel, "agent": self.who.agent}
        async with self.call.database.transaction(self.who.access.tenant) as connection:
            return await (await connection.execute(query.encode(), asked)).fetchall()

    def tool(self, model: type[_Tool], /, **asked: Any) -> _Tool:
        """A call of a tool as `who` would make it. Raises ValidationError."""
        as_who = {"agent_id": self.who.agent or NOBODY, "channel": self.who.access.channel}
        return model.model_validate({**asked, **as_who})

    def before(self) -> datetime:
        """The time that a list begins before: now, unless the address says another."""
        try:
            return datetime.fromisoformat(self.request.query_params["before"]).astimezone(UTC)
        except (KeyError, ValueError, OverflowError):
            return datetime.now(UTC) + timedelta(days=1)


View = Callable[[Look], Awaitable[Context]]
VIEWS: dict[str, View] = {}


def _view(path: str) -> Callable[[View], View]:
    return lambda view: VIEWS.setdefault(path, view)


@_view("/")
async def sessions(look: Look) -> Context:
    """Sessions, the latest first, and when which agent recorded."""
    found = await look.rows(_SESSIONS, before=look.before())
    slots = await look.rows(_AGENTS, before=look.before())
    agents = {agent: list(of) for agent, of in groupby(slots, key=lambda row: row["actor_id"])}
    most = max((row["events"] for row in slots), default=1)
    more = found[-1]["last"].isoformat() if len(found) == ROWS else ""
    return {"sessions": found, "agents": agents, "most": most, "more": more, "slots": SLOTS}


@_view("/session")
async def session(look: Look) -> Context:
    """The events of one session, in time."""
    asked = look.request.query_params
    name, given = asked.get("id", "").replace("\0", ""), asked.get("offset", "")
    offset = int(given) if given.isdecimal() and len(given) < 10 else 0
    found = await look.rows(_EVENTS, session=name, offset=offset)
    more = offset + ROWS if len(found) > ROWS else 0
    return {"name": name, "events": found[:ROWS], "offset": offset, "more": more}


@_view("/decisions")
async def decisions(look: Look) -> Context:
    """Decisions, each above those that it replaced."""
    kept = await look.rows(f"{DECISIONS} LIMIT {KEPT}")
    found = {row["decision_id"]: {**row, "replaced": []} for row in kept}
    heads = []
    for row in found.values():
        newer = found.get(row["superseded_by"] or "")
        (newer["replaced"] if newer else heads).append(row)
    return {"decisions": heads, "count": len(found)}


@_view("/tasks")
async def tasks(look: Look) -> Context:
    """Tasks: what is being done, what is open, what is done."""
    return {"tasks": await look.rows(f"{TASKS} LIMIT {KEPT}")}


@_view("/artifacts")
async def artifacts(look: Look) -> Context:
    """What was too long to be shown whole, the latest first."""
    found = await look.rows(_ARTIFACTS, before=look.before())
    return {"artifacts": found, "more": found[-1]["ts"].isoformat() if len(found) == ROWS else ""}


@_view("/artifact")
async def artifact(look: Look) -> Context:
    """A page of a long text."""
    answer = look.tool(GetArtifact, **look.request.query_params)
    where, _, text = (await answer.answer(look.call)).partition("\n")
    rest = re.search(r"continue with offset (\d+)$", where)
    return {"id": answer.artifact_id, "where": where, "text": text, "next": rest and rest[1]}


@_view("/search")
async def search(look: Look) -> Context:
    """What a bundle holds for a question, and why; what was left out, and why."""
    given = {name: look.request.query_params.get(name, "").strip() for name in _ASKED}
    asked = {name: value for name, value in given.items() if value}
    if not given["query_text"]:
        return {"asked": given, "sections": {}, "text": ""}
    packed = await look.tool(BuildAcb, **{"session_id": NOBODY, **asked}).packed(look.call)
    sections = {name: list(of) for name, of in groupby(packed.fates, lambda fate: fate.section)}
    return {"asked": given, "sections": sections, "text": packed.text}
