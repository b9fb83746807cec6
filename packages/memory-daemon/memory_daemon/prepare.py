"""What is stored of an event: its secrets masked, cut to what is found and shown."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from anyio import to_process
from memory_semantic import mask, mask_all
from psycopg.types.json import Jsonb
from ulid import ULID

from .arguments import Artifact, Event
from .settings import UNCHANGED, Refused

LARGE_CHARS = 100_000  # of one event; masking as much holds the interpreter for 60 ms
PREPARE_SECONDS = 60.0  # for one such event, in a process of its own; 10,000,000 characters take 6
CHUNK_CHARS = 3_000
# The chunks of one event, from its beginning and from its end, where a text tells the outcome; a
# longer text is kept whole as an artifact.
FIRST_CHUNKS, LAST_CHUNKS = 6, 2
CLOSED = {"kind", "actor_type", "channel", "sensitivity"}  # one of few words, never a secret
HEAD_CHARS, TAIL_CHARS = 3_000, 1_000  # of a tool's result
IMPORTANCE = {"decision": 0.9, "task_update": 0.7, "message": 0.5, "tool_result": 0.4}
HUMAN_IMPORTANCE = 0.6  # of a human's message
OTHER_IMPORTANCE = 0.2

Row = dict[str, Any]


async def small(events: Sequence[Event], told: Sequence[Row]) -> list[Row | None]:
    """Everything that is stored of each event, in one thread; None for one that is `large`'s."""

    def rows() -> list[Row | None]:
        pairs = zip(events, told, strict=True)
        return [_row(*pair) if _size(pair[0]) <= LARGE_CHARS else None for pair in pairs]

    return await asyncio.to_thread(rows)


async def large(event: Event, told: Row) -> Row:
    """Everything that is stored of a large event. It is prepared in another process, so that no
    other call waits for it. Raises Refused after PREPARE_SECONDS.
    """
    try:
        async with asyncio.timeout(PREPARE_SECONDS):
            # The event alone: the class of a request is the server's.
            alone = Event.model_construct(
                **{name: getattr(event, name) for name in Event.model_fields}
            )
            return await to_process.run_sync(_row, alone, told, cancellable=True)
    except TimeoutError:
        limit = f"masking its {_size(event):,} characters takes longer than {PREPARE_SECONDS:.0f}"
        raise Refused(
            f"{UNCHANGED} It is too large: {limit} seconds. Record it in parts."
        ) from None


def _size(event: Event) -> int:
    given = "" if event.content is None else json.dumps(event.content)
    return len(event.text) + len(given)


def _row(event: Event, told: Row) -> Row:
    """Everything that is stored of an event, with its secrets masked."""
    content, in_content = mask_all(event.content)
    text, in_text = mask(event.text if content is None else "\n".join(_texts(content)))
    event_id = event.event_id or str(ULID())
    shown = text.replace("\0", "\ufffd")  # a PostgreSQL text cannot hold NUL
    chunks, whole = excerpt(shown, event.kind, event_id)

    file = event.artifact or Artifact.model_validate({})
    kept, kind, form = None if whole else text.encode(), "blob", "text/plain"
    if file.data is not None:
        kept, kind, form = file.data, "binary", ""
    elif content is not None:
        kept, form = json.dumps(content, ensure_ascii=False).encode(), "application/json"
    elif event.kind == "tool_result":
        kind = "tool_output"

    apart = {"text", "content", "artifact", "ts", "actor_id"} | CLOSED
    given = event.model_dump(include=set(Event.model_fields) - apart)
    given |= {"said_by": event.actor_id or ""}
    meta = {"name": file.name, "type": file.type or form}
    [row, meta], in_rest = mask_all([given, meta])
    row |= event.model_dump(include=CLOSED) | told
    data = file.data and hashlib.sha256(file.data).hexdigest()
    said = json.dumps([row, text, content, data], sort_keys=True, default=str)
    usual = IMPORTANCE.get(event.kind, OTHER_IMPORTANCE)
    if event.kind == "message" and event.actor_type == "human":
        usual = HUMAN_IMPORTANCE
    return row | {
        "event_id": event_id,
        "ts": event.ts or datetime.now(UTC),
        "request_hash": hashlib.sha256(said.encode()).digest(),
        "content": Jsonb({"text" if whole else "excerpt_text": "\n\n".join(chunks)}),
        "chunks": [] if event.sensitivity == "secret" else [c for c in chunks if c.strip()],
        "bytes": kept,
        "artifact_kind": kind,
        "meta": Jsonb(meta),
        "text": shown,
        "importance": usual if event.importance is None else event.importance,
        "masked": in_content + in_text + in_rest,
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


def excerpt(text: str, kind: str, event_id: str) -> tuple[list[str], bool]:
    """The chunks by which a text is found and shown, and whether they are all of it.

    A tool result is one chunk: up to 4,000 characters and a line that says how much is left out.
    Other text is cut at blank lines into at most 8 chunks of 3,000 characters.
    """
    if kind != "tool_result":
        pieces, first, last = _cut(text), FIRST_CHUNKS, LAST_CHUNKS
    elif len(text) > HEAD_CHARS + TAIL_CHARS:
        ends = text[:HEAD_CHARS], text[HEAD_CHARS:-TAIL_CHARS], text[-TAIL_CHARS:]
        pieces, first, last = list(ends), 1, 1
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
