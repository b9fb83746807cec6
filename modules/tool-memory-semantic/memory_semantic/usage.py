"""What is used: which memories searches find, how often and when, if the setting `usage` is on.

Each search adds a line to `usage.jsonl`, in the agent's folder under this machine's storage root,
wherever the store is kept: when it was, how long it took, and the ids of its answers, but no text
and no question. The log never stops a search: what cannot be written is left out, and what cannot
be read is skipped. A store on this machine is locked meanwhile, so that a forgotten id does not
come back; with a server, processes that write at the same time may lose lines.
"""

import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, PlainSerializer

from .errors import StorageError
from .files import disk
from .files.folder import AgentFolder
from .memory import Memory, timestamp_text

logger = logging.getLogger(__name__)

NAME = "usage.jsonl"

# About 6,000 searches with five answers. A file that is too large loses half, and one that is too
# old a month, so that it is not rewritten at each search.
MAX_BYTES = 1_000_000
MAX_AGE = timedelta(days=365)
_KEPT_AGE = MAX_AGE - timedelta(days=30)
_MILLISECOND = timedelta(milliseconds=1)
# More than the longest line, which has twenty ids.
_LINE_BYTES = 4_000

# What the statistics cover: searches of a month, and memories not found for a quarter of a year.
DAYS = 30
IDLE = timedelta(days=90)

_Moment = Annotated[AwareDatetime, PlainSerializer(timestamp_text)]


class _Model(BaseModel):
    # Most processes record nothing, and should not wait for models that they do not use.
    model_config = ConfigDict(defer_build=True)


class _Search(_Model):
    time: _Moment
    ms: float
    ids: list[str]


class Recalled(_Model):
    """How often searches have found a memory, and when they last did."""

    id: str
    times: int
    last: _Moment


class UsageStats(_Model):
    """What the log says. It begins with the search at `first` and covers at most a year.

    `searches` counts them by day, in UTC, for the last 30 days; `answers` and `milliseconds` are
    the medians of these searches. `recalled` are the memories that were found, most often found
    first. `not_recalled` are the ids of memories stored before `not_recalled_since` that no search
    has found since: for 90 days, or since the log began.
    """

    first: _Moment | None = None
    searches: dict[date, int]
    answers: float | None = None
    milliseconds: float | None = None
    recalled: list[Recalled] = []
    not_recalled: list[str] = []
    not_recalled_since: _Moment | None = None


class Usage:
    """The log of the agent with this `folder`. Searches are added to it only if it is `on`.

    A failure is only logged, by its kind.
    """

    def __init__(self, folder: AgentFolder, on: bool) -> None:
        self.path = folder.path / NAME
        self._folder = folder
        self._on = on

    @property
    def known(self) -> bool:
        """Whether the log is on, or was on once."""
        return self._on or any(self._folder.path.glob(NAME))

    def record(self, answers: Sequence[Memory], asked: datetime, now: datetime) -> None:
        """Add a search that was `asked` then and has these `answers` now."""
        if not self._on:
            return
        ids = [memory.id for memory in answers]
        line = _line(_Search(time=asked, ms=round((now - asked) / _MILLISECOND, 1), ids=ids))
        with _harmless():
            self._folder.require_ours()
            self._folder.make_outermost()  # with a store on a server, it may not exist here
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags, 0o600)
            try:
                os.write(descriptor, line)
                size = os.fstat(descriptor).st_size
                beginning = os.pread(descriptor, _LINE_BYTES, 0)
            finally:
                os.close(descriptor)
            oldest = next(_searches(beginning), None)
            if size > MAX_BYTES or oldest is None or oldest.time < now - MAX_AGE:
                newest_half = self.path.read_bytes()[-MAX_BYTES // 2 :]
                young = now - _KEPT_AGE
                self._write(each for each in _searches(newest_half) if each.time >= young)

    def forget(self, ids: Collection[str]) -> None:
        """Remove these ids from the log."""
        with _harmless(), suppress(FileNotFoundError):
            searches = list(_searches(self.path.read_bytes()))
            for search in searches:
                search.ids = [id for id in search.ids if id not in ids]
            self._write(searches)

    def stats(self, memories: Sequence[Memory], now: datetime) -> UsageStats:
        """What the log says about `memories`, which must be all memories of the store."""
        from statistics import median

        searches: list[_Search] = []
        with _harmless(), suppress(FileNotFoundError):
            searches = sorted(_searches(self.path.read_bytes()), key=lambda each: each.time)
        days = {now.date() - timedelta(days=ago): 0 for ago in reversed(range(DAYS))}
        lately = [each for each in searches if each.time.date() in days]
        for search in lately:
            days[search.time.date()] += 1
        if not searches:
            return UsageStats(searches=days)
        times = Counter(id for search in searches for id in search.ids)
        last = {id: search.time for search in searches for id in search.ids}
        since = max(searches[0].time, now - IDLE)
        found = [memory.id for memory in memories if memory.id in times]
        return UsageStats(
            first=searches[0].time,
            searches=days,
            answers=median(len(each.ids) for each in lately) if lately else None,
            milliseconds=median(each.ms for each in lately) if lately else None,
            recalled=[
                Recalled(id=id, times=times[id], last=last[id])
                for id in sorted(found, key=lambda id: (times[id], last[id]), reverse=True)
            ],
            not_recalled=[
                memory.id
                for memory in memories
                if max(memory.timestamp, last.get(memory.id, memory.timestamp)) < since
            ],
            not_recalled_since=since,
        )

    def _write(self, searches: Iterable[_Search]) -> None:
        disk.write_whole(self.path, b"".join(map(_line, searches)))


def _line(search: _Search) -> bytes:
    return search.model_dump_json().encode() + b"\n"


def _searches(log: bytes) -> Iterator[_Search]:
    for line in log.splitlines():
        with suppress(ValueError):  # a line torn by a crash or by two writers at once
            yield _Search.model_validate_json(line)


@contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except (OSError, StorageError) as error:
        logger.warning("The usage log cannot be read or written: %s", type(error).__name__)
