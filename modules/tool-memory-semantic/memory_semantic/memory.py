"""What a memory is."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .remembered import Remembered, Speaker, as_utc, new_memory_id, timestamp_text, utc_now


class Memory(BaseModel, Remembered):
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
