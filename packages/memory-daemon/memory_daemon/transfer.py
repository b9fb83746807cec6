"""What other programs recorded, brought in; decisions and tasks, written out as Markdown."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import psycopg
from pydantic import ValidationError

from .access import Channel
from .arguments import Call
from .record import RecordEvent
from .settings import Refused, explained

BATCH_EVENTS = 50  # recorded in one transaction
TAG = "imported"  # `forget --tag imported` undoes an import
# The tools of memories, whose results are recorded already.
_MEMORY = re.compile(r"(record_event|build_acb|query_decisions|_packet|get_artifact|^memory_\w+)$")
_PATHS = re.compile(  # arguments that say where
    r"(^|[_-])(path|file|filename|filepath|dir|directory|folder|url|uri)$", re.IGNORECASE
)
_FILES = re.compile(r"\A<context_file\b.*</context_file>", re.DOTALL)  # put there by Amplifier
_MACHINE = re.compile(r"\A\s*<(command-|local-command-|bash-|system-reminder|task-notification)")

Found = tuple[str, str, dict[str, Any]]  # who recorded it, its session, the event


class Transcripts:
    """Reads Amplifier's `events.jsonl` and Claude Code's transcripts, line by line.

    `left_out` counts what is not recorded, by the name that the file gives it.
    """

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self._calls: dict[str, tuple[str, Any]] = {}  # Claude Code: by id, the tool and its input
        self._spoke = False  # Amplifier: whether this turn's answer was in the file whole

    def events(self, file: Path) -> Iterator[Found]:
        """The events of a file, in its order, as arguments of record_event."""
        try:
            opened = file.open(encoding="utf-8", errors="replace")
        except OSError as error:
            self.left_out[f"a file that cannot be read ({error.strerror})"] += 1
            return
        with opened as lines:
            for line in filter(str.strip, lines):
                entry: Any = None
                try:
                    entry = json.loads(line)
                    by_amplifier = "event" in entry
                    found = list(self._amplifier(entry) if by_amplifier else self._claude(entry))
                except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                    self.left_out["damaged or of another form"] += 1
                    continue
                for number, (session, event) in enumerate(found):
                    same = "" if by_amplifier else entry.get("uuid")  # in a copy of the line too
                    key = f"{session} {same}" if same else line.strip()
                    digest = hashlib.sha256(f"{key} {number}".encode(errors="replace")).hexdigest()
                    text = event["text"].encode(errors="replace").decode()
                    event = {"kind": "message", **event, "text": text, "tags": [TAG]}
                    event["event_id"] = f"{TAG}-{digest[:32]}"
                    yield "amplifier" if by_amplifier else "claude-code", session, event

    def _amplifier(self, entry: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
        name, data = entry["event"] or "a log message", entry.get("data") or {}
        when = entry.get("ts") or entry.get("timestamp")
        # What a sub-agent is asked and answers is its parent's tool call and result.
        parent = data.get("parent_id")
        session = parent or entry.get("session_id") or data.get("session_id")
        event: dict[str, Any] | None = None
        if name in ("tool:pre", "tool:post", "tool:error"):
            result = data.get("result", entry.get("error") or data.get("error"))
            if isinstance(result, dict) and "success" in result:
                result = result.get("output") or result.get("error")
            event = self._tool(
                data["tool_name"], data.get("tool_input"), name != "tool:pre", result
            )
        elif parent:
            pass
        elif name in ("prompt:submit", "orchestrator:steering_injected"):
            self._spoke = False
            said = data.get("prompt") or data["content"]
            event = {"actor_type": "human", "text": _FILES.sub("", said)}
        elif name == "content_block:end" and data["block"]["type"] == "text":
            self._spoke = True
            event = {"text": data["block"]["text"]}
        elif name == "prompt:complete" and not self._spoke:  # then this is all there is
            event = {"text": data.get("response") or data["response_preview"]}
        if event and event["text"].strip():
            yield session, {**event, "ts": when}
        else:
            self.left_out[name] += 1

    def _claude(self, entry: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        if entry["type"] not in ("user", "assistant"):
            self.left_out[entry["type"]] += 1
            return
        who, content = entry["type"], entry["message"]["content"]
        unsaid = any(map(entry.get, ("isSidechain", "isMeta", "isCompactSummary")))
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kind, event = block["type"], None
            if kind == "tool_use":
                self._calls[block["id"]] = block["name"], block["input"]
                event = self._tool(block["name"], block["input"], False)
            elif kind == "tool_result":
                name, given = self._calls.get(block["tool_use_id"], ("a tool", None))
                event = self._tool(name, given, True, block.get("content"))
            elif kind == "text" and not unsaid and not _MACHINE.match(block["text"]):
                human = {"actor_type": "human"} if who == "user" else {}
                event = {**human, "text": block["text"]}
            if event and event["text"].strip():
                yield entry["sessionId"], {**event, "ts": entry["timestamp"]}
            else:
                self.left_out[f"{who} {kind}"] += 1

    def _tool(self, name: str, given: Any, done: bool, result: Any = None) -> dict[str, Any] | None:
        if _MEMORY.search(name):
            return None
        event = {"actor_id": name[:128], "actor_type": "tool"} if done else {}
        text = _text(result) if done else _text(given)
        kind = "tool_result" if done else "tool_call"
        return {**event, "kind": kind, "text": f"{name}\n{text}", "refs": _refs(given)}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        if value.get("type") == "text":
            return _text(value.get("text"))
        return "\n".join(f"{name}: {_text(each)}" for name, each in value.items())
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value or "")


def _refs(given: Any) -> list[str]:
    named = given.items() if isinstance(given, dict) else ()
    paths = [path for name, path in named if _PATHS.search(name) and isinstance(path, str)]
    return [path for path in paths if 0 < len(path) <= 300 and path.isprintable()][:50]


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The files among `paths`, and those named *.jsonl in folders among them."""
    each = (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path] for path in paths)
    return [file for files in each for file in files]


async def bring_in(
    files: Sequence[Path], call: Call, channel: Channel, agent: str | None
) -> tuple[Counter[str], Counter[str]]:
    """Record what `files` hold, with the times that they give; what is known is not recorded twice.

    Returns how many events were `recorded` and `known` and how many secrets were masked, and, by
    name, how many entries were left out. Raises Refused if the database fails.
    """
    done: Counter[str] = Counter()
    transcripts = Transcripts()

    async def record(who: tuple[str, str], events: list[dict[str, Any]]) -> None:
        try:
            asked = {"agent_id": agent or who[0], "session_id": who[1], "events": events}
            answer = await RecordEvent.model_validate(asked).answer(call)
        except (Refused, ValidationError) as error:
            if isinstance(error.__cause__, psycopg.Error):
                raise Refused(f"{error} Before that: {done['recorded']:,} recorded.") from error
            for each in events if len(events) > 1 else ():
                await record(who, [each])
            if len(events) == 1:
                why = explained(error) if isinstance(error, ValidationError) else str(error)
                transcripts.left_out[why.replace(events[0]["event_id"], "…")] += 1
            return
        for told in map(json.loads, answer.splitlines()):
            done.update({told["status"]: 1, "secrets masked": told["masked_secrets"]})

    for file in files:
        for who, found in groupby(transcripts.events(file), key=lambda found: found[:2]):
            while batch := list(islice(found, BATCH_EVENTS)):
                await record(who, [{**event, "channel": channel} for _, _, event in batch])
    return done, transcripts.left_out


SEE = "visible(channel, sensitivity, actor_id, %(channel)s, %(agent)s)"
_WITH = "JOIN (SELECT event_id, actor_type, said_by, tags FROM events) e"
DECISIONS = f"""
  SELECT *, decision_id AS id, decision AS text
  FROM decisions {_WITH} ON decision_id = event_id WHERE {SEE}
  ORDER BY status, ts DESC, decision_id"""
TASKS = f"""
  SELECT *, task_id AS id, details AS text
  FROM tasks {_WITH} USING (event_id) WHERE {SEE}
  ORDER BY array_position(ARRAY['doing', 'open', 'done'], status), ts DESC, task_id"""
_LISTS = ("rationale", "constraints", "alternatives", "consequences", "refs")


async def written_out(call: Call, channel: Channel, agent: str) -> str:
    """The decisions and tasks that a request on `channel` by `agent` may see, as Markdown."""
    asked = {"channel": channel, "agent": agent}
    parts = []
    async with call.database.transaction(call.access.tenant) as connection:
        for title, query in ("Decisions", DECISIONS), ("Tasks", TASKS):
            rows = await (await connection.execute(query.encode(), asked)).fetchall()
            parts += [f"# {title}\n", *map(_entry, rows)] if rows else []
    return "\n".join(parts) or "There are no decisions or tasks that such a request may see.\n"


def _entry(row: dict[str, Any]) -> str:
    title = row.get("title") or ", ".join(filter(None, (row.get("scope"), row["status"])))
    lines = [f"## {row['ts']:%Y-%m-%d} {_inline(title)}", ""]
    # Quoted, so that nothing in a text can pass for a heading of this page.
    lines += [f"> {line}".rstrip() for line in row["text"].splitlines()]
    about = {"id": row["id"], "status": row["status"], "by": row["actor_id"]}
    about |= {"superseded by": row["superseded_by"]} if row.get("superseded_by") else {}
    about |= {name: "; ".join(row[name]) for name in _LISTS if row.get(name)}
    return "\n".join([*lines, "", *(f"- {n}: {_inline(v)}" for n, v in about.items()), ""])


def _inline(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]#|])", r"\\\1", " ".join(text.split()))
