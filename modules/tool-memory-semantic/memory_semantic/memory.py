"""What a memory is."""

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

# Ids had 8 digits before 2.0, and stay valid.
MEMORY_ID = re.compile(r"mem-(?:[0-9a-f]{12}|[0-9a-f]{8})")


def new_memory_id() -> str:
    """A fresh id: `mem-` and 12 hexadecimal digits."""
    # Two of 100,000 memories share one in 2 of 100,000 stores: nobody looks whether it is free.
    return f"mem-{secrets.token_hex(6)}"


def utc_now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)


def as_utc(moment: datetime) -> datetime:
    """`moment` in UTC; a naive one is. Raises OverflowError outside the years 1 to 9999."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def timestamp_text(moment: datetime) -> str:
    """The one stored form of a time: UTC, RFC 3339, microseconds."""
    return as_utc(moment).isoformat(timespec="microseconds")


def point_id(content: str) -> UUID:
    """The key of a text in the store, by its SHA-256: the same text is the same point by
    construction, and a text that was damaged on disk no longer fits its key.
    """
    return UUID(bytes=sha256(content.encode()).digest()[:16])


class Memory(BaseModel):
    """One remembered text. `timestamp` is when it was last stored, in UTC, `metadata` what was told
    of it then. `score` is set by a search only; `embedding` is empty on what it finds.
    """

    id: str = Field(default_factory=new_memory_id)
    agent_id: str
    content: str
    timestamp: datetime = Field(default_factory=utc_now)
    embedding: list[float] = Field(default_factory=list, repr=False)
    tags: list[str] = Field(default_factory=list)
    score: float | None = None
    metadata: dict[str, str] = Field(default_factory=dict)

    @field_validator("timestamp")
    @classmethod
    def _in_utc(cls, moment: datetime) -> datetime:
        return as_utc(moment)

    @property
    def key(self) -> UUID:
        """The key of its text in the store."""
        return point_id(self.content)

    @classmethod
    def from_storage(cls, payload: Mapping[str, Any]) -> "Memory":
        """The memory that `dict_for_storage` made `payload` of. Raises ValueError if it is none."""
        if not payload.keys() >= {"id", "timestamp"}:  # which would be new ones
            raise ValueError("It has no id, or no time.")
        return cls.model_validate(payload)

    def dict_for_storage(self) -> dict[str, Any]:
        """The memory as the engine keeps it beside the vector."""
        payload = {
            "id": self.id,
            "agent_id": self.agent_id,
            "content": self.content,
            "timestamp": timestamp_text(self.timestamp),
            "tags": self.tags,
        }
        return {**payload, "metadata": self.metadata} if self.metadata else payload
