"""The one write path: events become rows, in one transaction."""

import asyncio
import hashlib
import json
import math
import re
from datetime import UTC, datetime
from typing import Any

from memory_semantic import estimate_tokens, mask_all
from psycopg.types.json import Jsonb
from pydantic import Field
from ulid import ULID

from .arguments import Asked, Call, Event, Session
from .bundle import cost, name
from .database import CHANNELS, Access, Channel, Connection, Refused, common
from .meaning import gist, vector

CHUNK_CHARS = 3_000
# The chunks of one event, from its beginning and from its end, where a text tells the outcome; a
# longer text is kept whole as an artifact.
FIRST_CHUNKS, LAST_CHUNKS = 6, 2
HEAD_CHARS, TAIL_CHARS = 3_000, 1_000  # of a tool's result
# By kind; "human" is a human's message.
USUAL_IMPORTANCE = {"decision": 0.9, "task_update": 0.7, "human": 0.6, "message": 0.5}
USUAL_IMPORTANCE |= {"artifact": 0.6, "tool_result": 0.4}
OTHER_IMPORTANCE = 0.2
SENSITIVITIES = ("secret", "high", "low", "none")  # as CHANNELS, the most visible last
REASONS = ("rationale", "constraints", "alternatives", "consequences")
# Two decisions may contradict each other if their cosine is .35 or more, as in the personal memory;
# or if one has half of the other's words, by rarity. Both as weighed by the search.
ALIKE_BY_MEANING, ALIKE_BY_WORDS = 0.35 * 0.4, 0.5 * 0.6

_SIGNS = re.compile(r"[\W_]+")  # packages/shop/compose.yaml is found by "the compose file", too

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
_COLUMNS = (
    "chunk_id event_id session_id kind channel sensitivity actor_id tags refs heading text named"
    " token_est importance gist"
)
_CHUNK, _CHUNK_WITH_VECTOR = (_insert("chunks", _COLUMNS + more) for more in ("", " embedding"))
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
_KNOWN = "SELECT event_id, digest FROM events WHERE event_id = ANY(%s)"
_FORMER = """
  SELECT e.channel, e.sensitivity, e.actor_id, coalesce(d.scope, 'project') AS scope,
    e.actor_id = %(actor_id)s
      OR visible(e.channel, e.sensitivity, e.actor_id, %(reach)s, %(actor_id)s) AS seen
  FROM events e LEFT JOIN decisions d ON decision_id = event_id
  WHERE event_id = coalesce(
    (SELECT decision_id FROM decisions WHERE decision_id = %(supersedes)s AND status = 'active'),
    (SELECT event_id FROM tasks WHERE task_id = %(task_id)s))"""
_SUPERSEDE = "UPDATE decisions SET superseded_by = %(event_id)s WHERE decision_id = %(supersedes)s"
_NEAR = f"""
  SELECT event_id, decision AS text FROM find(%(text)s, %(reach)s, %(actor_id)s, 0, %(vector)s, 0,
    '{{}}', ARRAY(SELECT decision_id || '.0' FROM decisions
      WHERE status = 'active' AND scope = %(scope)s ORDER BY ts DESC LIMIT 1000))
  JOIN chunks USING (chunk_id) JOIN decisions ON decision_id = event_id
  WHERE by_meaning >= {ALIKE_BY_MEANING} OR by_words >= {ALIKE_BY_WORDS} ORDER BY nth LIMIT 1"""


class RecordEvent(Asked):
    """Record what happened, as it happens: messages, tool calls and results, decisions, task
    updates. Answered once all of them are stored; if one is refused, none is. What is long is kept
    whole and shown as an excerpt."""

    session_id: Session
    events: list[Event] = Field(min_length=1, max_length=100)

    async def answer(self, call: Call) -> str:
        """A line of JSON for each event. Raises Refused."""
        return await record(call, self.session_id, self.events, self.channel)


async def record(
    call: Call,
    session_id: str,
    events: list[Event],
    channel: Channel | None,
    to_agent: str | None = None,
) -> str:
    """Record events of a session, all or none: on `channel` if they name none, and as a handoff for
    `to_agent`, if there is one. Raises Refused.
    """
    told: Row = {"tenant_id": call.access.tenant, "actor_id": call.access.agent}
    told |= {"session_id": session_id, "to_agent": to_agent, "channel": channel}
    meaning = call.database.meaning
    rows = [await asyncio.to_thread(_row, event, told, meaning) for event in events]
    answers: list[str] = []
    async with call.database.transaction(call.access.tenant) as connection:
        known = await _known(connection, call.access.tenant, rows)
        async with connection.pipeline():
            for number, (event, row) in enumerate(zip(events, rows, strict=True), start=1):
                try:
                    answers.append(json.dumps(await _record(connection, call, row, known)))
                except Refused as error:
                    given = f" ({event.event_id})" if event.event_id else ""
                    which = f"Event {number} of {len(rows)}{given}: " if len(rows) > 1 else ""
                    raise Refused(f"{which}{error}") from error
    return "\n".join(answers)


async def _known(connection: Connection, tenant: str, rows: list[Row]) -> dict[str, bytes]:
    # The digests of those of `rows` that are recorded already. No other call can add one meanwhile.
    ids = [row[id] for row in rows for id in ("given_id", "supersedes", "task_id") if row[id]]
    if not ids:
        return {}
    await connection.execute(_IN_TURN.encode(), [tenant, ids])
    found = await (await connection.execute(_KNOWN.encode(), [ids])).fetchall()
    return {row["event_id"]: row["digest"] for row in found}


def _row(event: Event, told: Row, meaning: bool) -> Row:
    """An event as it is stored, with its secrets masked; its chunks with vectors if `meaning`."""
    text, in_text = mask_all(event.text)
    given = event.model_dump(include={"tags", "refs", "name", "actor_id", "decision", "task"})
    rest, in_rest = mask_all(given)
    decision, task = rest["decision"] or {}, rest["task"] or {}
    row = event.model_dump(include={"kind", "actor_type", "sensitivity"}) | rest
    row |= told | {"channel": event.channel or told["channel"], "said_by": rest["actor_id"] or ""}
    digest = hashlib.sha256(json.dumps([row, text], sort_keys=True).encode()).digest()
    reasons = [f"{name}: {'; '.join(decision[name])}" for name in REASONS if decision.get(name)]
    event_id = event.event_id or str(ULID())
    pieces, whole = excerpt("\n".join([text, *reasons]), event.kind, event_id)
    by_human = event.kind == "message" and event.actor_type == "human"
    usual = USUAL_IMPORTANCE.get("human" if by_human else event.kind, OTHER_IMPORTANCE)
    chunks = [
        # Of decisions that differ in a "not", both count.
        (
            each,
            estimate_tokens(each),
            vector(each) if meaning else None,
            None if decision else gist(each),
        )
        for each in pieces
        if each.strip()
    ]
    paths = [*filter(None, [rest["name"]]), *rest["refs"]]
    return row | {
        "event_id": event_id,
        "named": " ".join(f"{path.rpartition('/')[2]} {_SIGNS.sub(' ', path)}" for path in paths),
        "given_id": event.event_id,
        "supersedes": decision.get("supersedes"),
        "task_id": task.get("task_id"),
        "ts": event.ts or datetime.now(UTC),
        "content": ({"text": text} if whole else {"excerpt_text": "\n\n".join(pieces)})
        | ({"task": task} if task else {}),
        "digest": digest,
        "text": text,
        "bytes": text.encode() if rest["name"] or not whole else None,
        "chunks": chunks,
        "importance": min(usual, usual if event.importance is None else event.importance),
        "masked": in_text + in_rest,
    }


def excerpt(text: str, kind: str, event_id: str) -> tuple[list[str], bool]:
    """The chunks by which a text is found and shown, and whether they are all of it.

    A decision is one chunk, and so is a tool result: up to 4,000 characters and a line that says
    how much is left out. Other text is cut at blank lines into up to 8 chunks of 3,000 characters.
    """
    pieces, first, last = [text], 1, 1
    if kind == "tool_result" and len(text) > HEAD_CHARS + TAIL_CHARS:
        pieces = [text[:HEAD_CHARS], text[HEAD_CHARS:-TAIL_CHARS], text[-TAIL_CHARS:]]
    elif kind not in ("tool_result", "decision"):
        pieces, first, last = _cut(text), FIRST_CHUNKS, LAST_CHUNKS
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
    return [*chunks, text]


async def _record(connection: Connection, call: Call, row: Row, known: dict[str, bytes]) -> Row:
    id, decision, artifact = row["event_id"], row["decision"], row["bytes"] is not None
    answer: Row = {"event_id": id, "status": "known", "masked_secrets": row["masked"]}
    answer |= {"artifact_id": id if artifact else None}
    if known.get(id, row["digest"]) != row["digest"]:
        raise Refused(
            f"Another event has the event_id {id}. Give this one a different id, or none."
        )
    if id in known:
        return answer
    await _check(connection, call.access, row)
    if row["sensitivity"] == "secret":
        row["chunks"] = []
    heading = _heading(row)
    if decision and not row["supersedes"] and row["chunks"]:
        asked = row | decision | {"vector": row["chunks"][0][2], "reach": call.access.channel}
        near = await (await connection.execute(_NEAR.encode(), asked)).fetchone()
        answer |= {"near": near} if near else {}
    await connection.execute(_EVENT, row | {"content": Jsonb(row["content"])})
    for number, (text, tokens, embedding, likeness) in enumerate(row["chunks"]):
        chunk = {"chunk_id": f"{id}.{number}", "heading": heading, "text": text}
        chunk |= {"token_est": math.ceil(cost(heading, text, row["refs"], tokens))}
        chunk |= {"embedding": embedding, "gist": likeness}
        insert = _CHUNK_WITH_VECTOR if call.database.meaning else _CHUNK
        await connection.execute(insert, row | chunk)
    if artifact:
        kind = "tool_output" if row["kind"] == "tool_result" else "blob"
        kept = {"artifact_id": id, "kind": kind, "meta": Jsonb({"name": row["name"]})}
        await connection.execute(_ARTIFACT, row | kept)
    if decision:
        decided = {"decision_id": id, "decision": row["text"]}
        await connection.execute(_DECISION, row | decision | decided)
        await connection.execute(_SUPERSEDE, row)
    known[id] = row["digest"]
    return answer | {"status": "recorded", "chunks": len(row["chunks"])}


async def _check(connection: Connection, access: Access, row: Row) -> None:
    # Who may rule; and what replaces something is at least as visible, if need be by inheriting.
    scope = row["decision"]["scope"] if row["decision"] else "project"
    former: Row | None = None
    if row["supersedes"] or row["task_id"]:
        found = await connection.execute(_FORMER.encode(), row | {"reach": access.channel})
        former = await found.fetchone()
    if row["supersedes"] and not (former and former["seen"]):
        raise Refused(
            f"There is no active decision {row['supersedes']} that you can see. query_decisions "
            "lists them."
        )
    if former and not former["seen"]:
        raise Refused(f"You may not see the task {row['task_id']}. Give yours another task_id.")
    if former:
        row["channel"] = row["channel"] or former["channel"]
        row["sensitivity"] = row["sensitivity"] or former["sensitivity"]
    row["channel"] = access.reach(row["channel"] or common("team", access.channel))
    row["sensitivity"] = row["sensitivity"] or "none"
    for what, order in (("channel", CHANNELS), ("sensitivity", SENSITIVITIES)):
        if former and order.index(row[what]) < order.index(former[what]):
            hidden = f"It would hide what it replaces, which has {what} {former[what]}."
            raise Refused(f"{hidden} Without a {what} of its own, it keeps that.")
    rules = {scope, former["scope"]} if former else {scope}
    if "global" in rules and not access.may_rule:
        raise Refused("This token may neither make nor end rules for all (scope global).")
    if rules != {"project"} and row["actor_type"] == "tool":
        raise Refused("A tool makes no rules, and ends none.")
    if former and former["scope"] == "user" and former["actor_id"] != access.agent:
        raise Refused("It is a rule of another agent.")


def _heading(row: Row) -> str:
    """What stands above an event's texts. What a client named appears as a name only."""
    who = name(row["actor_id"])
    if row["actor_type"] != "agent" or row["said_by"]:
        who = f"{row['actor_type']} {name(row['said_by'])}".strip() + f" (by {who})"
    facts = [f"{row['kind']} {row['event_id']} {row['ts'].astimezone(UTC):%Y-%m-%d %H:%M}Z {who}"]
    facts += [row["channel"]]
    facts += [f"sensitivity {row['sensitivity']}"] if row["sensitivity"] != "none" else []
    facts += [f"tags {' '.join(map(name, row['tags']))}"] if row["tags"] else []
    facts += [f"scope {row['decision']['scope']}"] if row["decision"] else []
    facts += [f"task {row['task_id']}, {row['task']['status']}"] if row["task"] else []
    facts += [f"file {name(row['name'])}"] if row["name"] else []
    facts += ["whole: get_artifact"] if row["bytes"] is not None else []
    return ", ".join(facts)
