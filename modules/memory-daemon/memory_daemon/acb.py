"""The Active Context Bundle: what an agent should know for a question, and the handoff packet."""

import re
from typing import Any

from psycopg import errors

from .access import CHANNELS, Access
from .arguments import BuildAcb, CreateHandoffPacket, QueryDecisions, RecordEvent
from .bundle import Block, Section, pack
from .database import Connection, Database
from .meaning import Meaning
from .tokens import estimate

# What a section may take of a bundle: so many tokens, and no more than such a part of a small one.
ROOM = {
    "rules": (2_000, 0.1),
    "tasks": (3_000, 0.15),
    "decisions": (10_000, 0.2),
    "recent": (15_000, 0.25),
}
RECENT_EVENTS = 30
TASKS = 50
DECISIONS = 50
ANSWER_TOKENS = 20_000  # of query_decisions, which clients must still take
# How much newness counts beside words (0.6) and importance (0.1). The specification's 0.3 loses 9
# of 65 questions of LoCoMo; so it is for questions that name a time.
RECENCY = 0.1
RECENCY_ASKED = 0.3
_RECENT = re.compile(
    r"\b(?:recent(?:ly)?|lately|latest|today|yesterday|just now|this (?:morning|week)|last (?:night|week|session))\b",
    re.IGNORECASE,
)
_HISTORY = re.compile(
    r"\b(?:history|historical(?:ly)?|originally|initially|long ago|at first|ever since)\b",
    re.IGNORECASE,
)


async def build_acb(database: Database, meaning: Meaning, access: Access, request: BuildAcb) -> str:
    """The bundle for `request`, of at most its `max_tokens` and the token's. Raises Refused."""
    channel = access.checked(request.channel)
    limit = min(request.max_tokens, access.max_tokens)
    note = ""
    async with database.transaction(access.tenant) as connection:
        common = await _common_sections(connection, meaning, request, channel, limit)
        try:
            async with connection.transaction():
                evidence = await _evidence(connection, request, channel)
        except errors.QueryCanceled:
            evidence = []
            note = " The search for evidence took too long: this bundle is without it."
    return pack("Context bundle", [*common, Section("evidence", evidence)], limit, note)


async def query_decisions(
    database: Database, meaning: Meaning, access: Access, request: QueryDecisions
) -> str:
    """The decisions nearest to the query, or the newest. Raises Refused."""
    async with database.transaction(access.tenant) as connection:
        found = await meaning.decisions(
            connection,
            request.query_text,
            request.limit,
            status=request.status,
            scopes=[request.scope] if request.scope else ["project", "user", "global"],
            channel=access.checked(request.channel),
            agent=request.agent_id,
        )
    blocks = [_decision(row, number) for number, row in enumerate(found)]
    return pack("Decisions", [Section("decisions", blocks)], min(ANSWER_TOKENS, access.max_tokens))


async def handoff_packet(
    database: Database, meaning: Meaning, access: Access, request: CreateHandoffPacket
) -> tuple[str, RecordEvent]:
    """The packet, and the event that says that it was handed over. Raises Refused."""
    limit = min(request.max_tokens, access.max_tokens)
    asked = BuildAcb(
        agent_id=request.agent_id, session_id=request.session_id, query_text=request.note
    )
    channel = access.checked(request.channel)
    async with database.transaction(access.tenant) as connection:
        sections = await _common_sections(connection, meaning, asked, channel, limit)
    note = request.note or "(no note)"
    title = f"Handoff from {request.agent_id} to {request.to_agent}"
    own = Block("", "note", note, estimate(note))
    packet = pack(title, [Section("note", [own]), *sections], limit)
    return packet, RecordEvent(
        agent_id=request.agent_id,
        session_id=request.session_id,
        kind="message",
        text=f"{title}: {note}",
        channel=min(("agent", access.channel), key=CHANNELS.index),
        tags=["handoff"],
    )


async def _common_sections(
    connection: Connection, meaning: Meaning, request: BuildAcb, channel: str, limit: int
) -> list[Section]:
    seen = {"status": "active", "channel": channel, "agent": request.agent_id}
    rules = await meaning.decisions(connection, "", DECISIONS, scopes=["global", "user"], **seen)
    decided = await meaning.decisions(
        connection, request.query_text, DECISIONS, scopes=["project"], **seen
    )
    tasks = await connection.execute(
        "SELECT * FROM tasks WHERE status <> 'done'"
        " AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent)s)"
        " ORDER BY ts DESC LIMIT %(limit)s",
        {**seen, "limit": TASKS},
    )
    recent = await connection.execute(
        "SELECT chunks.* FROM chunks JOIN (SELECT event_id FROM events WHERE session_id = %(session)s"
        "  AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent)s)"
        "  ORDER BY ts DESC LIMIT %(limit)s) last USING (event_id) ORDER BY ts DESC, chunk_id",
        {**seen, "session": request.session_id, "limit": RECENT_EVENTS},
    )
    blocks = {
        "rules": [_decision(row, number) for number, row in enumerate(rules)],
        "tasks": [_task(row) for row in await tasks.fetchall()],
        "decisions": [_decision(row, number) for number, row in enumerate(decided)],
        "recent": [_chunk(row, (row["ts"], row["chunk_id"])) for row in await recent.fetchall()],
    }
    return [
        Section(name, blocks[name], min(tokens, limit * part))
        for name, (tokens, part) in ROOM.items()
    ]


async def _evidence(connection: Connection, request: BuildAcb, channel: str) -> list[Block]:
    asked = f"{request.intent} {request.query_text}"
    recency = 0 if _HISTORY.search(asked) else RECENCY_ASKED if _RECENT.search(asked) else RECENCY
    found = await connection.execute(
        "SELECT * FROM acb_candidates(%s, %s, %s, %s)",
        [request.query_text, channel, request.agent_id, recency],
    )
    return [_chunk(row, number) for number, row in enumerate(await found.fetchall())]


def _chunk(row: dict[str, Any], order: Any) -> Block:
    by = (
        row["actor_id"]
        if row["actor_type"] == "agent"
        else f"{row['actor_type']}, by {row['actor_id']}"
    )
    heading = _heading(row["kind"], row["event_id"], row, by)
    return Block(row["event_id"], heading, row["text"], row["token_est"], order)


def _decision(row: dict[str, Any], order: int) -> Block:
    text = row["decision"]
    for name in ("rationale", "constraints", "alternatives", "consequences"):
        if row[name]:
            text += f"\n{name}: " + "; ".join(row[name])
    what = f"decision ({row['scope']}, {row['status']})"
    if row["superseded_by"]:
        what += f" superseded by {row['superseded_by']}"
    heading = _heading(what, row["decision_id"], row, row["actor_id"])
    return Block(row["decision_id"], heading, text, estimate(text), order)


def _task(row: dict[str, Any]) -> Block:
    text = f"{row['title']}\n{row['details']}" if row["details"] != row["title"] else row["title"]
    heading = _heading(
        f"task {row['task_id']} ({row['status']})", row["event_id"], row, row["actor_id"]
    )
    return Block(row["event_id"], heading, text, estimate(text))


def _heading(what: str, event_id: str, row: dict[str, Any], by: str) -> str:
    refs = f" [{', '.join(row['refs'])}]" if row["refs"] else ""
    return f"{what} {event_id} {row['ts']:%Y-%m-%d %H:%M}Z {by}{refs}"
