"""What a memory is, and the rules for what goes in and comes out."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from .errors import InputError
from .plaintext import normal, without_tags

# Limits of a memory, as the tool descriptions state them. 10,000 characters of English are about
# 2,500 tokens, well inside the 8,192 that embedding models read.
MAX_CONTENT_CHARS = 10_000
MAX_TAGS = 20
MAX_TAG_CHARS = 50
# What is told of a memory beside it, so that a person sees where it comes from: what stored it, the
# session, the project, its kind. Short, because every answer of the engine carries it.
MAX_METADATA = 10
MAX_METADATA_CHARS = 200
# The tag of a memory that was stored without anyone asking for it. Whoever stores the text as well
# takes it off, so that it is not forgotten with the others.
CAPTURED = "captured"
# One write holds the lock and every vector at once: a thousand are about 50 MB of Python floats.
MAX_BATCH = 1_000

# Limits of an answer: five memories are what a question usually needs; twenty, and 10,000
# characters of content in all, are what a context window can bear.
DEFAULT_RESULTS = 5
MAX_RESULTS = 20
MAX_ANSWER_CHARS = 10_000

# Ranking (V1 design, section 6): a memory younger than seven days counts a fifth more.
RECENCY_WINDOW = timedelta(days=7)
RECENCY_BOOST = 1.2
# With the built-in model the words that question and memory share count beside the meaning. The
# weight is the one that found most on the tuning part of benchmarks/recall.
LEXICAL_WEIGHT = 0.3

# Names and defaults of the embedding models.
DEFAULT_MODEL = "text-embedding-3-small"
LOCAL_MODEL = "local"
# The value of qdrant_url that stands for this machine.
HERE = LOCAL_MODEL
# Vector lengths: the built-in model's, and those in OpenAI's documentation. Other models tell
# theirs with the first vector.
DIMENSIONS = {
    LOCAL_MODEL: 256,
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}

# Patience. A try at the embeddings service may take 10 s, three tries are made, and a service may
# ask for at most 10 s between them. The file lock is polled often, because it is held for about
# 30 ms.
EMBEDDING_TRY_SECONDS = 10.0
EMBEDDING_TRIES = 3
EMBEDDING_MAX_WAIT_SECONDS = 10.0
# Inputs per request: 32 texts of 8,192 tokens stay below OpenAI's 300,000 tokens a request.
EMBEDDING_BATCH = 32
# The answer to such a request is below 3 MB; one that never ends must not fill the memory.
EMBEDDING_MAX_BYTES = 32_000_000
LOCK_SECONDS = 30.0
LOCK_POLL_SECONDS = 0.005
# Calls that wait or work at once in this process; more queue up behind them.
WORKERS = 16
# The engine writes through sparse maps, and a full disk under a map kills the process: stop early.
MIN_FREE_BYTES = 64 * 1024 * 1024
# What an open store takes, beside twice the size of its files, which the engine maps and we do: the
# engine's threads and the backtraces of its errors, and what it opens while it loads.
ENGINE_BYTES = 128 * 1024 * 1024
ENGINE_DESCRIPTORS = 16
# The size of a new store's files, all of which are holes.
NEW_STORE_BYTES = 128 * 1024 * 1024
# What loading the built-in model takes, and for each processor the threads that come with it.
LOCAL_MODEL_BYTES = 192 * 1024 * 1024
LOCAL_MODEL_THREAD_BYTES = 16 * 1024 * 1024


def utc_now() -> datetime:
    """The current time, aware, in UTC. The default clock wherever one can be given."""
    return datetime.now(UTC)


MEMORY_ID = re.compile(r"mem-[0-9a-f]{8}")


def new_memory_id() -> str:
    """A fresh id for a memory, `mem-` and 8 hexadecimal digits; uniqueness is the store's job."""
    return f"mem-{secrets.token_hex(4)}"


def point_id(content: str) -> UUID:
    """The key of a text in the store: the first 128 bits of its SHA-256.

    The same text is the same point by construction, and a text that was damaged on disk no longer
    fits its key.
    """
    return UUID(bytes=sha256(content.encode()).digest()[:16])


def timestamp_text(moment: datetime) -> str:
    """The one stored form of a time: UTC, RFC 3339, microseconds. Naive times count as UTC."""
    return _as_utc(moment).isoformat(timespec="microseconds")


@dataclass(kw_only=True)
class Memory:
    """One remembered text.

    `timestamp` is when it was last stored, aware and in UTC. `embedding` is empty on memories that
    come out of a store. `score` is set by a search only; `ranking` says how. `metadata` is what
    was told of it when it was last stored.
    """

    id: str = field(default_factory=new_memory_id)
    agent_id: str
    content: str
    timestamp: datetime = field(default_factory=utc_now)
    embedding: list[float] = field(default_factory=list, repr=False)
    tags: list[str] = field(default_factory=list)
    score: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timestamp = _as_utc(self.timestamp)

    @classmethod
    def from_storage(cls, payload: Mapping[str, Any]) -> "Memory":
        """The memory that `dict_for_storage` made `payload` of. Raises ValueError if it is none."""
        import msgspec  # not at mount

        if not payload.keys() >= {"id", "timestamp"}:  # which would be new ones
            raise ValueError("It has no id, or no time.")
        return msgspec.convert(payload, cls)

    def dict_for_storage(self) -> dict[str, Any]:
        """The memory as the engine keeps it beside the vector: everything but embedding, score."""
        payload = {
            "id": self.id,
            "agent_id": self.agent_id,
            "content": self.content,
            "timestamp": timestamp_text(self.timestamp),
            "tags": self.tags,
        }
        return {**payload, "metadata": self.metadata} if self.metadata else payload


class Entry(NamedTuple):
    """A text to be stored, with tags: by default as a new memory of this moment.

    If the text is not known, but one of `former` is, which versions before 1.3 made of it, that
    one is meant, and stays as it is.
    """

    text: str
    tags: list[str]
    id: str | None = None
    timestamp: datetime | None = None
    former: tuple[str, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, memory: Memory) -> "Entry":
        """A stored memory, to be stored elsewhere exactly as it is."""
        return cls(
            memory.content, memory.tags, memory.id, memory.timestamp, metadata=memory.metadata
        )


def clean_text(value: object, name: str) -> str:
    """`value` as it is stored, if it is a text of 1 to 10,000 characters: see `plaintext.normal`;
    `name` is what errors call it. Raises InputError as `trimmed_text` does.
    """
    return trimmed_text(normal(value) if isinstance(value, str) else value, name)


def trimmed_text(value: object, name: str) -> str:
    """`value` trimmed, if it is a text of 1 to 10,000 characters; `name` is what errors call it.

    Raises InputError otherwise, also when nothing in it is visible or it is not valid Unicode.
    """
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text, not {_kind(value)}.")
    text = value.strip()
    if len(text) > MAX_CONTENT_CHARS:
        raise InputError(
            f"{name} has {len(text):,} characters; at most {MAX_CONTENT_CHARS:,} are possible. "
            "Shorten it or split it."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} is not valid Unicode: it holds half a surrogate pair.") from None
    if not any(char.isprintable() and not char.isspace() for char in text):
        raise InputError(f"{name} is empty: give it at least one visible character.")
    return text


def clean_tags(value: object, clean: Callable[[object, str], str] = clean_text) -> list[str]:
    """Tags as `clean` makes them, lower-cased and without repeats, in order; None means none.

    Raises InputError for anything but a list of at most 20 texts of 1 to 50 characters.
    """
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f'tags must be a list of texts, such as ["database"], not {_kind(value)}.')
    if len(value) > MAX_TAGS:  # before any of them is looked at
        raise InputError(f"{len(value):,} tags are too many; at most {MAX_TAGS} are possible.")
    tags: dict[str, None] = {}
    for item in value:
        tag = clean(item, "a tag").lower()
        if len(tag) > MAX_TAG_CHARS:
            raise InputError(f"A tag has {len(tag)} characters; at most {MAX_TAG_CHARS} may be.")
        tags[tag] = None
    return list(tags)


def clean_metadata(value: object) -> dict[str, str]:
    """What is told of a memory; None means nothing.

    Raises InputError for anything but a dict of at most 10 texts of 1 to 200 characters, under
    names of 1 to 50.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > MAX_METADATA:
        raise InputError(f"metadata must be a dict of at most {MAX_METADATA} texts.")
    cleaned: dict[str, str] = {}
    for name, text in value.items():
        name, text = clean_text(name, "a name in metadata"), clean_text(text, "a text in metadata")
        if len(name) > MAX_TAG_CHARS or len(text) > MAX_METADATA_CHARS:
            raise InputError(
                f"A name in metadata may have {MAX_TAG_CHARS} characters, a text "
                f"{MAX_METADATA_CHARS}."
            )
        cleaned[name] = text
    return cleaned


def clean_items(items: object) -> list[Entry]:
    """Texts to remember, each with its tags, from texts, (text, tags) and (text, tags, metadata).

    Raises InputError for anything else, and for a text or a tag that is not possible.
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise InputError("Give a list of texts, or of (text, tags) pairs.")
    cleaned = []
    for item in items:
        given = item if isinstance(item, tuple) and len(item) in (2, 3) else (item, None)
        cleaned.append(_entry(*given))
    return cleaned


def clean_memory(memory: Memory) -> Entry:
    """A memory to be stored with its own id and time. Raises InputError for one that cannot be."""
    entry = _entry(memory.content, memory.tags, memory.metadata)
    return entry._replace(id=clean_id(memory.id), timestamp=memory.timestamp)


def _entry(content: Any, tags: object, metadata: object = None) -> Entry:
    text = clean_text(content, "content")
    forms = (without_tags(content).strip(), text.replace("\n", "\r\n"))
    former = tuple(form for form in forms if form != text)
    return Entry(text, clean_tags(tags), former=former, metadata=clean_metadata(metadata))


def clean_id(value: object) -> str:
    """A memory's id. Raises InputError for what cannot be one."""
    if not isinstance(value, str) or not MEMORY_ID.fullmatch(value):
        raise InputError("A memory's id looks like mem-a3f2b8c1.")
    return value


def clean_local(value: str) -> str:
    """`value` trimmed, and `local` however it is written: nobody who writes `Local` means the
    name of something elsewhere.
    """
    value = value.strip()
    return value.lower() if value.lower() == LOCAL_MODEL else value


def clean_base_url(
    value: str | None, name: str = "base_url", example: str = "http://localhost:11434/v1"
) -> str | None:
    """The address of a service, None or blank meaning none; `name` is what errors call it. Raises
    InputError for no address, and for one with a password in it, which would end in logs.
    """
    if not (value and value.strip()):
        return None
    try:
        parts = urlsplit(value.strip())  # which drops line breaks inside
        whole = value.strip().isprintable() and " " not in value.strip()
        valid = (
            whole
            and parts.scheme in ("http", "https")
            and parts.hostname
            and "@" not in parts.netloc
        )
        valid = valid and parts.port != 0  # raises ValueError for one that is none
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"{name} must be an address such as {example}, without a password.")
    return value.strip()


def clean_limit(value: object, maximum: int = MAX_RESULTS) -> int:
    """How many results: `maximum` for any whole number above it. InputError below 1."""
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not isinstance(value, int | float) or not whole or value < 1:
        raise InputError(f"limit must be a whole number from 1 to {maximum}.")
    return int(min(value, maximum))


def clean_since(value: object) -> datetime | None:
    """A moment in UTC from ISO 8601 text or a datetime, naive ones being UTC; None stays None.

    Raises InputError for anything else.
    """
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            return _as_utc(value)
        if isinstance(value, str):
            return _as_utc(datetime.fromisoformat(value.strip()))
    except (ValueError, OverflowError):
        pass
    raise InputError(
        "since must be an ISO 8601 date or time, such as 2026-01-31 or 2026-01-31T09:00:00Z."
    )


def _as_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
