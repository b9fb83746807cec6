"""JSON of the data exports of Claude and ChatGPT, of mem0, and of the MCP reference server."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from time import time
from typing import Any

from memory_semantic import InputError

from ..formats import Entry
from .markdown import blocks

_CLAUDES = "memories saved by Claude"
_BASIS = re.compile(r"\[[a-z]+\]\s+")  # how Claude knows a fact: [stated], [inferred]
_AROUND = re.compile(r"\AThe user provided the .*?```(.*)```\s*\Z", re.DOTALL)


def entries(value: Any) -> Iterator[Entry]:
    """What is remembered in a JSON value, or why that cannot be read."""
    match value:
        case [*items] | {"results": [*items]}:
            for number, item in enumerate(items, start=1):
                yield from (each._replace(place=f"item {number}") for each in entries(item))
        case {"mapping": {**nodes}}:  # a conversation with ChatGPT
            for node in nodes.values():
                yield from _of_message(node)
        case InputError():  # it is torn
            yield Entry("", value)
        case {"mapping": _}:
            yield Entry("", InputError("it is no conversation."))
        case {"conversations_memory": _} | {"memory_files": _}:
            projects = value.get("project_memories")
            texts = projects.values() if isinstance(projects, dict) else ()
            said = _blocks(value.get("conversations_memory"), *texts)
            yield from _all("from-claude", _CLAUDES, said, said_by="agent")
            yield from entries(value.get("memory_files"))
        case {"path": str(), "content": str(text), "updated_at": when}:  # one of its files
            for said in blocks(text):
                by, said = "user" if "[stated]" in said else "agent", _BASIS.sub("", said, 1)
                yield from _all("from-claude", _CLAUDES, [said], said_by=by, timestamp=when)
        case {"prompt_template": str(text), "name": str(project)}:
            said, when = blocks(text, project), value.get("updated_at")
            yield from _all("from-claude", "instructions for Claude", said, timestamp=when)
        case {"memory": text}:
            fields = {"timestamp": value.get("updated_at") or value.get("created_at")}
            fields |= {"tags": _texts(value.get("categories")), "said_by": "agent"}
            yield from _all("from-mem0", "memories of mem0", _texts(text), **fields)
        case {"name": str(name), "entityType": kind, "observations": texts}:
            said, tags = (f"{name}: {text}" for text in _texts(texts)), _texts(kind)
            yield from _all("from-mcp-memory", "observations of MCP's server", said, tags=tags)
        case {"from": str(one), "relationType": str(verb), "to": str(other)}:
            said = [f"{one} {verb.replace('_', ' ')} {other}"]
            yield from _all("from-mcp-memory", "relations of MCP's server", said)


def _of_message(node: Any) -> Iterator[Entry]:
    match node:
        case {"message": {"recipient": "bio", "content": {"parts": parts}, **about}}:
            fields = {"timestamp": _time(about), "said_by": "agent"}
            yield from _all("from-chatgpt", "memories saved by ChatGPT", _texts(parts), **fields)
        case {"message": {"metadata": {"user_context_message_data": {**told}}, **about}} | {
            "message": {"content": {"content_type": "user_editable_context", **told}, **about}
        }:  # as typed, or amid what ChatGPT tells itself
            texts = (_AROUND.sub(r"\1", text) for text in _texts(list(told.values())))
            said = _blocks(*texts)
            when = _time(about)
            yield from _all("from-chatgpt", "instructions for ChatGPT", said, timestamp=when)


def _time(message: dict[str, Any]) -> datetime | None:
    match message.get("create_time"):
        case (int() | float()) as seconds if 0 < seconds < time():
            return datetime.fromtimestamp(seconds, UTC)
    return None


def _all(tag: str, kind: str, texts: Iterable[str], **fields: Any) -> Iterator[Entry]:
    return (Entry("", {"content": text, **fields}, tag=tag, kind=kind) for text in texts)


def _blocks(*values: Any) -> Iterator[str]:
    return (block for text in _texts(values) for block in blocks(text))


def _texts(value: Any) -> list[str]:
    """The texts in `value`, or itself."""
    values = value if isinstance(value, list | tuple) else [value]
    return [text for text in values if isinstance(text, str) and text.strip()]
