"""What an agent is given: the Active Context Bundle, decisions, a handoff, a whole artifact."""

import base64
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from memory_semantic import estimate_tokens
from psycopg import errors
from pydantic import Field

from .access import CHANNELS
from .arguments import Asked, Call, Id, Name, Query, Scope, Tag
from .bundle import Block, Packed, Section, blocks, name, pack
from .database import Connection
from .question import WITH_SUPERSEDED, intended, rooms, time_asked
from .record import RecordEvent
from .settings import BUNDLE_TOKENS, MIN_BUNDLE_TOKENS, Refused

ITEMS = 50  # rules, tasks or decisions considered for a bundle
DECISIONS = 5_000  # the newest decisions, compared with a question
RECENT_EVENTS = 30  # last events of the session considered for it
HANDOFFS, HANDOFF_DAYS = 3, 7  # how many of them come up for their receiver, and for how long
HELD = 50  # ids of what a handoff held are recorded with it
ANSWER_TOKENS = 20_000  # of query_decisions: every client accepts that many

_VISIBLE = "visible({0}channel, {0}sensitivity, {0}actor_id, %(channel)s, %(agent_id)s)"
_TASKS = f"""
  SELECT tasks.*, format('task %%s (%%s)', task_id, status) AS what, actor_type, said_by, tags,
    session_id AS in_session, concat_ws(E'\\n', title, nullif(details, title)) AS text
  FROM tasks
  JOIN (SELECT event_id, actor_type, said_by, tags, session_id FROM events) e USING (event_id)
  WHERE status <> 'done' AND tags @> %(tags)s AND {_VISIBLE.format("")}
  ORDER BY ts DESC LIMIT {ITEMS}"""
_IN_FORCE = f"""
  SELECT decision_id FROM decisions JOIN events ON event_id = decision_id
  WHERE status = ANY(%(statuses)s) AND scope = ANY(%(scopes)s) AND tags @> %(tags)s
    AND {_VISIBLE.format("decisions.")}
  ORDER BY status, decisions.ts DESC, decision_id DESC LIMIT """
# With a question, the nearest: in meaning first, then in words. Without one, the newest.
_DECISIONS = """
  SELECT d.*, event_id, format('decision (%%s, %%s)', scope, status) AS what,
    e.actor_type, e.said_by, e.tags, e.session_id AS in_session, r.*, found.*,
    concat_ws(E'\\n', decision,
      'rationale: ' || array_to_string(nullif(rationale, '{{}}'), '; '),
      'constraints: ' || array_to_string(nullif(constraints, '{{}}'), '; '),
      'alternatives: ' || array_to_string(nullif(alternatives, '{{}}'), '; '),
      'consequences: ' || array_to_string(nullif(consequences, '{{}}'), '; ')) AS text
  FROM {found} found JOIN decisions d ON decision_id = found.id
  JOIN events e ON e.event_id = d.decision_id
  LEFT JOIN LATERAL replacement(decision_id) r ON true
  ORDER BY status, {order} d.ts DESC, decision_id DESC"""
_NEWEST = _DECISIONS.format(
    found=f"(SELECT decision_id AS id FROM ({_IN_FORCE}%(limit)s) i)", order=""
)
_NEAREST = _DECISIONS.format(
    found=f"""(SELECT event_id AS id, score, by_words, by_meaning, by_newness, by_importance
      FROM acb_candidates(%(query_text)s, %(channel)s, %(agent_id)s, 0, %(vector)s, 1,
        these => ARRAY({_IN_FORCE}{DECISIONS}), top => %(limit)s))""",
    order="score DESC,",
)
_CHUNKS = """
  SELECT chunks.*, kind AS what, r.*{0} FROM {1}
  LEFT JOIN LATERAL (SELECT * FROM replacement(chunks.event_id)
    WHERE kind IN ('decision', 'task_update')) r ON true"""
_RECENT = (
    _CHUNKS.format(
        ", row_number() OVER (ORDER BY ts, chunk_id) AS position",
        f"""chunks JOIN (SELECT event_id FROM events WHERE session_id = %(session_id)s
          AND tags @> %(tags)s AND {_VISIBLE.format("")}
          ORDER BY ts DESC LIMIT {RECENT_EVENTS}) last USING (event_id)""",
    )
    + " ORDER BY ts DESC, chunk_id"
)
# What was handed to this agent, and of each what it held.
_HANDOFFS = f"""
  WITH handed AS (
    SELECT event_id, ts AS handed, refs FROM events WHERE to_agent = %(agent_id)s
      AND ts > now() - interval '{HANDOFF_DAYS} days' AND {_VISIBLE.format("")}
    ORDER BY ts DESC LIMIT {HANDOFFS}),
  held AS (
    SELECT event_id, handed, 0 AS nth FROM handed UNION
    SELECT ref, handed, nth::int FROM handed, unnest(refs) WITH ORDINALITY AS r(ref, nth))
  {_CHUNKS.format("", "held JOIN chunks USING (event_id)")}
  WHERE {_VISIBLE.format("")} ORDER BY handed DESC, nth, chunk_id"""
_EVIDENCE = (
    _CHUNKS.format(
        ", found.score, by_words, by_meaning, by_newness, by_importance, by_neighbours",
        """acb_candidates(%(query_text)s, %(channel)s, %(agent_id)s, %(recency)s, %(vector)s,
      since => %(since)s, until => %(until)s, tagged => %(tags)s) found
      JOIN chunks USING (chunk_id)""",
    )
    + " ORDER BY found.score DESC, chunk_id"
)
_ARTIFACT = f"""
  SELECT bytes, kind, meta FROM artifacts
  WHERE artifact_id = %(artifact_id)s AND {_VISIBLE.format("")}"""


async def _decisions(connection: Connection, asked: dict[str, Any]) -> list[Block]:
    """The decisions nearest to `query_text`, or the newest if it is empty."""
    query = _NEAREST if asked["query_text"].strip() else _NEWEST
    return await blocks(connection, query, asked)


async def _sections(
    connection: Connection, asked: dict[str, Any], limit: int, intent: str = ""
) -> list[Section]:
    """All but the evidence. `asked` has the values that the queries take."""
    asked = asked | {"limit": ITEMS, "statuses": ["active"]}
    rules = asked | {"scopes": ["global", "user"], "query_text": "", "tags": []}
    project = asked | {"scopes": ["project"]}
    if intent in WITH_SUPERSEDED:
        project["statuses"] = ["active", "superseded"]
    found = {
        "rules": await _decisions(connection, rules),
        "tasks": await blocks(connection, _TASKS, asked),
        "decisions": await _decisions(connection, project),
        "handoffs": await blocks(connection, _HANDOFFS, asked),
        "recent": await blocks(connection, _RECENT, asked),
    }
    who = (
        f"You are agent {name(asked['agent_id'])} in session {name(asked['session_id'])}, asking "
        f"on channel {asked['channel']}, {datetime.now(UTC):%Y-%m-%d %H:%M}Z.\n"
    )
    intro = {"rules": ("Identity and rules", who)}
    return [
        Section(section, found[section], min(tokens, limit * share), *intro.get(section, ()))
        for section, (tokens, share) in rooms(intent).items()
    ]


class BuildAcb(Asked):
    """Get what matters for a question in one bundle: rules, open tasks, decisions, what was handed
    to you, what happened last in this session, and evidence from all that was recorded. Call it
    first in a session."""

    session_id: Name = Field(description="the conversation; the same in all its calls")
    query_text: Query
    intent: Query = Field(
        "", description="answer, decide, continue, recent or history: changes what gets room"
    )
    tags: list[Tag] = Field([], max_length=20, description="only what has all of these; and rules")
    max_tokens: int = Field(BUNDLE_TOKENS, ge=MIN_BUNDLE_TOKENS, le=BUNDLE_TOKENS)

    async def answer(self, call: Call) -> str:
        """The bundle, within the token limits of the request and of the bearer token."""
        return (await self.packed(call)).text

    async def packed(self, call: Call) -> Packed:
        """The bundle, and why it holds what it holds."""
        limit = min(self.max_tokens, call.access.max_tokens)
        note, evidence, intent = "", [], intended(self.intent)
        vector = call.meaning and await call.meaning.question(self.query_text)
        asked = self.model_dump() | {"vector": vector}
        async with call.database.transaction(call.access.tenant) as connection:
            sections = await _sections(connection, asked, limit, intent)
            try:
                async with connection.transaction():
                    asked |= time_asked(f"{self.query_text} {self.intent}", intent)
                    evidence = await blocks(connection, _EVIDENCE, asked)
            except errors.QueryCanceled:
                note = " The search for evidence took too long: this bundle has none."
        sections.append(Section("evidence", evidence))
        return pack("Context bundle", sections, limit, note, history=intent in WITH_SUPERSEDED)


class QueryDecisions(Asked):
    """Find decisions by meaning and words, or the newest ones."""

    session_id: Name | None = None
    query_text: Query = ""
    status: Literal["active", "superseded"] = "active"
    scope: Scope | None = None
    tags: list[Tag] = Field([], max_length=20, description="only those that have all of these")
    limit: int = Field(10, ge=1, le=50)

    async def answer(self, call: Call) -> str:
        """The decisions nearest to the query, or the newest."""
        scopes = [self.scope] if self.scope else get_args(Scope)
        asked = self.model_dump() | {"scopes": list(scopes), "statuses": [self.status]}
        asked["vector"] = call.meaning and await call.meaning.question(self.query_text)
        async with call.database.transaction(call.access.tenant) as connection:
            found = await _decisions(connection, asked)
        limit = min(ANSWER_TOKENS, call.access.max_tokens)
        return pack("Decisions", [Section("decisions", found)], limit).text


class CreateHandoffPacket(Asked):
    """Hand your work to another agent: open tasks, active decisions and the last events of the
    session, as far as that agent may see them, with your note. It comes up in its next bundles."""

    session_id: Name
    to_agent: Name
    note: Query = ""
    max_tokens: int = Field(4_000, ge=MIN_BUNDLE_TOKENS, le=16_000)

    async def answer(self, call: Call) -> str:
        """The packet. The handover itself is recorded as an event, with the ids of what it held."""
        limit = min(self.max_tokens, call.access.max_tokens)
        title = f"Handoff from {name(self.agent_id)} to {name(self.to_agent)}"
        note = self.note or "(no note)"
        channel = max("agent", call.access.channel, key=CHANNELS.index)
        asked = self.model_dump() | {"agent_id": self.to_agent, "channel": channel, "tags": []}
        asked |= {"query_text": self.note}
        asked["vector"] = call.meaning and await call.meaning.question(self.note)
        async with call.database.transaction(call.access.tenant) as connection:
            sections = await _sections(connection, asked, limit)
        own = Section("note", [Block("", "note", note, estimate_tokens(note))])
        packet = pack(title, [own, *sections[1:]], limit)
        event = {"text": f"{title}: {note}", "tags": ["handoff"], "refs": packet.held()[:HELD]}
        event |= self.model_dump(include={"agent_id", "session_id"})
        event["channel"] = channel
        await RecordEvent.model_validate(event).to(self.to_agent).answer(call)
        return packet.text


class GetArtifact(Asked):
    """Read the whole of an event that is shown as an excerpt, page by page."""

    session_id: Name | None = None
    artifact_id: Id = Field(description="the event_id")
    offset: int = Field(0, ge=0)
    max_chars: int = Field(20_000, ge=1, le=100_000)

    async def answer(self, call: Call) -> str:
        """The page, after a line that says which part of the text it is."""
        async with call.database.transaction(call.access.tenant) as connection:
            row = await (await connection.execute(_ARTIFACT.encode(), self.model_dump())).fetchone()
        if not row:
            raise Refused(
                f"There is no artifact {self.artifact_id} that you can see. An event shown as an "
                "excerpt has one, under the event's id."
            )
        data, binary = bytes(row["bytes"]), row["kind"] == "binary"
        text = base64.b64encode(data).decode() if binary else data.decode()
        page = text[self.offset :][: self.max_chars]
        end = self.offset + len(page)
        rest = f"continue with offset {end}" if end < len(text) else "this is the end"
        where = f"characters {self.offset:,} to {end:,} of {len(text):,}; {rest}"
        named = ", ".join(filter(None, (row["meta"].get("name"), row["meta"].get("type"))))
        about = f" ({named}{', in base64' if binary else ''})" if named or binary else ""
        return f"artifact {self.artifact_id}{about}: {where}\n{page}"
