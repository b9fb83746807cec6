"""What an agent is given: the Active Context Bundle, decisions, a handoff, a whole artifact."""

import base64
import re
from typing import Literal, get_args

from memory_semantic import estimate_tokens
from psycopg import errors
from pydantic import Field

from .access import CHANNELS
from .arguments import Asked, Call, Id, Name, Query, Scope
from .bundle import Block, Section, blocks, pack
from .database import Connection
from .meaning import decisions
from .record import RecordEvent
from .settings import BUNDLE_TOKENS, MIN_BUNDLE_TOKENS, Refused

# The most that a section may take of a bundle: in tokens, and as a share of a small bundle.
ROOM = {
    "rules": (2_000, 0.1),
    "tasks": (3_000, 0.15),
    "decisions": (10_000, 0.2),
    "recent": (15_000, 0.25),
}
ITEMS = 50  # rules, tasks or decisions considered for a bundle
RECENT_EVENTS = 30  # last events of the session considered for it
ANSWER_TOKENS = 20_000  # of query_decisions: every client accepts that many
# How much newness counts, besides words (0.6) and importance (0.1). The specification's 0.3 is for
# questions about what is new only: docs/measured.md shows what it costs elsewhere.
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
  SELECT chunks.*, kind AS what, row_number() OVER (ORDER BY ts, chunk_id) AS position
  FROM chunks JOIN (SELECT event_id FROM events WHERE session_id = %(session_id)s
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent_id)s)
    ORDER BY ts DESC LIMIT {RECENT_EVENTS}) last USING (event_id)
  ORDER BY ts DESC, chunk_id"""
_EVIDENCE = """
  SELECT *, kind AS what
  FROM acb_candidates(%(query_text)s, %(channel)s, %(agent_id)s, %(recency)s)"""
_ARTIFACT = """
  SELECT bytes, kind, meta FROM artifacts WHERE artifact_id = %(artifact_id)s
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent_id)s)"""


class _Bundle(Asked):
    session_id: Name = Field(description="the conversation; the same in all its calls")

    async def _sections(self, connection: Connection, query: str, limit: int) -> list[Section]:
        asked = self.model_dump() | {"status": "active"}
        rules, project = ({**asked, "scopes": s} for s in (["global", "user"], ["project"]))
        found = {
            "rules": await decisions(connection, rules, "", ITEMS),
            "tasks": await blocks(connection, _TASKS, asked),
            "decisions": await decisions(connection, project, query, ITEMS),
            "recent": await blocks(connection, _RECENT, asked),
        }
        return [Section(name, found[name], min(n, limit * p)) for name, (n, p) in ROOM.items()]


class BuildAcb(_Bundle):
    """Get what matters for a question in one bundle: rules, open tasks, decisions, what happened
    last in this session, and evidence from all that was recorded. Call it first in a session."""

    query_text: Query
    intent: Query = Field("", description="`recent` or `history` weighs time")
    max_tokens: int = Field(BUNDLE_TOKENS, ge=MIN_BUNDLE_TOKENS, le=BUNDLE_TOKENS)

    async def answer(self, call: Call) -> str:
        """The bundle, within the token limits of the request, the bearer token and the setting."""
        limit = min(self.max_tokens, call.access.max_tokens, call.settings.acb_tokens)
        note, evidence = "", []
        async with call.database.transaction(call.access.tenant) as connection:
            sections = await self._sections(connection, self.query_text, limit)
            try:
                async with connection.transaction():
                    asked = self.model_dump() | {"recency": self._recency()}
                    evidence = await blocks(connection, _EVIDENCE, asked)
            except errors.QueryCanceled:
                note = " The search for evidence took too long: this bundle has none."
        return pack("Context bundle", [*sections, Section("evidence", evidence)], limit, note)

    def _recency(self) -> float:
        asked = f"{self.intent} {self.query_text}"
        if re.search(rf"\b({_ASKS_HISTORY})\b", asked, re.I):
            return 0
        return RECENCY_ASKED if re.search(rf"\b({_ASKS_RECENT})\b", asked, re.I) else RECENCY


class QueryDecisions(Asked):
    """Find decisions by meaning, or the newest ones."""

    session_id: Name | None = None
    query_text: Query = ""
    status: Literal["active", "superseded"] = "active"
    scope: Scope | None = None
    limit: int = Field(10, ge=1, le=50)

    async def answer(self, call: Call) -> str:
        """The decisions nearest to the query, or the newest."""
        scopes = [self.scope] if self.scope else get_args(Scope)
        asked = self.model_dump() | {"scopes": list(scopes)}
        async with call.database.transaction(call.access.tenant) as connection:
            found = await decisions(connection, asked, self.query_text, self.limit)
        limit = min(ANSWER_TOKENS, call.access.max_tokens)
        return pack("Decisions", [Section("decisions", found)], limit)


class CreateHandoffPacket(_Bundle):
    """Hand your work to another agent: open tasks, active decisions and the last events of the
    session, with your note."""

    to_agent: Name
    note: Query = ""
    max_tokens: int = Field(4_000, ge=MIN_BUNDLE_TOKENS, le=16_000)

    async def answer(self, call: Call) -> str:
        """The packet. The handover itself is recorded as an event."""
        limit = min(self.max_tokens, call.access.max_tokens)
        title = f"Handoff from {self.agent_id} to {self.to_agent}"
        note = self.note or "(no note)"
        async with call.database.transaction(call.access.tenant) as connection:
            sections = await self._sections(connection, self.note, limit)
        event = {"text": f"{title}: {note}", "tags": ["handoff"]}
        event |= self.model_dump(include={"agent_id", "session_id"})
        event["channel"] = max("agent", call.access.channel, key=CHANNELS.index)
        await RecordEvent.model_validate(event).to(self.to_agent).answer(call)
        own = Section("note", [Block("", "note", note, estimate_tokens(note))])
        return pack(title, [own, *sections], limit)


class GetArtifact(Asked):
    """Read the whole of an event that is shown as an excerpt, page by page."""

    session_id: Name | None = None
    artifact_id: Id = Field(description="the event_id")
    offset: int = Field(0, ge=0)
    max_chars: int = Field(20_000, ge=1, le=100_000)

    async def answer(self, call: Call) -> str:
        """The page, after a line that says which part of the text it is."""
        async with call.database.transaction(call.access.tenant) as connection:
            row = await (await connection.execute(_ARTIFACT, self.model_dump())).fetchone()
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
