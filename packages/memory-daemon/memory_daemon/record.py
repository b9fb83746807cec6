"""The one write path: events become rows, in one transaction."""

import asyncio
import hashlib
import json
import math
from datetime import UTC, datetime
from typing import Any

from memory_semantic import estimate_tokens, mask, mask_all
from psycopg.types.json import Jsonb
from pydantic import Field
from ulid import ULID

from .access import Access
from .arguments import Asked, Call, Decision, Event, Kind, Name, Text
from .database import Connection
from .settings import UNCHANGED, Refused

CHUNK_CHARS = 3_000
CHUNKS = 8  # of one event; a longer text is kept whole as an artifact
LAST_CHUNKS = 2  # of those, from the end, where a text tells the outcome
HEAD = 0.75  # the share of a tool result's excerpt that is its beginning
IMPORTANCE = {"decision": 0.9, "task_update": 0.7, "message": 0.5, "tool_result": 0.4}
HUMAN_IMPORTANCE = 0.6  # of a human's message
OTHER_IMPORTANCE = 0.2

Row = dict[str, Any]


def _insert(table: str, columns: str) -> bytes:
    names = f"tenant_id ts channel sensitivity actor_id refs {columns}".split()
    values = ", ".join(f"%({name})s" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})".encode()


_EVENT = _insert("events", "event_id session_id actor_type kind tags content to_agent request_hash")
_SAME = "SELECT FROM events WHERE event_id = %(event_id)s AND request_hash = %(request_hash)s"
_CHUNK = "event_id session_id actor_type kind tags task_id chunk_id token_est importance text"
_CHUNK, _CHUNK_WITH_VECTOR = (_insert("chunks", _CHUNK + more) for more in ("", " embedding"))
_ARTIFACT = _insert("artifacts", "artifact_id kind bytes")
_DECISION = _insert(
    "decisions",
    "decision_id decision scope rationale constraints alternatives consequences",
)
_SUPERSEDE = """
  UPDATE decisions SET status = 'superseded', superseded_by = %(event_id)s
  WHERE decision_id = %(supersedes)s AND decision_id <> %(event_id)s AND status = 'active'
    AND visible(channel, sensitivity, actor_id, %(reach)s, %(actor_id)s)"""
_TASK = (
    _insert("tasks", "task_id event_id status title details")
    + b"""
  ON CONFLICT (tenant_id, task_id) DO UPDATE SET event_id = excluded.event_id, ts = excluded.ts,
    status = excluded.status, details = excluded.details, refs = excluded.refs,
    title = coalesce(nullif(%(given_title)s, ''), tasks.title), channel = excluded.channel,
    sensitivity = excluded.sensitivity, actor_id = excluded.actor_id
  WHERE visible(tasks.channel, tasks.sensitivity, tasks.actor_id, %(reach)s, %(actor_id)s)"""
)


class RecordEvent(Event, Asked):
    """Record what happened, as it happens: messages, tool calls and results, decisions, task
    updates. Answered once it is stored. What is long is kept whole and shown as an excerpt. Give
    kind and text for one event, or up to 100 in events."""

    session_id: Name
    kind: Kind = "message"
    text: Text = ""
    events: list[Event] = Field([], max_length=100)

    def _check(self) -> None:
        if not self.events:
            super()._check()
        elif self.text:
            raise ValueError("give text or events, not both")

    async def answer(self, call: Call) -> str:
        """A line of JSON for each event. All of them are recorded, or none. Raises Refused."""

        def rows() -> list[Row]:
            chars = call.settings.excerpt_chars
            return [_row(event, self, call.access, chars) for event in self.events or [self]]

        prepared = await asyncio.to_thread(rows)  # masking 10 MB takes six seconds
        for row in prepared:
            chunks = row["chunks"]
            row["vectors"] = (
                await call.meaning.vectors(chunks) if call.meaning else [None] * len(chunks)
            )
        async with call.database.transaction(call.access.tenant) as connection:
            return "\n".join([json.dumps(await _record(connection, row)) for row in prepared])


def _row(event: Event, request: RecordEvent, access: Access, excerpt_chars: int) -> Row:
    """Everything that is stored of an event, with its secrets masked."""
    text, masked = mask(event.text)
    row, also_masked = mask_all(event.model_dump(include=set(Event.model_fields) - {"text"}))
    row |= {
        "tenant_id": access.tenant,
        "session_id": request.session_id,
        "actor_id": request.agent_id,
        "channel": access.reach(event.channel),
        "reach": access.channel,  # for what it supersedes or updates
    }
    said = json.dumps([row, text], sort_keys=True)
    event_id = event.event_id or str(ULID())
    shown = text.replace("\0", "\ufffd")  # a PostgreSQL text cannot hold NUL
    chunks, whole = excerpt(shown, event.kind, event_id, excerpt_chars)
    usual = IMPORTANCE.get(event.kind, OTHER_IMPORTANCE)
    if event.kind == "message" and event.actor_type == "human":
        usual = HUMAN_IMPORTANCE
    return row | {
        "event_id": event_id,
        "ts": datetime.now(UTC),
        "request_hash": hashlib.sha256(said.encode()).digest(),
        "content": Jsonb({"text" if whole else "excerpt_text": "\n\n".join(chunks)}),
        "task_id": row["task"] and row["task"]["task_id"],
        "chunks": [] if event.sensitivity == "secret" else chunks,
        "bytes": None if whole else text.encode(),
        "text": shown,
        "importance": usual if event.importance is None else event.importance,
        "masked": masked + also_masked,
    }


async def _record(connection: Connection, row: Row) -> Row:
    event_id = row["event_id"]
    inserted = await connection.execute(_EVENT + b" ON CONFLICT DO NOTHING", row)
    if inserted.rowcount:
        await _record_parts(connection, row)
    elif not (await connection.execute(_SAME, row)).rowcount:
        raise Refused(
            f"{UNCHANGED} Another event has the event_id {event_id}. Give this one a different id, "
            "or none."
        )
    return {
        "event_id": event_id,
        "status": "recorded" if inserted.rowcount else "known",
        "chunks": len(row["chunks"]),
        "artifact_id": event_id if row["bytes"] else None,
        "masked_secrets": row["masked"],
    }


async def _record_parts(connection: Connection, row: Row) -> None:
    event_id = row["event_id"]
    for number, chunk in enumerate(row["chunks"]):
        part = {"chunk_id": f"{event_id}.{number}", "token_est": math.ceil(estimate_tokens(chunk))}
        part |= {"embedding": row["vectors"][number], "text": chunk}
        await connection.execute(_CHUNK_WITH_VECTOR if part["embedding"] else _CHUNK, row | part)
    if row["bytes"]:
        kind = "tool_output" if row["kind"] == "tool_result" else "blob"
        await connection.execute(_ARTIFACT, {**row, "artifact_id": event_id, "kind": kind})
    if row["kind"] == "decision":
        decided = row | (row["decision"] or Decision.model_validate({}).model_dump())
        decided |= {"decision_id": event_id, "decision": row["text"]}
        await connection.execute(_DECISION, decided)
        changed = await connection.execute(_SUPERSEDE, decided)
        if decided["supersedes"] and not changed.rowcount:
            raise Refused(
                f"{UNCHANGED} There is no active decision {decided['supersedes']} that you can see."
                " query_decisions lists them."
            )
    if row["task"]:
        title = row["task"]["title"] or row["text"].strip().splitlines()[0][:200]
        task = row | row["task"] | {"title": title, "given_title": row["task"]["title"]}
        changed = await connection.execute(_TASK, {**task, "details": row["text"][:CHUNK_CHARS]})
        if not changed.rowcount:
            raise Refused(f"{UNCHANGED} Task {task['task_id']} is another agent's.")


def excerpt(text: str, kind: str, event_id: str, chars: int) -> tuple[list[str], bool]:
    """The chunks by which a text is found and shown, and whether they are all of it.

    A tool result is one chunk: `chars` characters and a line that says how much is left out. Other
    text is cut at blank lines into at most 8 chunks of 3,000 characters.
    """
    head, first, last = int(chars * HEAD), CHUNKS - LAST_CHUNKS, LAST_CHUNKS
    if kind != "tool_result":
        pieces = _cut(text)
    elif len(text) > chars:
        pieces, first, last = [text[:head], text[head : head - chars], text[head - chars :]], 1, 1
    else:
        pieces = [text]
    if len(pieces) <= first + last:
        return pieces, True
    missing = sum(map(len, pieces[first:-last]))
    pieces[first - 1] += f"\n[{missing:,} characters left out: get_artifact {event_id}]\n"
    shown = pieces[:first] + pieces[-last:]
    return ["".join(shown)] if kind == "tool_result" else shown, False


def _cut(text: str) -> list[str]:
    chunks = []
    while len(text) > CHUNK_CHARS:
        # At a blank line, else at a line's end, else at a space; never in the first third.
        ends = (text.rfind(gap, CHUNK_CHARS // 3, CHUNK_CHARS) for gap in ("\n\n", "\n", " "))
        end = next((end for end in ends if end > 0), CHUNK_CHARS)
        chunks.append(text[:end])
        text = text[end:].lstrip("\n")
    return [*chunks, text] if text or not chunks else chunks
