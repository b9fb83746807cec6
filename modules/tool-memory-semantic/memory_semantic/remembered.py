"""What every memory has, whatever holds it: its id and key, its times, who said it, and what
follows from these. Loads nothing that takes long.
"""

import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Container
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeVar
from uuid import UUID

from .identity import AGENT_ID
from .limits import COPIED_FROM

MEMORY_ID = re.compile(r"mem-[0-9a-f]{12}")
# The beginning of an id, which is enough where no other memory has it. With four digits, two of a
# hundred memories share theirs in one of 14 stores; fewer digits could be a word.
ID_BEGINNING = re.compile(r"mem-[0-9a-f]{4,12}")
# So many characters, with 8 digits, are shown where it is not looked up what other ids there are:
# of 100,000 memories, two hardly ever share them.
LONG_BEGINNING = len("mem-") + 8


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


class Remembered:
    """What follows from the fields of a memory: see `Memory`."""

    if TYPE_CHECKING:
        id: str
        content: str
        timestamp: datetime
        metadata: dict[str, str]
        pinned: bool
        replaced_by: UUID | None
        expires: datetime | None
        said_by: Speaker | None

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


R = TypeVar("R", bound=Remembered)


def last(get: Callable[[UUID], R | None], memory: R, without: Container[UUID] = ()) -> R:
    """What holds in place of `memory`: the end of the chain of its corrections, which `get` finds
    by their keys, but none of those `without`. In a damaged store, the chain could be a circle.
    """
    holds, passed = memory, {memory.key}
    while (key := memory.replaced_by) and key not in passed and (later := get(key)):
        passed.add(key)
        memory = later
        holds = holds if key in without else memory
    return holds
