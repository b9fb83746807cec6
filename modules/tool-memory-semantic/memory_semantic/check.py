"""The rules for input: texts, tags, ids, limits, times, addresses."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from .errors import UNCHANGED, InputError
from .limits import (
    BUILT_IN_MODELS,
    MAX_BATCH,
    MAX_CONTENT_CHARS,
    MAX_METADATA,
    MAX_METADATA_CHARS,
    MAX_QUOTE_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from .memory import Memory
from .plaintext import normal
from .remembered import ID_BEGINNING, MEMORY_ID, as_utc
from .times import moment

Tags = Sequence[str] | None
# A text to remember: alone, with tags, or with tags and metadata.
Item = str | tuple[str, Tags] | tuple[str, Tags, Mapping[str, str] | None]
# What masks a text, tags or metadata, and says how many credentials it masked.
Mask = Callable[[Any], tuple[Any, int]]


# How many levels of what a newer version has added are kept: the engine reads 126.
_DEEPEST = 100


class NewMemory(Memory):
    """A memory to be stored. If it is not `dated`, a known text keeps its time; `masked` says how
    many credentials were masked.
    """

    dated: bool = True
    masked: int = 0


def clean_text(value: object, name: str) -> str:
    """`value` in its stored form (`plaintext.normal`); `name` is what errors call it. Raises
    InputError for anything but a text of 1 to 10,000 characters, one of them visible, in valid
    Unicode.
    """
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text, not {_kind(value)}.")
    text = normal(value)
    if len(text) > MAX_CONTENT_CHARS:
        raise InputError(
            f"{name} has {len(text):,} characters; at most {MAX_CONTENT_CHARS:,} are allowed. "
            "Shorten it or split it."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{name} has half a character, such as half an emoji: remove it."
        ) from None
    if not any(char.isprintable() and not char.isspace() for char in text):
        raise InputError(f"{name} is empty: give it at least one visible character.")
    return text


def clean_tags(value: object) -> list[str]:
    """Tags, clean, in lower case and without repeats; None means none. Raises InputError for
    anything but a list of at most 20 texts of 1 to 50 characters.
    """
    return list(dict.fromkeys(tag.lower() for tag in _tags(value)))


def _tags(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f'tags must be a list of texts, such as ["database"], not {_kind(value)}.')
    if len(value) > MAX_TAGS:  # before looking at any of them
        raise InputError(f"{len(value):,} tags are too many; at most {MAX_TAGS} are allowed.")
    tags = [clean_text(item, "a tag") for item in value]
    longest = max(map(len, tags), default=0)
    if longest > MAX_TAG_CHARS:
        raise InputError(f"A tag has {longest} characters; {MAX_TAG_CHARS} are allowed.")
    return tags


def clean_metadata(value: object) -> dict[str, str]:
    """The metadata of a memory; None means none. Raises InputError for anything but a dict of at
    most 10 texts of 1 to 200 characters, under names of 1 to 50.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > MAX_METADATA:
        raise InputError(f"metadata must be a dict of at most {MAX_METADATA} texts.")
    cleaned = {
        clean_text(name, "a name in metadata"): clean_text(text, "a text in metadata")
        for name, text in value.items()
    }
    if any(len(n) > MAX_TAG_CHARS or len(t) > MAX_METADATA_CHARS for n, t in cleaned.items()):
        raise InputError(
            f"In metadata, a name may have up to {MAX_TAG_CHARS} characters, a text up to "
            f"{MAX_METADATA_CHARS}."
        )
    return cleaned


def clean_items(items: object, agent: str, mask: Mask) -> list[NewMemory]:
    """Memories of `agent` from texts, (text, tags) and (text, tags, metadata), each masked with
    `mask`. Raises InputError for anything else.
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise InputError("Give a list of texts, or of (text, tags) pairs.")
    memories = []
    for item in items:
        given = item if isinstance(item, tuple) and len(item) in (2, 3) else (item, None)
        memories.append(_new_memory(agent, mask, *given))
    return _batch(memories)


def clean_memories(memories: Iterable[Memory], agent: str, mask: Mask) -> list[NewMemory]:
    """`memories` for `agent`, with their whole ids and times; the rest as in `clean_items`."""
    cleaned = []
    for memory in memories:
        if not MEMORY_ID.fullmatch(memory.id):
            raise InputError(f"A memory's whole id looks like mem-a3f2b8c1d4e5. {UNCHANGED}")
        new = _new_memory(agent, mask, memory.content, memory.tags, memory.metadata)
        new.id, new.timestamp = memory.id, memory.timestamp
        new.dated = "timestamp" in memory.model_fields_set
        new.pinned, new.expires, new.said_by = memory.pinned, memory.expires, memory.said_by
        new.quote, _ = clean_quote(memory.quote or None, mask)
        new.replaced_by = None if memory.replaced_by == new.key else memory.replaced_by
        cleaned.append(new.model_copy(update=clean_added(memory.model_extra)))
    return _batch(cleaned)


def clean_added(added: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a newer version has added to a memory, with 15 digits of each fraction. Raises
    InputError for what the engine would not keep as it is: numbers that are not finite, need more
    than 64 bits or are very large or small, deep nesting, long texts, and invalid Unicode.
    """

    def whole(digits: str) -> int:
        if not -(2**63) <= int(digits) < 2**63:
            raise ValueError
        return int(digits)

    def rounded(digits: str) -> float:  # the engine changes further digits
        number = float(f"{float(digits):.15g}")
        if number and not 1e-8 <= abs(number) < 1e15:
            raise ValueError
        return number

    try:
        text = json.dumps(added or {}, allow_nan=False, ensure_ascii=False)
        text.encode()
        kept = json.loads(text, parse_int=whole, parse_float=rounded)
        if len(text) > MAX_CONTENT_CHARS or _depth(kept) > _DEEPEST:
            raise ValueError
        return kept
    except (TypeError, ValueError, RecursionError):
        raise InputError("it has a field of a newer version that cannot be kept here.") from None


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def memory_from(
    fields: object, agent: str, tags: Tags, mask: Mask, newer: bool
) -> tuple[Memory, int]:
    """See `MemoryStorage.memory_from`; `mask` masks what is given."""
    if not isinstance(fields, Mapping):
        raise InputError("it is not an object with a content.")
    metadata: dict[str, str] = {}
    with suppress(InputError):  # other programs call all kinds of things metadata
        metadata = clean_metadata(fields.get("metadata"))
    labels = dict.fromkeys([*_tags(fields.get("tags")), *clean_tags(tags)])
    memory = _new_memory(agent, mask, fields.get("content"), list(labels), metadata)
    if time := clean_time(fields.get("timestamp"), "its timestamp"):
        memory.timestamp = time
    own_id, said_by = fields.get("id"), fields.get("said_by")
    if isinstance(own_id, str) and MEMORY_ID.fullmatch(own_id):
        memory.id = own_id
    memory.pinned = fields.get("pinned") is True
    memory.said_by = said_by if said_by in ("user", "tool", "agent") else None
    in_quote = 0
    with suppress(InputError):  # other programs may mean something else by these
        if memory.said_by == "user":
            memory.quote, in_quote = clean_quote(fields.get("quote"), mask)
    with suppress(InputError):
        memory.expires = clean_time(fields.get("expires"), "expires", end=True)
    with suppress(ValueError):
        memory.replaced_by = UUID(str(fields.get("replaced_by")))
    unknown = {name: value for name, value in fields.items() if name not in NewMemory.model_fields}
    added, number = mask(clean_added(unknown if newer else None))
    return memory.model_copy(update=added), memory.masked + in_quote + number


def clean_quote(value: object, mask: Mask) -> tuple[str, int]:
    """The first 300 characters of what the user said, masked with `mask`, and how many credentials
    were masked; None means nothing. Raises InputError for anything but a text.
    """
    text = "" if value is None else clean_text(value, "quote")
    masked, number = mask(text)
    return masked[:MAX_QUOTE_CHARS], number


def _batch(memories: list[NewMemory]) -> list[NewMemory]:
    if len(memories) > MAX_BATCH:
        raise InputError(f"{len(memories):,} memories at once; at most {MAX_BATCH:,} are allowed.")
    return memories


def _new_memory(
    agent: str, mask: Mask, content: Any, tags: object, metadata: object = None
) -> NewMemory:
    # Every text comes into a store through here. In lower case, a credential may look like a word.
    text, in_text = mask(clean_text(content, "content"))
    labels, in_labels = mask(_tags(tags))
    about, in_about = mask(clean_metadata(metadata))
    return NewMemory(
        agent_id=agent,
        content=text,
        tags=clean_tags(labels),
        metadata=about,
        masked=in_text + in_labels + in_about,
    )


def clean_expiry(value: object, now: datetime) -> datetime | None:
    """When a memory expires: see `clean_time`. Raises InputError unless it is after `now`."""
    expires = clean_time(value, "expires", end=True)
    if expires and expires <= now:
        raise InputError("expires must be a time in the future.")
    return expires


def clean_id(value: object) -> str:
    """A memory's id or its beginning, with or without `mem-`, in its stored form. Raises InputError
    for anything else.
    """
    text = value.strip().lower() if isinstance(value, str) else ""
    memory_id = f"mem-{text.removeprefix('mem-')}"
    if not ID_BEGINNING.fullmatch(memory_id):
        raise InputError(
            "A memory's id looks like mem-a3f2b8c1d4e5; its beginning is enough, if that is no "
            "shorter than mem-a3f2.",
            UNCHANGED,
        )
    return memory_id


def clean_ids(value: object) -> list[str]:
    """The ids of memories, as in `clean_id`. Raises InputError for anything but a list of them."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError("Give a list of ids.")
    return [clean_id(each) for each in value]


def clean_local(value: str) -> str:
    """`value` trimmed, and a name of ours in lower case: no other model is called `Local`."""
    value = value.strip()
    return value.lower() if value.lower() in BUILT_IN_MODELS else value


def clean_base_url(
    value: str | None, name: str = "base_url", example: str = "http://localhost:11434/v1"
) -> str | None:
    """The address of a service, None or blank meaning none; `name` is what errors call it. Raises
    InputError for anything else, and for a password in it, which would end up in logs.
    """
    address = (value or "").strip()
    if not address:
        return None
    with suppress(ValueError):  # from an invalid host or port
        parts = urlsplit(address)  # this drops line breaks inside
        whole = address.isprintable() and " " not in address and "@" not in parts.netloc
        if whole and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return address
    raise InputError(f"{name} must be an address such as {example}, without a password.")


def clean_limit(value: object, maximum: int | None) -> int:
    """How many results: `value`, but at most `maximum`. Raises InputError unless it is a whole
    number of 1 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 or value < 1:
        allowed = f"from 1 to {maximum}" if maximum else "of 1 or more"
        raise InputError(f"limit must be a whole number {allowed}.")
    return int(min(value, maximum or value))


def clean_time(value: object, name: str, *, end: bool = False) -> datetime | None:
    """A moment in UTC from ISO 8601 text or a datetime, naive ones taken as UTC; None stays None.
    A bare date is its beginning, or its `end`. `name` is what errors call it. Raises InputError for
    anything else.
    """
    if value is None:
        return None
    with suppress(ValueError, OverflowError):
        if isinstance(value, str):
            return moment(value, UTC, end=end)
        if isinstance(value, datetime):
            return as_utc(value)
    raise InputError(
        f"{name} must be an ISO 8601 date or time in the years 1 to 9999 (UTC), such as "
        "2026-01-31 or 2026-01-31T09:00:00Z."
    )


def _kind(value: object) -> str:
    return "missing" if value is None else type(value).__name__
