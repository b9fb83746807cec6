"""The one write path: events become rows, in one transaction."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager

from memory_semantic import estimate_tokens
from psycopg.types.json import Jsonb
from pydantic import Field

from .arguments import Asked, Call, Decision, Event, Kind, Name
from .database import Connection, retried
from .prepare import CHUNK_CHARS, Row, large, small
from .settings import UNCHANGED, Refused


def _insert(table: str, columns: str) -> bytes:
    names = f"tenant_id ts channel sensitivity actor_id refs {columns}".split()
    values = ", ".join(f"%({name})s" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})".encode()


_EVENT = _insert(
    "events",
    "event_id session_id actor_type kind tags content request_hash said_by task to_agent",
)
_SAME = "SELECT FROM events WHERE event_id = %(event_id)s AND request_hash = %(request_hash)s"
_CHUNK = "event_id session_id actor_type kind tags chunk_id token_est importance text said_by"
_CHUNK, _CHUNK_WITH_VECTOR = (_insert("chunks", _CHUNK + more) for more in ("", " embedding"))
_ARTIFACT = _insert("artifacts", "artifact_id kind bytes meta")
_INHERITED = """
  SELECT channel FROM decisions WHERE decision_id = %(supersedes)s
    AND visible(channel, sensitivity, actor_id, %(reach)s, %(actor_id)s)
  UNION ALL SELECT channel FROM tasks WHERE task_id = %(task_id)s
    AND visible(channel, sensitivity, actor_id, %(reach)s, %(actor_id)s)"""
# Calls that touch the same ids go one after the other, and lock them in the same order, so that
# they do not block each other: PostgreSQL needs a second to notice that.
_IN_TURN = """
  SELECT pg_advisory_xact_lock(id) FROM (
    SELECT DISTINCT hashtextextended(%s || ' ' || id, 0) AS id
    FROM unnest(%s::text[]) id ORDER BY 1) ids"""
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

    session_id: Name = Field(description="the conversation; the same in all its calls")
    kind: Kind = "message"
    events: list[Event] = Field([], max_length=100)
    _to_agent: str | None = None

    def _check(self) -> None:
        if not self.events:
            super()._check()
        elif self.text or self.content is not None:
            raise ValueError("give text or events, not both")

    def to(self, agent: str) -> "RecordEvent":
        """This event as a handoff for `agent`."""
        self._to_agent = agent
        return self

    async def answer(self, call: Call) -> str:
        """A line of JSON for each event. All of them are recorded, or none. Raises Refused."""
        events = self.events or [self]
        told = [self._told(call, event) for event in events]
        rows: list[Row] = []
        prepared = zip(events, told, await small(events, told), strict=True)
        for number, (event, about, row) in enumerate(prepared, start=1):
            with _named(event, number, len(events)):
                row = row or await large(event, about)
                vectors = call.meaning and await call.meaning.vectors(row["chunks"])
                rows.append(row | {"vectors": vectors or [None] * len(row["chunks"])})

        @retried
        async def record() -> list[Row]:
            recorded, chunks = [], list[Row]()
            async with call.database.transaction(call.access.tenant) as connection:
                ids = [id for event in events for id in _ids(event)]
                if ids:
                    await connection.execute(_IN_TURN.encode(), [call.access.tenant, ids])
                for number, (event, row) in enumerate(zip(events, rows, strict=True), start=1):
                    with _named(event, number, len(events)):
                        recorded.append(await _record(connection, dict(row), chunks))
                plain = [chunk for chunk in chunks if not chunk["embedding"]]
                embedded = [chunk for chunk in chunks if chunk["embedding"]]
                if plain:  # all in one go
                    await connection.cursor().executemany(_CHUNK, plain)
                if embedded:
                    await connection.cursor().executemany(_CHUNK_WITH_VECTOR, embedded)
            return recorded

        return "\n".join(json.dumps(each) for each in await record())

    def _told(self, call: Call, event: Event) -> Row:
        given = event.channel or self.channel
        return {
            "tenant_id": call.access.tenant,
            "session_id": self.session_id,
            "actor_id": self.agent_id,
            "to_agent": self._to_agent,
            "channel": call.access.recorded_on(given),
            "inherits": given is None,
            "reach": call.access.channel,  # for what it supersedes or updates
        }


def _ids(event: Event) -> list[str]:
    given = (
        event.event_id,
        event.task and event.task.task_id,
        event.decision and event.decision.supersedes,
    )
    return [id for id in given if id]


@contextmanager
def _named(event: Event, number: int, of: int) -> Iterator[None]:
    try:
        yield
    except Refused as error:
        name = f" ({event.event_id})" if event.event_id else ""
        if of == 1:
            raise
        about = str(error).removeprefix(UNCHANGED).strip()
        raise Refused(f"{UNCHANGED} Event {number} of {of}{name}: {about}") from error


async def _record(connection: Connection, row: Row, chunks: list[Row]) -> Row:
    # Its chunks are added to `chunks`, which are inserted after all events.
    event_id = row["event_id"]
    task, supersedes = row["task"] or {}, (row["decision"] or {}).get("supersedes")
    if row["inherits"] and (task or supersedes):
        asked = row | {"supersedes": supersedes, "task_id": task.get("task_id")}
        if found := await (await connection.execute(_INHERITED.encode(), asked)).fetchone():
            row["channel"] = found["channel"]
    row["task"] = Jsonb(task) if task else None
    inserted = await connection.execute(_EVENT + b" ON CONFLICT DO NOTHING", row)
    if inserted.rowcount:
        chunks += _chunks(row)
        await _record_parts(connection, row | {"task": task})
    elif not (await connection.execute(_SAME, row)).rowcount:
        raise Refused(
            f"{UNCHANGED} Another event has the event_id {event_id}. Give this one a different id, "
            "or none."
        )
    return {
        "event_id": event_id,
        "status": "recorded" if inserted.rowcount else "known",
        "chunks": len(row["chunks"]),
        "artifact_id": event_id if row["bytes"] is not None else None,
        "masked_secrets": row["masked"],
    }


def _chunks(row: Row) -> list[Row]:
    return [
        row
        | {"chunk_id": f"{row['event_id']}.{number}", "text": text, "embedding": vector}
        | {"token_est": math.ceil(estimate_tokens(text))}
        for number, (text, vector) in enumerate(zip(row["chunks"], row["vectors"], strict=True))
    ]


async def _record_parts(connection: Connection, row: Row) -> None:
    event_id = row["event_id"]
    if row["bytes"] is not None:
        artifact = {"artifact_id": event_id, "kind": row["artifact_kind"]}
        await connection.execute(_ARTIFACT, row | artifact)
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
