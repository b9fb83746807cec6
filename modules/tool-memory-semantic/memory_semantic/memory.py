"""What a memory is."""

import re
import secrets
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .identity import AGENT_ID
from .limits import COPIED_FROM

MEMORY_ID = re.compile(r"mem-[0-9a-f]{12}")
# The beginning of an id, which is enough where no other memory has it. With four digits, two of a
# hundred memories share theirs in one of 14 stores; fewer digits could be a word.
ID_BEGINNING = re.compile(r"mem-[0-9a-f]{4,12}")


def new_memory_id() -> str:
    """A fresh id: `mem-` and 12 hexadecimal digits."""
    # In 2 of 100,000 stores of 100,000 memories, two share an id: too rare to check for.
    return f"mem-{secrets.token_hex(6)}"


def shortened(ids: Collection[str], among: Collection[str]) -> dict[str, str]:
    """For each of `ids` the shortest beginning, of `mem-` and 4 digits or more, that no other id
    `among` the others has.
    """
    lengths = range(len("mem-") + 4, len("mem-") + 13)
    number = Counter(id[:length] for id in {*ids, *among} for length in lengths)
    return {id: next((id[:n] for n in lengths if number[id[:n]] == 1), id) for id in ids}


def utc_now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)


def as_utc(moment: datetime) -> datetime:
    """`moment` in UTC; naive ones are taken as UTC. Raises OverflowError beyond years 1 to 9999."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def timestamp_text(moment: datetime) -> str:
    """The one stored form of a time: UTC, RFC 3339, microseconds."""
    return as_utc(moment).isoformat(timespec="microseconds")


def point_id(content: str) -> UUID:
    """The key of a text in the store, by its SHA-256: the same text is the same point by
    construction, and a text that was damaged on disk no longer fits its key.
    """
    return UUID(bytes=point_bytes(content))


def point_bytes(content: str) -> bytes:
    """The 16 bytes of `point_id`."""
    return sha256(content.encode()).digest()[:16]


# Who said a text, as the session showed when it was stored: the user, in these very words or in
# those of the quote; a tool or a page that it read; else the agent.
Speaker = Literal["user", "tool", "agent"]


class Memory(BaseModel):
    """One remembered text. `timestamp` is when it was last stored, in UTC; `metadata` is what was
    said about it then. A `pinned` one is a rule that the user gave. `replaced_by` is the `key` of
    the text that corrects this one, if any does; at `expires`, if set, it stops holding by itself.
    `said_by` is None if no session stored it, but a command or an import; `quote` is what of the
    user's words it rests on, "" if that is its own text, or it is not the user's.
    Only a search sets `score`; `similarity`, which is that without boosts; how well it fits, by
    `limits.LEAST_FIT` and what follows there: 1 where that is unknown; and `newer`, the id of the
    latest other result that may say the same of a later time. It leaves `embedding` empty.
    What a newer version has added to a memory is kept as it is, in `model_extra`.
    """

    model_config = ConfigDict(extra="allow")

    id: str = Field(default_factory=new_memory_id)
    agent_id: str
    content: str
    timestamp: datetime = Field(default_factory=utc_now)
    embedding: list[float] = Field(default_factory=list, repr=False)
    tags: list[str] = Field(default_factory=list)
    score: float | None = None
    similarity: float = 0.0
    fit: float = 1.0
    newer: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    pinned: bool = False
    replaced_by: UUID | None = None
    expires: datetime | None = None
    said_by: Speaker | None = None
    quote: str = ""

    @field_validator("timestamp", "expires")
    @classmethod
    def _in_utc(cls, moment: datetime | None) -> datetime | None:
        return moment and as_utc(moment)

    @property
    def key(self) -> UUID:
        """The key of its text in the store."""
        return point_id(self.content)

    @property
    def copied_from(self) -> str | None:
        """The agent whose memory this is a copy of, if its metadata name one that can exist: they
        may come from anybody's file.
        """
        source = self.metadata.get(COPIED_FROM, "")
        return source if AGENT_ID.fullmatch(source) else None

    @property
    def project_id(self) -> str | None:
        """The project in which it holds (see `identity.project_of`); None if in every one."""
        return self.metadata.get("project_id")

    @property
    def sized(self) -> str:
        """What an error calls it: `mem-a3f2b8c1d4e5 (9,812 characters)`."""
        return f"{self.id} ({len(self.content):,} characters)"

    @property
    def of_user(self) -> bool:
        """Whether only the user may correct or end it: the user said it, or pinned it."""
        return self.pinned or self.said_by == "user"

    @property
    def by_user(self) -> bool:
        """Whether storing it is an act of the user: the user said it, or ran a command."""
        return self.said_by in (None, "user")

    def expired(self, now: datetime) -> bool:
        """Whether it has stopped holding by `now`."""
        return self.expires is not None and self.expires <= now

    @classmethod
    def from_storage(cls, payload: Mapping[str, Any]) -> "Memory":
        """The inverse of `dict_for_storage`. Raises ValueError if `payload` is not a memory."""
        if not payload.keys() >= {"id", "timestamp"}:  # else they would default to new ones
            raise ValueError("It has no id, or no time.")
        return cls.model_validate(payload)

    def dict_for_storage(self) -> dict[str, Any]:
        """The memory as the engine keeps it beside the vector."""
        payload = {
            **(self.model_extra or {}),
            "id": self.id,
            "agent_id": self.agent_id,
            "content": self.content,
            "timestamp": timestamp_text(self.timestamp),
            "tags": self.tags,
        }
        payload |= {"metadata": self.metadata} if self.metadata else {}
        payload |= {"pinned": True} if self.pinned else {}
        payload |= {"said_by": self.said_by} if self.said_by else {}
        payload |= {"quote": self.quote} if self.quote else {}
        payload |= {"expires": timestamp_text(self.expires)} if self.expires else {}
        return payload | ({"replaced_by": str(self.replaced_by)} if self.replaced_by else {})
