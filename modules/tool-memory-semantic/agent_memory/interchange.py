"""Memories in files: what `export` writes and `import` reads.

The export is JSON Lines in UTF-8. The first line says what it is:

    {"format": "agent-memory", "version": 1, "agent": "sam", "exported": "…", "memories": 2}

and each other line is a memory, oldest first:

    {"id": "mem-a3f2b8c1", "timestamp": "…", "tags": ["database"], "content": "We chose …"}

`metadata`, an object of texts, follows where there is any. `timestamp` is RFC 3339. Vectors are
left out: the text is the truth, and the store that imports it makes its own. Without the first line
a file of such lines is read too; only `content` is needed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, NamedTuple

from memory_semantic import InputError
from memory_semantic.masking import mask_all
from memory_semantic.models import (
    MEMORY_ID,
    Memory,
    clean_metadata,
    clean_since,
    clean_tags,
    clean_text,
    new_memory_id,
    timestamp_text,
    utc_now,
)

from .output import memory_json

FORMAT = "agent-memory"
VERSION = 1


class ImportFileError(InputError):
    """A file that is not what it should be, with a sentence for each fault."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


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
    or a text on each line.

    `undated` is the time of those that have none, `tags` are given to all of them. Also returns
    how many credentials were masked. Raises ImportFileError, naming each place, if anything in the
    file cannot become a memory.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ImportFileError([f"{name} is not UTF-8 text."]) from None
    found: dict[str, Found] = {}
    faults, hidden = [], 0
    for place, fields in _entries(text, yaml_expected=name.endswith((".yaml", ".yml"))):
        try:
            if mask_secrets and isinstance(fields, dict):
                own = ("content", "tags", "metadata")
                masked = {name: mask_all(fields[name]) for name in own if name in fields}
                fields = {**fields, **{name: value for name, (value, _) in masked.items()}}
                hidden += sum(count for _, count in masked.values())
            memory = _memory(fields, agent, undated)
            memory.tags = _together(memory.tags, tags)
            text = clean_text(memory.content, "content")
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
    if faults:
        raise ImportFileError(faults)
    return list(found.values()), hidden


def _entries(text: str, yaml_expected: bool) -> Iterator[tuple[str, Any]]:
    start = text.lstrip()
    try:
        if start.startswith("{"):
            yield from _json_lines(text)
        elif start.startswith("[") and not yaml_expected:
            yield from _numbered(json.loads(text))
        elif yaml_expected or start.startswith(("memories:", "- id:")):
            yield from _yaml_entries(text)
        else:
            for number, line in enumerate(text.splitlines(), start=1):
                if line.strip():
                    yield f"line {number}", {"content": line}
    except RecursionError:
        raise ImportFileError(["It is nested too deeply to be memories."]) from None
    except json.JSONDecodeError as error:
        raise ImportFileError([f"line {error.lineno}: it is not JSON."]) from None


def _numbered(entries: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for number, fields in enumerate(entries, start=1):
        yield f"memory {number}", fields


def _json_lines(text: str) -> Iterator[tuple[str, Any]]:
    promised = None
    seen = 0
    for number, line in enumerate(text.split("\n"), start=1):  # not U+2028, which JSON allows
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except json.JSONDecodeError:
            raise ImportFileError([f"line {number}: it is not a whole JSON object."]) from None
        if isinstance(fields, dict) and "format" in fields and "content" not in fields:
            if fields["format"] != FORMAT or not isinstance(fields.get("version"), int):
                raise ImportFileError([f"line {number}: it is an export of something else."])
            if fields["version"] > VERSION:
                raise ImportFileError(
                    [f"The export has version {fields['version']}. Upgrade agent-memory."]
                )
            promised = fields.get("memories")
        else:
            seen += 1
            yield f"line {number}", fields
    if isinstance(promised, int) and seen < promised:
        raise ImportFileError([f"The file ends early: it holds {seen} of {promised} memories."])


def _yaml_entries(text: str) -> Iterator[tuple[str, Any]]:
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise ImportFileError([f"{place}it is not YAML."]) from None
    entries = content.get("memories") if isinstance(content, Mapping) else content
    if not isinstance(entries, list):
        raise ImportFileError(["It holds no list of memories."])
    yield from _numbered(
        [_from_dev_memory(fields) if isinstance(fields, dict) else fields for fields in entries]
    )


def _from_dev_memory(fields: dict[str, Any]) -> dict[str, Any]:
    """The category becomes a tag; what it kept as context, which has no place here, is added to
    the text, so that nothing is lost.
    """
    tags = fields.get("tags") or []
    if isinstance(tags, str):
        tags = [tags]
    if isinstance(tags, list):  # YAML has numbers and booleans where people meant words
        tags = [str(tag) for tag in (fields.get("category"), *tags) if tag is not None]
    content, context = fields.get("content"), fields.get("context")
    if isinstance(content, str) and isinstance(context, str) and context.strip():
        content = f"{content.strip()}\nContext: {context.strip()}"
    return {**fields, "content": content, "tags": tags}


def _memory(fields: Any, agent: str, undated: datetime) -> Memory:
    if not isinstance(fields, dict):
        raise InputError("it is not an object with a content.")
    own_id = fields.get("id")
    if not (isinstance(own_id, str) and MEMORY_ID.fullmatch(own_id)):
        own_id = new_memory_id()
    content: Any = fields.get("content")
    return Memory(
        id=own_id,
        agent_id=agent,
        content=content,  # as it came: an earlier version may have kept it so
        tags=clean_tags(fields.get("tags")),
        timestamp=_time(fields.get("timestamp"), undated),
        metadata=_metadata(fields.get("metadata")),
    )


def _metadata(value: Any) -> dict[str, str]:
    try:
        return clean_metadata(value)
    except InputError:  # not ours: other programs call all kinds of things metadata
        return {}


def _together(tags: Sequence[str], others: Sequence[str]) -> list[str]:
    return clean_tags(list(dict.fromkeys([*tags, *clean_tags(others)])))


def _time(value: Any, undated: datetime) -> datetime:
    if isinstance(value, date) and not isinstance(value, datetime):  # YAML has bare dates
        value = datetime.combine(value, time())
    try:
        return clean_since(value) or undated
    except InputError:
        raise InputError(
            "its timestamp is not an ISO 8601 date or time, in UTC of the years 1 to 9999."
        ) from None
