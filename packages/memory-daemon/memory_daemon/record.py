"""The one write path: events become rows, in one transaction."""

import asyncio
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from memory_semantic import estimate_tokens, mask, mask_all
from psycopg.types.json import Jsonb
from pydantic import Field
from ulid import ULID

from .arguments import Asked, Call, Decision, Event, Session
from .bundle import frame, name
from .database import CHANNELS, UNCHANGED, Access, Channel, Connection, Refused
from .meaning import ALIKE, gist, vector

CHUNK_CHARS = 3_000
# The chunks of one event, from its beginning and from its end, where a text tells the outcome; a
# longer text is kept whole as an artifact.
FIRST_CHUNKS, LAST_CHUNKS = 6, 2
HEAD_CHARS, TAIL_CHARS = 3_000, 1_000  # of a tool's result
USUAL_IMPORTANCE = {"decision": 0.9, "task_update": 0.7, "message": 0.5, "tool_result": 0.4}
HUMAN_IMPORTANCE = 0.6  # of a human's message
OTHER_IMPORTANCE = 0.2
SENSITIVITIES = ("none", "low", "high", "secret")
SHARED_WORDS = 0.5  # of the shorter of two decisions that may contradict each other, by words alone
NEAR_CHARS = 300  # of a decision that the answer shows

Row = dict[str, Any]


def _insert(table: str, columns: str) -> bytes:
    names = f"tenant_id ts {columns}".split()
    values = ", ".join(f"%({name})s" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})".encode()


_EVENT = _insert(
    "events",
    "event_id session_id channel actor_type actor_id said_by to_agent task_id kind sensitivity tags"
    " content refs digest",
)
_CHUNK = (
    "chunk_id event_id session_id kind channel sensitivity actor_id tags refs heading text"
    " token_est importance gist"
)
_CHUNK, _CHUNK_WITH_VECTOR = (_insert("chunks", _CHUNK + more) for more in ("", " embedding"))
_ARTIFACT = _insert("artifacts", "artifact_id kind bytes meta refs")
_DECISION = _insert(
    "decisions", "decision_id scope decision rationale constraints alternatives consequences refs"
)
# Calls that touch the same ids go one after the other, and lock them in the same order, so that
# they do not block each other.
_IN_TURN = """
  SELECT pg_advisory_xact_lock(id) FROM (
    SELECT DISTINCT hashtextextended(%s || ' ' || id, 0) AS id
    FROM unnest(%s::text[]) id ORDER BY 1) ids"""
_SEEN = "visible(e.channel, e.sensitivity, e.actor_id, %(reach)s, %(actor_id)s) AS seen"
_FORMER_DECISION = f"""
  SELECT e.channel, e.sensitivity, e.actor_id, scope, {_SEEN} FROM decisions
  JOIN events e ON event_id = decision_id
  WHERE decision_id = %(supersedes)s AND status = 'active'"""
_FORMER_TASK = f"""
  SELECT e.channel, e.sensitivity, e.actor_id, 'project' AS scope, {_SEEN} FROM tasks
  JOIN events e USING (event_id) WHERE tasks.task_id = %(task_id)s"""
_SUPERSEDE = "UPDATE decisions SET superseded_by = %(event_id)s WHERE decision_id = %(supersedes)s"
_NEAR = f"""
  SELECT decision_id AS event_id, left(decision, {NEAR_CHARS}) AS text FROM (
    SELECT decision_id, decision, coalesce(nearness(c, %(vector)s), 0) AS near,
      (SELECT count(*) FROM unnest(tsvector_to_array(c.tsv)) word
       WHERE word = ANY(tsvector_to_array(words(%(text)s))))::float8
      / greatest(least(length(c.tsv), length(words(%(text)s))), 1) AS shared
    FROM decisions JOIN chunks c ON chunk_id = decision_id || '.0'
    WHERE status = 'active' AND scope = %(scope)s AND decision_id <> %(event_id)s
      AND visible(channel, sensitivity, actor_id, %(reach)s, %(actor_id)s)
    ORDER BY decisions.ts DESC LIMIT 1000) newest
  WHERE near >= {ALIKE} OR shared >= {SHARED_WORDS} ORDER BY near DESC, shared DESC LIMIT 1"""


class RecordEvent(Asked):
    """Record what happened, as it happens: messages, tool calls and results, decisions, task
    updates. Answered once all of them are stored; if one is refused, none is. What is long is kept
    whole and shown as an excerpt."""

    session_id: Session
    events: list[Event] = Field(min_length=1, max_length=100)

    async def answer(self, call: Call) -> str:
        """A line of JSON for each event. Raises Refused."""
        rows: list[Row] = []
        for number, event in enumerate(self.events, start=1):
            with _named(event, number, len(self.events)):
                rows.append(
                    await asyncio.to_thread(_row, event, call.access, self.session_id, self.channel)
                )
        async with call.database.transaction(call.access.tenant) as connection:
            return await record(connection, call, self.events, rows)


async def handed(connection: Connection, call: Call, session: str, to: str, event: Event) -> None:
    """Record `event` as handed over to the agent `to`, in an open transaction."""
    row = await asyncio.to_thread(_row, event, call.access, session, None) | {"to_agent": to}
    await record(connection, call, [event], [row])


async def record(
    connection: Connection, call: Call, events: Sequence[Event], rows: Sequence[Row]
) -> str:
    """Record `rows`, prepared from `events`, in an open transaction. Raises Refused."""
    known = await _known(connection, call.access.tenant, rows)
    answers: list[Row] = []
    async with connection.pipeline():
        for number, (event, row) in enumerate(zip(events, rows, strict=True), start=1):
            id, near = row["event_id"], None
            with _named(event, number, len(events)):
                if known.get(id, row["digest"]) != row["digest"]:
                    raise Refused(
                        f"{UNCHANGED} Another event has the event_id {id}. Give this one a "
                        "different id, or none."
                    )
                if id not in known:
                    near = await _record(connection, call, event, row)
            answer = {"event_id": id, "status": "known" if id in known else "recorded"}
            answer |= {"chunks": len(row["chunks"]), "masked_secrets": row["masked"]}
            answer |= {"artifact_id": id if row["bytes"] is not None else None}
            answers.append(answer | ({"near": near} if near else {}))
            known[id] = row["digest"]
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in answers)


async def _known(connection: Connection, tenant: str, rows: Sequence[Row]) -> dict[str, bytes]:
    # The digests of those of `rows` that are recorded already. No other call can add one meanwhile.
    given = [row["event_id"] for row in rows if row["own_id"]]
    touched = [id for row in rows for id in (row["supersedes"], row["task_id"]) if id]
    if not given + touched:
        return {}
    await connection.execute(_IN_TURN.encode(), [tenant, given + touched])
    found = await connection.execute(
        "SELECT event_id, digest FROM events WHERE event_id = ANY(%s)", [given]
    )
    return {row["event_id"]: row["digest"] for row in await found.fetchall()}


@contextmanager
def _named(event: Event, number: int, of: int) -> Iterator[None]:
    try:
        yield
    except Refused as error:
        if of == 1:
            raise
        which = f"Event {number} of {of}{f' ({event.event_id})' if event.event_id else ''}:"
        about = str(error).removeprefix(UNCHANGED).strip()
        raise Refused(f"{UNCHANGED} {which} {about}") from error


def _row(event: Event, access: Access, session: str, usual_channel: Channel | None) -> Row:
    """Everything that is stored of an event, with its secrets masked."""
    text, in_text = mask(event.text)
    given = event.model_dump(include={"tags", "refs", "name", "actor_id", "decision", "task"})
    rest, in_rest = mask_all(given)
    event_id = event.event_id or str(ULID())
    said = text
    if reasons := rest["decision"]:
        said = "\n".join([text, *_reasons(reasons)])
    pieces, whole = excerpt(said, event.kind, event_id)
    usual = USUAL_IMPORTANCE.get(event.kind, OTHER_IMPORTANCE)
    if event.kind == "message" and event.actor_type == "human":
        usual = HUMAN_IMPORTANCE
    channel = event.channel or usual_channel
    row = event.model_dump(include={"kind", "actor_type", "sensitivity"}) | rest
    row |= {"session_id": session, "actor_id": access.agent, "channel": channel}
    row |= {"tenant_id": access.tenant, "event_id": event_id, "said_by": rest["actor_id"] or ""}
    digest = json.dumps([row, text], sort_keys=True, default=str)
    content = {"text" if whole else "excerpt_text": "\n\n".join(pieces)}
    content |= {"task": rest["task"]} if rest["task"] else {}
    chunks = [piece for piece in pieces if piece.strip()] if event.sensitivity != "secret" else []
    return row | {
        "own_id": bool(event.event_id),
        "inherits": channel is None,
        "supersedes": (rest["decision"] or {}).get("supersedes"),
        "task_id": (rest["task"] or {}).get("task_id"),
        "ts": event.ts or datetime.now(UTC),
        "to_agent": None,
        "channel": access.reach(channel or access.usual()),
        "content": Jsonb(content),
        "digest": hashlib.sha256(digest.encode()).digest(),
        "text": text,
        "bytes": None if whole and not rest["name"] else text.encode(),
        "chunks": [(each, estimate_tokens(each), vector(each), gist(each)) for each in chunks],
        "importance": min(usual, usual if event.importance is None else event.importance),
        "masked": in_text + in_rest,
    }


def _reasons(decision: Row) -> list[str]:
    names = ("rationale", "constraints", "alternatives", "consequences")
    return [f"{name}: {'; '.join(decision[name])}" for name in names if decision[name]]


def excerpt(text: str, kind: str, event_id: str) -> tuple[list[str], bool]:
    """The chunks by which a text is found and shown, and whether they are all of it.

    A decision is one chunk, and so is a tool result: up to 4,000 characters and a line that says
    how much is left out. Other text is cut at blank lines into at most 8 chunks of 3,000 characters.
    """
    if kind == "decision":
        return [text], True
    if kind != "tool_result":
        pieces, first, last = _cut(text), FIRST_CHUNKS, LAST_CHUNKS
    elif len(text) > HEAD_CHARS + TAIL_CHARS:
        pieces = [text[:HEAD_CHARS], text[HEAD_CHARS:-TAIL_CHARS], text[-TAIL_CHARS:]]
        first, last = 1, 1
    else:
        return [text], True
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


async def _record(connection: Connection, call: Call, event: Event, row: Row) -> Row | None:
    # Returns the nearest active decision to a new one.
    decision = row["decision"] or Decision().model_dump() if row["kind"] == "decision" else None
    if decision:
        _may_rule(call.access, event, decision["scope"], call.access.agent)
    if row["supersedes"] or row["task_id"]:
        await _replace(connection, call.access, event, row)
    row["sensitivity"] = row["sensitivity"] or "none"
    await connection.execute(_EVENT, row)
    heading = _heading(row, decision)
    for number, (text, tokens, embedding, likeness) in enumerate(row["chunks"]):
        refs = [row["name"], *row["refs"]] if row["name"] else row["refs"]
        chunk = {"chunk_id": f"{row['event_id']}.{number}", "heading": heading, "text": text}
        chunk |= {"gist": likeness, "embedding": embedding, "refs": refs}
        chunk |= {"token_est": math.ceil(tokens + frame(heading, text, refs))}
        insert = _CHUNK_WITH_VECTOR if call.database.meaning else _CHUNK
        await connection.execute(insert, row | chunk)
    if row["bytes"] is not None:
        kind = "tool_output" if row["kind"] == "tool_result" else "blob"
        meta = Jsonb({"name": row["name"]})
        artifact = {"artifact_id": row["event_id"], "kind": kind, "meta": meta}
        await connection.execute(_ARTIFACT, row | artifact)
    if not decision:
        return None
    decided = row | decision | {"decision_id": row["event_id"], "decision": row["text"]}
    await connection.execute(_DECISION, decided)
    if row["supersedes"]:
        await connection.execute(_SUPERSEDE, row)
        return None
    embedding = row["chunks"][0][2] if row["chunks"] else None
    asked = decided | {"vector": embedding, "reach": call.access.channel}
    return await (await connection.execute(_NEAR.encode(), asked)).fetchone()


def _heading(row: Row, decision: Row | None) -> str:
    """What stands above an event's texts. What a client named appears as a name only."""
    who = name(row["actor_id"])
    if row["actor_type"] != "agent" or row["said_by"]:
        who = f"{row['actor_type']} {name(row['said_by'])}".strip() + f" (by {who})"
    facts = [f"{row['kind']} {row['event_id']} {row['ts'].astimezone(UTC):%Y-%m-%d %H:%M}Z {who}"]
    facts += [f"session {name(row['session_id'])}", row["channel"]]
    facts += [f"sensitivity {row['sensitivity']}"] if row["sensitivity"] != "none" else []
    facts += [f"tags {' '.join(map(name, row['tags']))}"] if row["tags"] else []
    facts += [f"scope {decision['scope']}"] if decision else []
    facts += [f"task {row['task_id']}, {row['task']['status']}"] if row["task"] else []
    if row["bytes"] is not None:
        facts += [f"whole{' file ' + name(row['name']) if row['name'] else ''}: get_artifact"]
    return ", ".join(facts)


def _may_rule(access: Access, event: Event, scope: str, maker: str) -> None:
    if scope == "global" and not access.may_rule:
        raise Refused(f"{UNCHANGED} This token may not make or end rules for all (scope global).")
    if scope != "project" and event.actor_type == "tool":
        raise Refused(f"{UNCHANGED} A tool makes and ends no rules.")
    if scope == "user" and maker != access.agent:
        raise Refused(f"{UNCHANGED} This is a rule of another agent.")


async def _replace(connection: Connection, access: Access, event: Event, row: Row) -> None:
    # What replaces something is at least as visible, and takes its channel if none is given.
    asked = row | {"reach": access.channel}
    query = _FORMER_DECISION if row["supersedes"] else _FORMER_TASK
    former = await (await connection.execute(query.encode(), asked)).fetchone()
    if row["supersedes"] and not (former and former["seen"]):
        raise Refused(
            f"{UNCHANGED} There is no active decision {row['supersedes']} that you can see. "
            "query_decisions lists them."
        )
    if not former:
        return
    if not former["seen"]:
        raise Refused(
            f"{UNCHANGED} There is a task {row['task_id']} that you may not see. Give yours "
            "another task_id."
        )
    _may_rule(access, event, former["scope"], former["actor_id"])
    row["channel"] = former["channel"] if row["inherits"] else row["channel"]
    row["sensitivity"] = row["sensitivity"] or former["sensitivity"]
    if CHANNELS.index(row["channel"]) < CHANNELS.index(former["channel"]):
        raise Refused(
            f"{UNCHANGED} It would hide what it replaces: that is on channel {former['channel']}."
        )
    if SENSITIVITIES.index(row["sensitivity"]) > SENSITIVITIES.index(former["sensitivity"]):
        raise Refused(
            f"{UNCHANGED} It would hide what it replaces: that has sensitivity "
            f"{former['sensitivity']}."
        )
