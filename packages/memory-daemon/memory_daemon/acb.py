"""What an agent is given: the Active Context Bundle, decisions, a handoff, a whole artifact."""

import asyncio
import re
from datetime import UTC, datetime
from typing import Any, Literal

from memory_semantic import estimate_tokens, mask
from psycopg import errors
from pydantic import Field

from .arguments import Asked, Call, Event, Id, Name, Query, Scope, Session, Tags
from .bundle import Section, name, pack
from .database import CHANNELS, Connection, Refused, common
from .meaning import vector
from .record import RecordEvent

BUNDLE_TOKENS = 65_000  # the specification's
MIN_BUNDLE_TOKENS = 500  # less has room for the headings only
ANSWER_TOKENS = 20_000  # of query_decisions: every client accepts that many
ITEMS = 50  # rules and tasks considered for a bundle
DECISIONS = 1_000  # the newest decisions, compared with a question
RECENT_EVENTS = 30  # last events of the session considered for it
HANDOFFS, HANDOFF_DAYS = 3, 7  # how many of them come up for their receiver, and for how long
HELD = 50  # ids of what a handoff held are recorded with it
SPARE_TOKENS = 8_000  # of evidence that is fetched although it may not fit

# The share of a bundle that a section may take; what it leaves goes to those after it.
SHARES = {"rules": 0.1, "tasks": 0.15, "decisions": 0.2, "handoffs": 0.15, "recent": 0.25}
INTENTS = {
    "answer": {"recent": 0.1},
    "decide": {"decisions": 0.5},
    "continue": {"tasks": 0.25, "recent": 0.4},
    "recent": {"recent": 0.4},
    "history": {"decisions": 0.4, "recent": 0.1},
}
# How much newness counts, besides words (0.6), meaning (0.4) and importance (0.1). The
# specification's 0.3 is for questions about what is new: README shows what it costs elsewhere.
RECENCY, RECENCY_ASKED = 0.02, 0.3
_NEW = re.compile(r"\b(new|newest|latest|recent(ly)?|today|yesterday|last (week|month))\b", re.I)
_OLD = re.compile(r"\b(history|historical(ly)?|originally|initially|at first|long ago)\b", re.I)

_VISIBLE = "visible(c.channel, c.sensitivity, c.actor_id, %(channel)s, %(agent_id)s)"
_COLUMNS = "c.event_id, heading, text, c.refs, token_est, now.note, now.title"
# What has become of an event: of a decision what replaced it, of a task how it stands now.
_NOW = """
  LEFT JOIN LATERAL (
    SELECT 'superseded by ' || superseded_by AS note, NULL AS title,
      superseded_by IS NOT NULL AS old FROM decisions
    WHERE c.kind = 'decision' AND decision_id = c.event_id
    UNION ALL
    SELECT CASE WHEN t.event_id <> e.event_id THEN 'now ' || t.status END, t.title, false
    FROM events e JOIN tasks t USING (task_id)
    WHERE c.kind = 'task_update' AND e.event_id = c.event_id) now ON true"""
_IN_FORCE = f"""
  FROM decisions d JOIN chunks c ON chunk_id = decision_id || '.0'
  WHERE status = ANY(%(statuses)s) AND scope = ANY(%(scopes)s) AND c.tags @> %(tags)s AND {_VISIBLE}
  ORDER BY d.ts DESC, decision_id DESC LIMIT {DECISIONS}"""
_RULES = f"""
  SELECT {_COLUMNS} FROM decisions d JOIN chunks c ON chunk_id = decision_id || '.0' {_NOW}
  WHERE status = 'active' AND (scope = 'global' OR scope = 'user' AND actor_id = %(agent_id)s)
    AND {_VISIBLE} ORDER BY c.ts DESC LIMIT {ITEMS}"""
_TASKS = f"""
  SELECT {_COLUMNS} FROM tasks JOIN chunks c ON chunk_id = tasks.event_id || '.0' {_NOW}
  WHERE status <> 'done' AND tags @> %(tags)s AND {_VISIBLE} ORDER BY c.ts DESC LIMIT {ITEMS}"""
# What was handed to this agent, and of each what it held.
_HANDOFFS = f"""
  WITH handed AS (
    SELECT event_id, ts AS handed, refs FROM events c WHERE to_agent = %(agent_id)s
      AND ts > now() - interval '{HANDOFF_DAYS} days' AND {_VISIBLE}
    ORDER BY ts DESC LIMIT {HANDOFFS}),
  held AS (
    SELECT event_id, handed, 0 AS nth FROM handed UNION
    SELECT ref, handed, nth::int FROM handed, unnest(refs) WITH ORDINALITY AS r(ref, nth))
  SELECT {_COLUMNS} FROM held JOIN chunks c USING (event_id) {_NOW}
  WHERE old IS NOT true AND {_VISIBLE} ORDER BY handed DESC, held.nth, chunk_id"""
_RECENT = f"""
  SELECT {_COLUMNS} FROM chunks c JOIN (SELECT event_id FROM events c
      WHERE session_id = %(session_id)s AND tags @> %(tags)s AND {_VISIBLE}
      ORDER BY ts DESC LIMIT {RECENT_EVENTS}) last USING (event_id) {_NOW}
  WHERE old IS NOT true OR %(old)s ORDER BY ts DESC, chunk_id DESC"""
_FOUND = f"""
  SELECT f.*, {_COLUMNS} FROM find(%(query_text)s, %(channel)s, %(agent_id)s, %(recency)s,
    %(vector)s, %(room)s, %(tags)s, ARRAY(SELECT chunk_id {_IN_FORCE})) f
  JOIN chunks c USING (chunk_id) {_NOW}
  WHERE old IS NOT true OR %(old)s OR section = 'decisions'
  ORDER BY section, old IS true, f.nth"""
_ARTIFACT = f"""
  SELECT bytes, meta FROM artifacts JOIN events c ON event_id = artifact_id
  WHERE artifact_id = %(artifact_id)s AND {_VISIBLE}"""

Rows = list[dict[str, Any]]


async def _rows(connection: Connection, query: str, asked: dict[str, Any]) -> Rows:
    return await (await connection.execute(query.encode(), asked)).fetchall()


async def _asked(asked: Asked, query: str, **more: Any) -> dict[str, Any]:
    """The values that the queries take."""
    masked, _ = await asyncio.to_thread(mask, query)
    return asked.model_dump() | {
        "query_text": masked,
        "vector": await asyncio.to_thread(vector, masked),
        "statuses": ["active"],
        "scopes": ["project", "user", "global"],
        "tags": [],
        "recency": RECENCY,
        "old": False,
        "room": 0,
        **more,
    }


class BuildAcb(Asked):
    """Get what matters for a question in one bundle: rules, open tasks, decisions, what was handed
    to you, what happened last in this session, and evidence from all that was recorded. Call it
    first in a session."""

    session_id: Session
    query_text: Query
    intent: Query = Field(
        "", description="answer, decide, continue, recent or history: changes what gets room"
    )
    tags: Tags = Field([], description="only what has all of these; and rules")
    max_tokens: int = Field(BUNDLE_TOKENS, ge=MIN_BUNDLE_TOKENS, le=BUNDLE_TOKENS)
    explain: bool = Field(False, description="say for each block why it is there")

    async def answer(self, call: Call) -> str:
        """The bundle; without decisions and evidence, if the search takes too long."""
        intent = next(filter(INTENTS.get, re.findall(r"\w+", self.intent.lower())), "")
        history = intent == "history" or bool(_OLD.search(self.query_text))
        newest = intent in ("recent", "continue") or bool(_NEW.search(self.query_text))
        statuses = ["active", "superseded"] if history or intent == "decide" else ["active"]
        asked = await _asked(
            self,
            self.query_text,
            tags=self.tags,
            statuses=statuses,
            old=len(statuses) > 1,
            recency=0.0 if history else RECENCY_ASKED if newest else RECENCY,
            room=self.max_tokens + SPARE_TOKENS,
        )
        found, note = Rows(), ""
        async with call.database.transaction(call.access.tenant) as connection:
            rules = await _rows(connection, _RULES, asked)
            tasks = await _rows(connection, _TASKS, asked)
            handoffs = await _rows(connection, _HANDOFFS, asked)
            recent = await _rows(connection, _RECENT, asked)
            try:
                async with connection.transaction():
                    found = await _rows(connection, _FOUND, asked)
            except errors.QueryCanceled:
                note = " The search took too long: decisions and evidence are missing."
        parts = {
            "rules": rules,
            "tasks": tasks,
            "decisions": [row for row in found if row["section"] == "decisions"],
            "handoffs": handoffs,
            "recent": recent,
            "evidence": [row for row in found if row["section"] == "evidence"],
        }
        shares = SHARES | INTENTS.get(intent, {}) | {"evidence": 1.0}
        who = (
            f"You are agent {name(call.access.agent)} in session {name(self.session_id)}, asking "
            f"on channel {self.channel}, {datetime.now(UTC):%Y-%m-%d %H:%M}Z.\n"
        )
        sections = [
            Section(
                section, rows, shares[section] * self.max_tokens, who if section == "rules" else ""
            )
            for section, rows in parts.items()
        ]
        return pack("Context bundle", sections, self.max_tokens, note, explain=self.explain)[0]


class QueryDecisions(Asked):
    """Find decisions by meaning and words, or the newest ones."""

    session_id: Session | None = None
    query_text: Query = ""
    status: Literal["active", "superseded"] = "active"
    scope: Scope | None = None
    tags: Tags = Field([], description="only those that have all of these")
    limit: int = Field(10, ge=1, le=50)

    async def answer(self, call: Call) -> str:
        """The decisions nearest to the query, or the newest."""
        asked = await _asked(self, self.query_text, tags=self.tags, statuses=[self.status])
        asked |= {"scopes": [self.scope]} if self.scope else {}
        async with call.database.transaction(call.access.tenant) as connection:
            found = await _rows(connection, _FOUND, asked)
        return pack("Decisions", [Section("decisions", found[: self.limit])], ANSWER_TOKENS)[0]


class CreateHandoffPacket(Asked):
    """Hand your work to another agent: open tasks, active decisions and the last events of the
    session, as far as that agent may see them, with your note. It comes up in its next bundles."""

    session_id: Session
    to_agent: Name
    note: Query = ""
    max_tokens: int = Field(4_000, ge=MIN_BUNDLE_TOKENS, le=16_000)

    async def answer(self, call: Call) -> str:
        """The packet. The handover itself is recorded, with the ids of what it held."""
        tokens = await call.database.tokens("tenant_id = %s", call.access.tenant)
        theirs = [access.channel for access in tokens if access.agent == self.to_agent]
        if not theirs:
            known = ", ".join(sorted({name(access.agent) for access in tokens}))
            raise Refused(f"There is no agent {name(self.to_agent)}. The agents are: {known}.")
        widest = min(theirs, key=CHANNELS.index)
        channel = common("agent", call.access.channel, widest)
        told = f"Handoff from {call.access.agent} to {self.to_agent}: {self.note or '(no note)'}"
        asked = await _asked(self, self.note, agent_id=self.to_agent, channel=channel)
        async with call.database.transaction(call.access.tenant) as connection:
            tasks = await _rows(connection, _TASKS, asked)
            decisions = await _rows(connection, _FOUND, asked)
            recent = await _rows(connection, _RECENT, asked)
            said = {"event_id": "", "heading": "note", "text": self.note or "(no note)", "refs": []}
            said |= {"token_est": estimate_tokens(said["text"]) + 10, "note": "", "title": ""}
            sections = [
                Section("note", [said]),
                Section("tasks", tasks, SHARES["tasks"] * self.max_tokens),
                Section("decisions", decisions, 2 * SHARES["decisions"] * self.max_tokens),
                Section("recent", recent),
            ]
            title = f"Handoff from {name(call.access.agent)} to {name(self.to_agent)}"
            packet, held = pack(title, sections, self.max_tokens)
        event = Event(text=told, tags=["handoff"], refs=held[:HELD], channel=channel)
        handoff = RecordEvent(session_id=self.session_id, events=[event])
        await handoff.to(self.to_agent).answer(call)
        return packet


class GetArtifact(Asked):
    """Read the whole of an event that is shown as an excerpt, page by page."""

    session_id: Session | None = None
    artifact_id: Id = Field(description="the event_id")
    offset: int = Field(0, ge=0)
    max_chars: int = Field(20_000, ge=1, le=100_000)

    async def answer(self, call: Call) -> str:
        """The page, after a line that says which part of the text it is."""
        async with call.database.transaction(call.access.tenant) as connection:
            found = await _rows(connection, _ARTIFACT, self.model_dump())
        if not found:
            raise Refused(
                f"There is no artifact {self.artifact_id} that you can see. An event shown as an "
                "excerpt has one, under the event's id."
            )
        [row] = found
        text = bytes(row["bytes"]).decode()
        page = text[self.offset :][: self.max_chars]
        end = self.offset + len(page)
        rest = f"continue with offset {end}" if end < len(text) else "this is the end"
        about = f" ({name(row['meta']['name'])})" if row["meta"]["name"] else ""
        where = f"characters {self.offset:,} to {end:,} of {len(text):,}; {rest}"
        return f"artifact {self.artifact_id}{about}: {where}\n{page}"
