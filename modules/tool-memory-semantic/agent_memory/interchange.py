"""Memories in files: what `export` writes and `import` reads.

The export is JSON Lines in UTF-8. The first line says what it is:

    {"format": "agent-memory", "version": 1, "agent": "sam", "exported": "…", "memories": 2}

and each other line is a memory, oldest first:

    {"id": "mem-a3f2b8c1d4e5", "timestamp": "…", "tags": ["database"], "content": "We chose …"}

`metadata`, an object of texts, follows where there is any. `timestamp` is RFC 3339. Vectors are
left out: the text is the truth, and the store that imports it makes its own. Without the first line
a file of such lines is read too; only `content` is needed.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from memory_semantic import InputError
from memory_semantic.check import clean_metadata, clean_since, clean_tags, clean_text
from memory_semantic.masking import mask_all, mask_given
from memory_semantic.memory import MEMORY_ID, Memory, new_memory_id, timestamp_text, utc_now

from .formats import FORMAT, VERSION, ImportFileError, entries
from .output import memory_json


def export_lines(agent: str, memories: Sequence[Memory]) -> Iterator[str]:
    """The lines of an export of `memories`, without their line breaks."""
    header = {"format": FORMAT, "version": VERSION, "agent": agent}
    header |= {"exported": timestamp_text(utc_now()), "memories": len(memories)}
    yield json.dumps(header, ensure_ascii=False)
    for memory in memories:
        yield json.dumps(memory_json(memory), ensure_ascii=False)


class Found(NamedTuple):
    """A memory in a file, and where in it. If it is not `dated`, its time is that of the file."""

    place: str
    memory: Memory
    dated: bool


def read(
    data: bytes,
    name: str,
    agent: str,
    undated: datetime,
    tags: Sequence[str] = (),
    *,
    mask_secrets: bool,
) -> tuple[list[Found], int]:
    """The memories in a file, each text once: an export, other JSON, YAML of the dev-memory bundle,
    or a text on each line; packed with gzip or not, in UTF-8, or in UTF-16 with its mark.

    `undated` is the time of those that have none, `tags` are given to all of them. Also returns
    how many credentials were masked. Raises ImportFileError, naming each place, if anything in the
    file cannot become a memory.
    """
    found: dict[str, Found] = {}
    faults, hidden = [], 0
    try:
        for place, fields in entries(data, name):
            try:
                if mask_secrets and isinstance(fields, dict):
                    by = {"content": mask_given, "tags": mask_given, "metadata": mask_all}
                    masked = {name: by[name](fields[name]) for name in by if name in fields}
                    fields = {**fields, **{name: value for name, (value, _) in masked.items()}}
                    hidden += sum(count for _, count in masked.values())
                text, memory = _memory(fields, agent, undated)
                memory.tags = _together(memory.tags, tags)
                same = found.get(text)
                if same:
                    same.memory.tags = _together(same.memory.tags, memory.tags)
                    if memory.timestamp > same.memory.timestamp:
                        same.memory.timestamp = memory.timestamp
                        same.memory.metadata = memory.metadata
                else:
                    found[text] = Found(place, memory, bool(fields.get("timestamp")))
            except InputError as error:
                faults.append(f"{place}: {error}")
    except RecursionError:
        raise ImportFileError(["It is nested too deeply to be memories."]) from None
    if faults:
        raise ImportFileError(faults)
    return list(found.values()), hidden


def _memory(fields: Any, agent: str, undated: datetime) -> tuple[str, Memory]:
    """The text as it is stored, and the memory."""
    if not isinstance(fields, dict):
        raise InputError("it is not an object with a content.")
    own_id = fields.get("id")
    if not (isinstance(own_id, str) and MEMORY_ID.fullmatch(own_id)):
        own_id = new_memory_id()
    content: Any = fields.get("content")
    text = clean_text(content, "content")
    memory = Memory(
        id=own_id,
        agent_id=agent,
        content=content,  # as it came: an earlier version may have kept it so
        tags=clean_tags(fields.get("tags")),
        timestamp=_time(fields.get("timestamp"), undated),
        metadata=_metadata(fields.get("metadata")),
    )
    return text, memory


def _metadata(value: Any) -> dict[str, str]:
    try:
        return clean_metadata(value)
    except InputError:  # not ours: other programs call all kinds of things metadata
        return {}


def _together(tags: Sequence[str], others: Sequence[str]) -> list[str]:
    return clean_tags(list(dict.fromkeys([*tags, *clean_tags(others)])))


def _time(value: Any, undated: datetime) -> datetime:
    try:
        return clean_since(value) or undated
    except InputError:
        raise InputError(
            "its timestamp is not an ISO 8601 date or time, in UTC of the years 1 to 9999."
        ) from None
