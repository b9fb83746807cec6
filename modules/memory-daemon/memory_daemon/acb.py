"""What an agent is given: the Active Context Bundle, decisions, a handoff, a whole artifact."""

import re
from typing import Any

from memory_hooks.tokens import estimate
from psycopg import errors

from .access import CHANNELS, Access
from .arguments import BuildAcb, CreateHandoffPacket, GetArtifact, QueryDecisions, RecordEvent
from .bundle import Block, Section, pack
from .database import Connection, Database
from .meaning import decisions
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

_TASKS = f"""
  SELECT *, format('task %%s (%%s)', task_id, status) AS what,
    concat_ws(E'\\n', title, nullif(details, title)) AS text
  FROM tasks WHERE status <> 'done'
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent_id)s)
  ORDER BY ts DESC LIMIT {ITEMS}"""
_RECENT = f"""
  SELECT chunks.*, kind AS what, row_number() OVER (ORDER BY ts, chunk_id) AS place
  FROM chunks JOIN (SELECT event_id FROM events WHERE session_id = %(session_id)s
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent_id)s)
    ORDER BY ts DESC LIMIT {RECENT_EVENTS}) last USING (event_id)
  ORDER BY ts DESC, chunk_id"""
_EVIDENCE = """
  SELECT *, kind AS what
  FROM acb_candidates(%(query_text)s, %(channel)s, %(agent_id)s, %(recency)s)"""
_ARTIFACT = """
  SELECT bytes FROM artifacts WHERE artifact_id = %(artifact_id)s
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent_id)s)"""


async def build_acb(
    settings: Settings, database: Database, access: Access, request: BuildAcb
) -> str:
    """The bundle, of at most the tokens that request, token and setting allow. Raises Refused."""
    limit = min(request.max_tokens, access.max_tokens, settings.acb_tokens)
    asked = request.model_dump() | {"recency": _recency(request)}
    note, evidence = "", []
    async with database.transaction(access.tenant) as connection:
        sections = await _sections(connection, request, request.query_text, limit)
        try:
            async with connection.transaction():
                evidence = await _blocks(connection, _EVIDENCE, asked)
        except errors.QueryCanceled:
            note = " The search for evidence took too long: this bundle is without it."
    return pack("Context bundle", [*sections, Section("evidence", evidence)], limit, note)


def _recency(request: BuildAcb) -> float:
    asked = f"{request.intent} {request.query_text}"
    if re.search(rf"\b({_ASKS_HISTORY})\b", asked, re.I):
        return 0
    return RECENCY_ASKED if re.search(rf"\b({_ASKS_RECENT})\b", asked, re.I) else RECENCY


async def query_decisions(
    _: Settings, database: Database, access: Access, request: QueryDecisions
) -> str:
    """The decisions nearest to the query, or the newest. Raises Refused."""
    scopes = [request.scope] if request.scope else ["project", "user", "global"]
    asked = request.model_dump() | {"scopes": scopes}
    async with database.transaction(access.tenant) as connection:
        found = await decisions(connection, asked, request.query_text, request.limit)
    return pack("Decisions", [Section("decisions", found)], min(ANSWER_TOKENS, access.max_tokens))


async def create_handoff_packet(
    settings: Settings, database: Database, access: Access, request: CreateHandoffPacket
) -> str:
    """The packet; that it was handed over is an event of its own. Raises Refused."""
    limit = min(request.max_tokens, access.max_tokens)
    title = f"Handoff from {request.agent_id} to {request.to_agent}"
    note = request.note or "(no note)"
    async with database.transaction(access.tenant) as connection:
        sections = await _sections(connection, request, request.note, limit)
    event = {"text": f"{title}: {note}", "tags": ["handoff"]}
    event |= request.model_dump(include={"agent_id", "session_id"})
    event["channel"] = min("agent", access.channel, key=CHANNELS.index)
    await record_event(settings, database, access, RecordEvent.model_validate(event))
    own = Section("note", [Block("", "note", note, estimate(note))])
    return pack(title, [own, *sections], limit)


async def get_artifact(
    _: Settings, database: Database, access: Access, request: GetArtifact
) -> str:
    """A line that says where the page stands, and the page. Raises Refused."""
    async with database.transaction(access.tenant) as connection:
        found = await connection.execute(_ARTIFACT, request.model_dump())
        row = await found.fetchone()
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
    connection: Connection, request: BuildAcb | CreateHandoffPacket, query: str, limit: int
) -> list[Section]:
    asked = request.model_dump() | {"status": "active"}
    rules, project = ({**asked, "scopes": s} for s in (["global", "user"], ["project"]))
    found = {
        "rules": await decisions(connection, rules, "", ITEMS),
        "tasks": await _blocks(connection, _TASKS, asked),
        "decisions": await decisions(connection, project, query, ITEMS),
        "recent": await _blocks(connection, _RECENT, asked),
    }
    return [Section(name, found[name], min(most, limit * p)) for name, (most, p) in ROOM.items()]


async def _blocks(connection: Connection, query: str, asked: dict[str, Any]) -> list[Block]:
    found = await connection.execute(query.encode(), asked)
    return [Block.of(row) for row in await found.fetchall()]
