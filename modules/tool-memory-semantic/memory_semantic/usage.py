"""What is used: which memories searches find, how often and when, if the setting `usage` is on.

Each search adds a line to `usage.jsonl`, in the agent's folder under this machine's storage root,
wherever the store is kept: when it was, how long it took, and the ids of its answers, but no text
and no question. The log never stops a search: what cannot be written is left out, and what cannot
be read is skipped. A store on this machine is locked meanwhile, so that a forgotten id does not
come back; with a server, processes that write at the same time may lose lines.
"""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
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

_Moment = Annotated[AwareDatetime, PlainSerializer(timestamp_text)]


class Search(BaseModel):
    """A search: when it was, how many milliseconds it took, and the ids of what it found."""

    # Most processes record nothing, and should not wait for a model that they do not use.
    model_config = ConfigDict(defer_build=True)

    time: _Moment
    ms: float
    ids: list[str]


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
        line = _line(Search(time=asked, ms=round((now - asked) / _MILLISECOND, 1), ids=ids))
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

    def searches(self) -> list[Search]:
        """All that is recorded, oldest first."""
        with _harmless(), suppress(FileNotFoundError):
            return sorted(_searches(self.path.read_bytes()), key=lambda search: search.time)
        return []

    def _write(self, searches: Iterable[Search]) -> None:
        disk.write_whole(self.path, b"".join(map(_line, searches)))


def _line(search: Search) -> bytes:
    return search.model_dump_json().encode() + b"\n"


def _searches(log: bytes) -> Iterator[Search]:
    for line in log.splitlines():
        with suppress(ValueError):  # a line torn by a crash or by two writers at once
            yield Search.model_validate_json(line)


@contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except (OSError, StorageError) as error:
        logger.warning("The usage log cannot be read or written: %s", type(error).__name__)
