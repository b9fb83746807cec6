"""What an agent is given: the Active Context Bundle, decisions, a handoff, a whole artifact."""

import re
from typing import Any

from memory_hooks.tokens import estimate
from psycopg import errors

from . import meaning
from .access import CHANNELS, Access
from .arguments import BuildAcb, CreateHandoffPacket, GetArtifact, QueryDecisions, RecordEvent
from .bundle import Block, Section, pack
from .database import Connection, Database
from .record import record_event
from .settings import Refused, Settings

# What a section may take of a bundle: so many tokens, and no more than such a part of a small one.
ROOM = {
    "rules": (2_000, 0.1),
    "tasks": (3_000, 0.15),
    "decisions": (10_000, 0.2),
    "recent": (15_000, 0.25),
}
ITEMS = 50  # rules, tasks and decisions, and
RECENT_EVENTS = 30  # of the session, that are looked at
ANSWER_TOKENS = 20_000  # of query_decisions, which every client takes
# How much newness counts, beside words (0.6) and importance (0.1). Not the specification's 0.3,
# except where the question asks for what is new: docs/measured.md has what that costs.
RECENCY, RECENCY_ASKED = 0.1, 0.3
_ASKS_RECENT = r"recent(ly)?|lately|latest|today|yesterday|this (morning|week)|last (night|week)"
_ASKS_HISTORY = r"history|historical(ly)?|originally|initially|at first|long ago"

_TASKS = """
  SELECT * FROM tasks WHERE status <> 'done'
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent)s) ORDER BY ts DESC LIMIT 50"""
_RECENT = """
  SELECT chunks.* FROM chunks JOIN (SELECT event_id FROM events WHERE session_id = %(session)s
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent)s)
    ORDER BY ts DESC LIMIT %(events)s) last USING (event_id) ORDER BY ts DESC, chunk_id"""
_ARTIFACT = """
  SELECT bytes FROM artifacts WHERE artifact_id = %s
    AND visible(channel, sensitivity, actor_id, %s, %s)"""


async def build_acb(
    settings: Settings, database: Database, access: Access, request: BuildAcb
) -> str:
    """The bundle, of at most the tokens that request, token and setting allow. Raises Refused."""
    channel = access.reach(request.channel)
    limit = min(request.max_tokens, access.max_tokens, settings.acb_tokens)
    note, evidence = "", []
    async with database.transaction(access.tenant) as connection:
        sections = await _sections(connection, request, channel, request.query_text, limit)
        try:
            async with connection.transaction():
                evidence = await _evidence(connection, request, channel)
        except errors.QueryCanceled:
            note = " The search for evidence took too long: this bundle is without it."
    return pack("Context bundle", [*sections, Section("evidence", evidence)], limit, note)


async def query_decisions(
    settings: Settings, database: Database, access: Access, request: QueryDecisions
) -> str:
    """The decisions nearest to the query, or the newest. Raises Refused."""
    scopes = [request.scope] if request.scope else ["project", "user", "global"]
    async with database.transaction(access.tenant) as connection:
        seen = {"channel": access.reach(request.channel), "agent": request.agent_id}
        found = await meaning.decisions(
            connection,
            request.query_text,
            request.limit,
            status=request.status,
            scopes=scopes,
            **seen,
        )
    limit = min(ANSWER_TOKENS, access.max_tokens)
    return pack("Decisions", [Section("decisions", [*map(_decision, found)])], limit)


async def create_handoff_packet(
    settings: Settings, database: Database, access: Access, request: CreateHandoffPacket
) -> str:
    """The packet; that it was handed over is an event of its own. Raises Refused."""
    channel = access.reach(request.channel)
    limit = min(request.max_tokens, access.max_tokens)
    title = f"Handoff from {request.agent_id} to {request.to_agent}"
    note = request.note or "(no note)"
    async with database.transaction(access.tenant) as connection:
        sections = await _sections(connection, request, channel, request.note, limit)
    event = {"text": f"{title}: {note}", "tags": ["handoff"]}
    event |= {"agent_id": request.agent_id, "session_id": request.session_id}
    event["channel"] = min("agent", access.channel, key=CHANNELS.index)
    await record_event(settings, database, access, RecordEvent.model_validate(event))
    own = Section("note", [Block("", "note", note, estimate(note))])
    return pack(title, [own, *sections], limit)


async def get_artifact(
    settings: Settings, database: Database, access: Access, request: GetArtifact
) -> str:
    """A line that says where the page stands, and the page. Raises Refused."""
    asked = [request.artifact_id, access.reach(request.channel), request.agent_id]
    async with database.transaction(access.tenant) as connection:
        row = await (await connection.execute(_ARTIFACT, asked)).fetchone()
    if not row:
        raise Refused(
            f"There is no artifact {request.artifact_id} that you can see. What is shown as an "
            "excerpt has one, under the id of its event."
        )
    text = bytes(row["bytes"]).decode()
    page = text[request.offset :][: request.max_chars]
    end = request.offset + len(page)
    rest = f"go on with offset {end}" if end < len(text) else "this is the end"
    where = f"characters {request.offset:,} to {end:,} of {len(text):,}; {rest}"
    return f"artifact {request.artifact_id}: {where}\n{page}"


async def _sections(
    connection: Connection,
    request: BuildAcb | CreateHandoffPacket,
    channel: str,
    query: str,
    limit: int,
) -> list[Section]:
    seen = {"status": "active", "channel": channel, "agent": request.agent_id}
    asked = {**seen, "session": request.session_id, "events": RECENT_EVENTS}
    rules = await meaning.decisions(connection, "", ITEMS, scopes=["global", "user"], **seen)
    decided = await meaning.decisions(connection, query, ITEMS, scopes=["project"], **seen)
    tasks = await (await connection.execute(_TASKS, asked)).fetchall()
    recent = await (await connection.execute(_RECENT, asked)).fetchall()
    blocks = {
        "rules": [*map(_decision, rules)],
        "tasks": [*map(_task, tasks)],
        "decisions": [*map(_decision, decided)],
        "recent": [_chunk(row, (row["ts"], row["chunk_id"])) for row in recent],
    }
    return [Section(name, blocks[name], min(most, limit * p)) for name, (most, p) in ROOM.items()]


async def _evidence(connection: Connection, request: BuildAcb, channel: str) -> list[Block]:
    asked = f"{request.intent} {request.query_text}"
    recency = RECENCY_ASKED if re.search(rf"\b({_ASKS_RECENT})\b", asked, re.I) else RECENCY
    if re.search(rf"\b({_ASKS_HISTORY})\b", asked, re.I):
        recency = 0
    found = await connection.execute(
        "SELECT * FROM acb_candidates(%s, %s, %s, %s)",
        [request.query_text, channel, request.agent_id, recency],
    )
    return [_chunk(row) for row in await found.fetchall()]


def _chunk(row: dict[str, Any], order: Any = 0) -> Block:
    heading = _heading(row["kind"], row["event_id"], row)
    return Block(row["event_id"], heading, row["text"], row["token_est"], order)


def _decision(row: dict[str, Any]) -> Block:
    reasons = ("rationale", "constraints", "alternatives", "consequences")
    lines = [f"{name}: {'; '.join(row[name])}" for name in reasons if row[name]]
    text = "\n".join([row["decision"], *lines])
    what = f"decision ({row['scope']}, {row['status']})"
    if row["superseded_by"]:
        what += f" by {row['superseded_by']}"
    return Block(row["decision_id"], _heading(what, row["decision_id"], row), text, estimate(text))


def _task(row: dict[str, Any]) -> Block:
    text = "\n".join(dict.fromkeys([row["title"], row["details"]]))
    heading = _heading(f"task {row['task_id']} ({row['status']})", row["event_id"], row)
    return Block(row["event_id"], heading, text, estimate(text))


def _heading(what: str, event_id: str, row: dict[str, Any]) -> str:
    actor = row["actor_id"]
    if row.get("actor_type", "agent") != "agent":
        actor = f"{row['actor_type']} (by {actor})"
    refs = f" [{', '.join(row['refs'][:8])}]" if row["refs"] else ""
    return f"{what} {event_id} {row['ts']:%Y-%m-%d %H:%M}Z {actor}{refs}"
