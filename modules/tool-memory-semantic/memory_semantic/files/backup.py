"""The backup of a store: `backup.jsonl` in the agent's folder, an export that any editor opens.

No search, list or count reads it, and without it a sound store loses nothing. It may be behind, but
it holds nothing that was forgotten: `forget` takes a memory out of the backup before it takes it
out of the store. So what only the backup has was lost, and a repair brings it back.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from ..exchange import Header, line_of, memory_of_line
from ..limits import BACKUP_AGE, BACKUP_GROWTH, BACKUP_LEAST
from ..memory import Memory, point_id, utc_now
from ..store import Record, StoreInfo
from . import disk

logger = logging.getLogger(__name__)

NAME = "backup.jsonl"

# After a failure, such as a full disk, this process leaves the backup alone for so long.
_PAUSE = timedelta(hours=1)
# More than any first line has.
_HEADER_BYTES = 4_096


class Backup:
    """The backup of `agent` in its `folder`. Use it under the store's lock."""

    def __init__(self, folder: Path, agent: str) -> None:
        self.path = folder / NAME
        self._agent = agent
        self._failed: datetime | None = None

    def header(self) -> Header | None:
        """Its first line, without its end; None if there is no backup of this agent that can be
        read.
        """
        with suppress(OSError, ValueError), self.path.open("rb") as file:
            header = Header.model_validate_json(file.readline(_HEADER_BYTES))
            return header if header.agent == self._agent else None
        return None

    def is_due(self, header: Header | None, memories: int, *, changed: bool) -> bool:
        """Whether to write it, if it has this `header`, at the end of a visit to a store of so many
        `memories`: always if there is none; if the visit has `changed` something, also by age and
        growth.
        """
        now = utc_now()
        if self._failed and now - self._failed < _PAUSE:
            return False
        if header is None:
            return True
        is_old = not timedelta(0) <= now - header.exported < BACKUP_AGE
        growth = max(BACKUP_LEAST, int(BACKUP_GROWTH * header.memories))
        return changed and (is_old or memories >= header.memories + growth)

    def write(self, info: StoreInfo, records: Iterable[Record]) -> None:
        """Replace it by `records`, all that the store described by `info` holds, and by what only
        the present backup has. If that fails, it stays as it is, and a log says so.
        """
        try:
            self._write(info, records)
            self._failed = None
        except Exception as error:  # the engine's among them; the store works without a backup
            self._failed = utc_now()
            logger.warning(
                "The backup of agent %r was not written: %s.", self._agent, type(error).__name__
            )
            with suppress(OSError):
                self._unfinished.unlink(missing_ok=True)

    def memories(self) -> Iterator[Memory]:
        """Those that can be read, oldest first."""
        for _, memory in self._memories_by_line():
            yield memory

    def drop(self, ids: Collection[str], texts: Collection[str]) -> None:
        """Leave out the memories with these ids or texts, the links to them, and what cannot be
        read, which may be one of them. If that fails, there is no backup any more; if that fails
        too, raises OSError.
        """
        try:
            if not self.path.exists():
                return
            header = self.header()
            if header is None:
                raise ValueError("It is not this agent's.")
            gone: dict[UUID, UUID | None] = {point_id(text): None for text in texts}
            for _, memory in self._memories_by_line():
                if memory.key in gone:
                    gone[memory.key] = memory.replaced_by
            kept = []
            for line, memory in self._memories_by_line():
                if memory.id in ids or memory.key in gone:
                    continue
                if memory.replaced_by in gone:
                    memory.replaced_by = _after(memory.replaced_by, gone)
                    line = line_of(memory.dict_for_storage())
                kept.append(line)
            header = header.model_copy(update={"memories": len(kept)})
            disk.write_whole(self.path, (header.line(), *kept))
        except (OSError, ValueError):
            self.path.unlink(missing_ok=True)
            disk.sync(self.path.parent)
        finally:
            self._unfinished.unlink(missing_ok=True)

    @property
    def _unfinished(self) -> Path:
        return self.path.with_name(f"{NAME}.tmp")

    def _write(self, info: StoreInfo, records: Iterable[Record]) -> None:
        size = self.path.stat().st_size if self.path.exists() else 0
        disk.require_space(self.path.parent, size)
        # Lines and not memories: 100,000 of those would take four times the room.
        times: dict[bytes, str] = {}
        keys: set[UUID] = set()
        for record in records:
            if _is_whole(record):
                times[line_of(record.payload)] = record.payload["timestamp"]
                keys.add(record.key)
        for line, memory in self._memories_by_line(besides=times):
            if memory.key not in keys:
                times[line] = memory.dict_for_storage()["timestamp"]
        header = Header(
            agent=self._agent,
            exported=utc_now(),
            memories=len(times),
            embedding=info.model,
            endpoint=info.endpoint,
            words=info.words,
        )
        disk.write_whole(self.path, (header.line(), *sorted(times, key=times.__getitem__)))

    def _memories_by_line(self, besides: Collection[bytes] = ()) -> Iterator[tuple[bytes, Memory]]:
        if self.header() is None:
            return
        with self.path.open("rb") as file:
            file.readline()
            for line in file:
                if line not in besides:
                    with suppress(ValueError):
                        yield line, memory_of_line(line, self._agent)


def _is_whole(record: Record) -> bool:
    text = record.payload.get("content")
    whole = isinstance(text, str) and point_id(text) == record.key
    return whole and all(isinstance(record.payload.get(name), str) for name in ("id", "timestamp"))


def _after(key: UUID | None, gone: dict[UUID, UUID | None]) -> UUID | None:
    """What replaced the text `key` and is not itself `gone`."""
    for _ in gone:  # as many steps at most
        key = gone.get(key, key) if key else None
    return None if key in gone else key
