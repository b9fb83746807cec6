"""The one write path: events become rows, in one transaction."""

import asyncio
import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from anyio import to_process
from memory_semantic import estimate_tokens, mask, mask_all
from psycopg.types.json import Jsonb
from pydantic import Field
from ulid import ULID

from .arguments import Artifact, Asked, Call, Decision, Event, Kind, Name
from .database import Connection, retried
from .settings import UNCHANGED, Refused

LARGE_CHARS = 100_000  # of one event; masking as much holds the interpreter for 60 ms
PREPARE_SECONDS = 60.0  # for one such event, in a process of its own; 10,000,000 characters take 6
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
        rows = []
        for number, event in enumerate(events, start=1):
            given = event.channel or self.channel
            told = {
                "tenant_id": call.access.tenant,
                "session_id": self.session_id,
                "actor_id": self.agent_id,
                "to_agent": self._to_agent,
                "channel": call.access.recorded_on(given),
                "inherits": given is None,
                "reach": call.access.channel,  # for what it supersedes or updates
            }
            with _named(event, number, len(events)):
                row = await _prepared(event, told, call.settings.excerpt_chars)
                row["vectors"] = [None] * len(row["chunks"])
                if call.meaning:
                    row["vectors"] = await call.meaning.vectors(row["chunks"])
                rows.append(row)

        @retried
        async def record() -> list[Row]:
            recorded = []
            async with call.database.transaction(call.access.tenant) as connection:
                for number, (event, row) in enumerate(zip(events, rows, strict=True), start=1):
                    with _named(event, number, len(events)):
                        recorded.append(await _record(connection, dict(row)))
            return recorded

        return "\n".join(json.dumps(each) for each in await record())


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


async def _prepared(event: Event, told: Row, excerpt_chars: int) -> Row:
    """Everything that is stored of an event. What is large is prepared in another process, so that
    no other call waits for it.
    """
    size = len(event.text)
    if event.content is not None:
        size += len(await asyncio.to_thread(json.dumps, event.content))
    if size <= LARGE_CHARS:
        return await asyncio.to_thread(_row, event, told, excerpt_chars)
    try:
        async with asyncio.timeout(PREPARE_SECONDS):
            # The event alone: the class of a request is the server's.
            alone = Event.model_construct(
                **{name: getattr(event, name) for name in Event.model_fields}
            )
            return await to_process.run_sync(_row, alone, told, excerpt_chars, cancellable=True)
    except TimeoutError:
        limit = f"masking its {size:,} characters takes longer than {PREPARE_SECONDS:.0f} seconds."
        raise Refused(f"{UNCHANGED} It is too large: {limit} Record it in parts.") from None


def _row(event: Event, told: Row, excerpt_chars: int) -> Row:
    """Everything that is stored of an event, with its secrets masked."""
    given = event.model_dump(
        include=set(Event.model_fields) - {"text", "artifact", "ts", "actor_id"}
    )
    row, also_masked = mask_all(given)
    said_by, said_masked = mask(event.actor_id or "")
    text, masked = mask(event.text)
    row |= told | {"said_by": said_by}
    said = json.dumps([row, text], sort_keys=True, default=str)
    whole_object = row.pop("content")
    if whole_object is not None:
        text = "\n".join(_texts(whole_object))
    event_id = event.event_id or str(ULID())
    shown = text.replace("\0", "\ufffd")  # a PostgreSQL text cannot hold NUL
    chunks, whole = excerpt(shown, event.kind, event_id, excerpt_chars)
    usual = IMPORTANCE.get(event.kind, OTHER_IMPORTANCE)
    if event.kind == "message" and event.actor_type == "human":
        usual = HUMAN_IMPORTANCE
    artifact = event.artifact or Artifact()
    kept, kind = None if whole else text.encode(), "blob"
    meta = {"name": artifact.name, "type": artifact.type or "text/plain"}
    if artifact.data is not None:
        kept, kind, meta["type"] = artifact.data, "binary", artifact.type
    elif whole_object is not None:
        kept = json.dumps(whole_object, ensure_ascii=False).encode()
        meta["type"] = artifact.type or "application/json"
    elif event.kind == "tool_result":
        kind = "tool_output"
    meta, meta_masked = mask_all(meta)
    return row | {
        "event_id": event_id,
        "ts": event.ts or datetime.now(UTC),
        "request_hash": hashlib.sha256(said.encode()).digest(),
        "content": Jsonb({"text" if whole else "excerpt_text": "\n\n".join(chunks)}),
        "chunks": [] if event.sensitivity == "secret" else chunks,
        "bytes": kept,
        "artifact_kind": kind,
        "meta": Jsonb(meta),
        "text": shown,
        "importance": usual if event.importance is None else event.importance,
        "masked": masked + also_masked + said_masked + meta_masked,
    }


def _texts(value: Any, name: str = "") -> Iterator[str]:
    """The texts of an object, each after its name."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, name)
    elif value is not None:
        yield f"{name}: {value}" if name else str(value)


async def _record(connection: Connection, row: Row) -> Row:
    event_id = row["event_id"]
    task, supersedes = row["task"] or {}, (row["decision"] or {}).get("supersedes")
    if row["inherits"] and (task or supersedes):
        asked = row | {"supersedes": supersedes, "task_id": task.get("task_id")}
        if found := await (await connection.execute(_INHERITED.encode(), asked)).fetchone():
            row["channel"] = found["channel"]
    row["task"] = Jsonb(task) if task else None
    inserted = await connection.execute(_EVENT + b" ON CONFLICT DO NOTHING", row)
    if inserted.rowcount:
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


async def _record_parts(connection: Connection, row: Row) -> None:
    event_id = row["event_id"]
    for number, chunk in enumerate(row["chunks"]):
        part = {"chunk_id": f"{event_id}.{number}", "token_est": math.ceil(estimate_tokens(chunk))}
        part |= {"embedding": row["vectors"][number], "text": chunk}
        await connection.execute(_CHUNK_WITH_VECTOR if part["embedding"] else _CHUNK, row | part)
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
