"""The journal of a store: `memories.jsonl` in the agent's folder, a second whole copy of it.

It is an export that goes on: once the engine has a memory on disk, a line is added. No call reads
more of it than its first and its last line, and the shard is the truth: where they differ, the
journal is written anew from it, unless that would lose a memory.
"""

import errno
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from itertools import chain
from pathlib import Path
from uuid import UUID

from ..errors import StorageError, counted, damage
from ..exchange import NUMBER, Header, line_of, memory_of_line, number_of, numbered
from ..glance import JOURNAL
from ..limits import JOURNAL_SLACK
from ..memory import Memory
from ..points import Point, StoreInfo
from ..remembered import utc_now
from . import disk

logger = logging.getLogger(__name__)

# More than any first line has, and more than any line: one of 10,000 characters has 83 kB at most,
# and 40 kB more with the fields of a newer version.
_HEADER_BYTES = 4_096
_LINE_BYTES = 130_000

# The journals that this process could not write: a log says so once.
_failing: set[Path] = set()

# The line of each memory, after its time.
Lines = list[tuple[str, bytes]]


class Journal:
    """The journal of `agent` in its `folder`. Use it under the store's lock. Nothing is added to it
    before `check` has seen that it `is_whole`.
    """

    def __init__(self, folder: Path, agent: str) -> None:
        self.path = folder / JOURNAL
        self._agent = agent
        self.is_whole = False

    def ends(self) -> tuple[Header | None, int | None]:
        """Its first line, and the number in its last one; None for what cannot be read, or is of
        another agent.
        """
        try:
            with self.path.open("rb") as file:
                first = file.readline(_HEADER_BYTES)
                start, end = file.tell(), file.seek(0, os.SEEK_END)
                file.seek(max(start, end - _LINE_BYTES))
                last = file.read()
            header = Header.model_validate_json(first)
            if header.agent != self._agent or not first.endswith(b"\n"):
                return None, None
        except (OSError, ValueError):
            return None, None
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            number = json.loads(last.splitlines()[-1])[NUMBER] if last else 0
            return header, number if last.endswith(b"\n") or not last else None
        return header, None

    def check(
        self,
        info: StoreInfo,
        shard: str,
        count: int,
        pages: Iterable[list[Point]],
    ) -> None:
        """Compare it with this `shard` of the store, which counts so many memories, and write it
        anew from that shard's `pages` if it does not fit or is too long. If that fails, a log
        says so. Raises DamagedStoreError if the shard lacks memories, or is older.
        """
        header, number = self.ends()
        named, present = number_of(header and header.shard), number_of(shard)
        if named > present:
            raise damage(info.agent, "its database is older than its journal")
        if named == present and number is not None and count < number:
            raise damage(info.agent, f"it holds {count} of {counted(number)}")
        self.is_whole = named == present and count == number
        if self.is_whole and header and not self._is_long(header):
            return
        keys, lines = set[UUID](), Lines()
        for page in pages:
            keys |= {point.key for point in page}
            lines += lines_of(page, info.agent)
        if len(keys) != count:
            raise damage(info.agent, f"{len(keys)} of {counted(count)} can be read")
        if not 0 < named < present:  # what a swap has left out, that of an older shard still has
            lost = len(self.memories()[0].keys() - keys)
            if lost:
                raise damage(info.agent, f"its journal has {counted(lost)} that it has lost")
        with self._logged():
            disk.require_space(self.path.parent, sum(len(line) for _, line in lines))
            self.prepare(info, shard, lines)
            self.replace()

    @contextmanager
    def adding(self, points: Sequence[Point], number: int) -> Iterator[None]:
        """Add `points`, which the block puts into the shard that holds a `number` of memories. They
        are on disk on return. If that fails, a log says so, and the next opening writes the journal
        anew.

        Before the block the last byte is cut off: if this process is killed meanwhile, the next
        opening writes the journal anew, too, even if the count is as before.
        """
        lines, file = list[bytes](), None
        for point in points:
            number += point.changed is None
            lines.append(numbered(line_of(point.payload), number))
        with ExitStack() as opened:
            if self.is_whole:
                with self._logged():
                    file = opened.enter_context(open(self.path, "ab", 0, opener=_not_a_link))
                    file.truncate(file.tell() - 1)
            yield
            if file and self.is_whole:
                with self._logged():
                    _append(file, b"".join([b"\n", *lines]))

    def memories(self) -> tuple[dict[UUID, Memory], bool]:
        """Those that can be read, by key, and whether these are all: every line reads, and there
        are as many as the last one says.
        """
        found, last, whole = dict[UUID, Memory](), 0, self.ends()[0] is not None
        for line in self._lines():
            try:
                memory, last = memory_of_line(line, self._agent)
                found[memory.key] = memory
            except (ValueError, OverflowError, RecursionError):
                whole = False
        return found, whole and len(found) == last

    def prepare(self, info: StoreInfo, shard: str, lines: Lines) -> None:
        """Write the journal that `replace` will put in the place of this one: that of a `shard` of
        the store `info`. It is on disk on return.
        """
        lines.sort()

        def content() -> Iterator[bytes]:
            return (numbered(line, n) for n, (_, line) in enumerate(lines, start=1))

        header = Header(
            agent=info.agent,
            exported=utc_now(),
            memories=len(lines),
            embedding=info.model,
            endpoint=info.endpoint,
            words=info.words,
            shard=shard,
            size=sum(map(len, content())),
        )
        disk.prepare(self.path, chain([header.line()], content()))

    def replace(self) -> None:
        """Put the journal that was prepared in the place of this one."""
        disk.replace(self.path)
        self.is_whole = True
        _failing.discard(self.path)

    def _is_long(self, header: Header) -> bool:
        return self.path.stat().st_size > 2 * (header.size or 0) + JOURNAL_SLACK

    def _lines(self) -> Iterator[bytes]:
        with suppress(FileNotFoundError, IsADirectoryError), self.path.open("rb") as file:
            with suppress(ValueError):
                if Header.model_validate_json(file.readline(_HEADER_BYTES)).agent != self._agent:
                    return
            yield from file

    @contextmanager
    def _logged(self) -> Iterator[None]:
        try:
            yield
        except (OSError, StorageError) as error:
            self.is_whole = False
            if self.path not in _failing:
                _failing.add(self.path)
                logger.warning(
                    "The journal of agent %r was not written: %s. The store works without it.",
                    self._agent,
                    type(error).__name__,
                )


def _not_a_link(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_CREAT | os.O_NOFOLLOW)


def _append(file: FileIO, lines: bytes) -> None:
    size = os.fstat(file.fileno()).st_size
    try:
        if os.write(file.fileno(), lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())
    except OSError:
        file.truncate(size)  # so the next opening sees that it is not whole
        raise


def lines_of(points: Sequence[Point], agent: str) -> Lines:
    """The lines of these `points`. Raises DamagedStoreError if one is not what was stored."""
    if not all(point.fits_its_key for point in points):
        raise damage(agent, "a memory in it is not what was stored")
    return [(point.payload["timestamp"], line_of(point.payload)) for point in points]
