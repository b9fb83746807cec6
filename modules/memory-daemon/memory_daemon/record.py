"""The one write path: events become rows, in one transaction."""

import asyncio
import hashlib
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from memory_semantic.masking import mask, mask_all
from psycopg import sql
from psycopg.types.json import Jsonb

from .access import Access
from .arguments import Event, RecordEvent
from .database import Connection, Database
from .excerpts import chunked
from .meaning import Meaning
from .settings import UNCHANGED, Refused
from .tokens import estimate

IMPORTANCE = {"decision": 0.9, "task_update": 0.7, "message": 0.5, "tool_result": 0.4}
HUMAN_IMPORTANCE = 0.6  # of what a person says
OTHER_IMPORTANCE = 0.2
SLOW_TO_MASK = 20_000  # characters, which take 15 ms
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

Row = dict[str, Any]


def ulid() -> str:
    """A new id of 26 characters, whose order is that of time (github.com/ulid/spec)."""
    number = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


@dataclass
class _Entry:
    """An event as the rows that it becomes."""

    event: Row
    chunks: list[Row]
    artifact: Row | None
    decision: Row | None
    task: Row | None
    masked: int
    new: bool = True


async def record_event(
    database: Database, meaning: Meaning, access: Access, request: RecordEvent, excerpt_chars: int
) -> str:
    """Record all the events of `request` or none; a line of JSON for each. Raises Refused."""
    now = datetime.now(UTC)

    def prepare() -> list[_Entry]:
        return [
            _entry(event, request, access, now + timedelta(microseconds=number), excerpt_chars)
            for number, event in enumerate(request.all)
        ]

    slow = sum(len(event.text) for event in request.all) > SLOW_TO_MASK
    entries = await asyncio.to_thread(prepare) if slow else prepare()
    for entry in entries:
        if entry.decision:
            entry.decision |= await meaning.stored(entry.decision["decision"])
    async with database.transaction(access.tenant) as connection:
        await _insert_events(connection, entries)
        fresh = [entry for entry in entries if entry.new]
        await _insert(connection, "chunks", [chunk for entry in fresh for chunk in entry.chunks])
        await _insert(connection, "artifacts", [e.artifact for e in fresh if e.artifact])
        for entry in fresh:
            if entry.decision:
                await _decide(connection, entry.decision, access)
            if entry.task:
                await _update_task(connection, entry.task, access)
    return "\n".join(
        json.dumps(
            {
                "event_id": entry.event["event_id"],
                "status": "recorded" if entry.new else "known",
                "chunks": len(entry.chunks),
                "artifact_id": entry.artifact and entry.artifact["artifact_id"],
                "masked_secrets": entry.masked,
            }
        )
        for entry in entries
    )


def _entry(
    event: Event, request: RecordEvent, access: Access, ts: datetime, excerpt_chars: int
) -> _Entry:
    text, masked = mask(event.text)
    parts, also_masked = mask_all(event.model_dump(include={"tags", "refs", "decision", "task"}))
    event_id = event.event_id or ulid()
    everywhere = {
        "tenant_id": access.tenant,
        "channel": access.checked(event.channel),
        "sensitivity": event.sensitivity,
        "actor_id": request.agent_id,
        "refs": parts["refs"],
    }
    described = {
        **everywhere,
        "session_id": request.session_id,
        "kind": event.kind,
        "actor_type": event.actor_type,
    }
    request_hash = hashlib.sha256(json.dumps([described, parts, text]).encode()).digest()
    everywhere["ts"] = described["ts"] = ts
    shown = text.replace("\0", "\ufffd")  # PostgreSQL's texts cannot hold it
    chunks, cut = chunked(shown, event.kind, event_id, excerpt_chars)
    artifact = decision = task = None
    if cut:
        kind = "tool_output" if event.kind == "tool_result" else "blob"
        artifact = {**everywhere, "artifact_id": event_id, "kind": kind, "bytes": text.encode()}
    if event.kind == "decision":
        reasons = parts["decision"] or {"scope": "project"}
        decision = {**everywhere, **reasons, "decision_id": event_id, "decision": shown}
    if event.task:
        task = {**everywhere, **parts["task"], "event_id": event_id, "details": chunks[0]}
    content = Jsonb({"excerpt_text" if cut else "text": "\n\n".join(chunks)})
    return _Entry(
        described
        | {"event_id": event_id, "tags": parts["tags"]}
        | {"content": content, "request_hash": request_hash},
        [
            described
            | {"event_id": event_id, "chunk_id": f"{event_id}.{number}", "text": chunk}
            | {"token_est": math.ceil(estimate(chunk)), "importance": _importance(event)}
            for number, chunk in enumerate(chunks)
            if event.sensitivity != "secret"
        ],
        artifact,
        decision,
        task,
        masked + also_masked,
    )


def _importance(event: Event) -> float:
    if event.importance is not None:
        return event.importance
    if event.kind == "message" and event.actor_type == "human":
        return HUMAN_IMPORTANCE
    return IMPORTANCE.get(event.kind, OTHER_IMPORTANCE)


async def _insert_events(connection: Connection, entries: list[_Entry]) -> None:
    """Marks as not new those that were recorded before, with the same content."""
    for entry in entries:
        inserted = await _insert(connection, "events", [entry.event], "ON CONFLICT DO NOTHING")
        entry.new = inserted == 1
        if entry.new:
            continue
        same = await connection.execute(
            "SELECT FROM events WHERE event_id = %(event_id)s AND request_hash = %(request_hash)s",
            entry.event,
        )
        if not same.rowcount:
            raise Refused(
                f"{UNCHANGED} There is another event with the event_id "
                f"{entry.event['event_id']}. Give this one an id of its own, or none."
            )


async def _decide(connection: Connection, decision: Row, access: Access) -> None:
    replaced = decision.pop("supersedes", None)
    await _insert(connection, "decisions", [decision])
    if not replaced:
        return
    changed = await connection.execute(
        "UPDATE decisions SET status = 'superseded', superseded_by = %(id)s WHERE status = 'active'"
        " AND decision_id = %(replaced)s AND decision_id <> %(id)s"
        " AND visible(channel, sensitivity, actor_id, %(channel)s, %(actor_id)s)",
        {
            **decision,
            "id": decision["decision_id"],
            "replaced": replaced,
            "channel": access.channel,
        },
    )
    if not changed.rowcount:
        raise Refused(
            f"{UNCHANGED} There is no active decision {replaced} that you can see. "
            "query_decisions lists them."
        )


async def _update_task(connection: Connection, task: Row, access: Access) -> None:
    changed = await _insert(
        connection,
        "tasks",
        [{**task, "title": task["title"] or task["details"].strip().splitlines()[0][:200]}],
        "ON CONFLICT (tenant_id, task_id) DO UPDATE SET event_id = excluded.event_id,"
        " ts = excluded.ts, status = excluded.status, details = excluded.details,"
        " title = coalesce(nullif(%(given_title)s, ''), tasks.title), refs = excluded.refs,"
        " channel = excluded.channel, sensitivity = excluded.sensitivity,"
        " actor_id = excluded.actor_id WHERE"
        " visible(tasks.channel, tasks.sensitivity, tasks.actor_id, %(reach)s, %(actor_id)s)",
        given_title=task["title"],
        reach=access.channel,
    )
    if not changed:
        raise Refused(f"{UNCHANGED} The task {task['task_id']} is another agent's.")


async def _insert(
    connection: Connection, table: str, rows: Sequence[Row], rest: str = "", **more: Any
) -> int:
    if not rows:
        return 0
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, rows[0])),
        sql.SQL(", ").join(map(sql.Placeholder, rows[0])),
        sql.SQL(rest),
    )
    async with connection.cursor() as cursor:
        await cursor.executemany(statement, [{**row, **more} for row in rows])
        return cursor.rowcount
