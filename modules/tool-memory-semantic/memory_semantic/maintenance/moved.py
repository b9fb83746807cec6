"""What moves have copied, remembered on the machine that ran them.

A memory that a move saw in the new place and that is no longer there was forgotten there: the next
move must not bring it back. So `moved.json`, in the agent's folder under the storage root, records
for each pair of places when the new store was created, and a mark for every memory seen in it. A
mark is a hash of the id and the time: it reveals nothing about the text, and a memory that is
stored again has another.

The file is written after the memories were seen. If it is lost, the next move copies them all.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256

from pydantic import BaseModel, TypeAdapter

from ..files import disk
from ..files.folder import AgentFolder
from ..memory import Memory, timestamp_text

NAME = "moved.json"


class _Moved(BaseModel):
    source: str
    target: str
    created: datetime
    marks: frozenset[str]


_FILE = TypeAdapter(list[_Moved])


class Moved:
    """What was moved from one place to another, each `local` or the address of a server, for the
    agent with this `folder`. Writing raises StorageError if the folder belongs to others.
    """

    def __init__(self, folder: AgentFolder, source: str, target: str) -> None:
        self.path = folder.path / NAME
        self._folder = folder
        self._source = source
        self._target = target

    def marks(self, created: datetime) -> frozenset[str]:
        """The marks of the memories that were seen in the store created then; none if the record is
        about another store.
        """
        for each in self._read():
            if (each.source, each.target, each.created) == (self._source, self._target, created):
                return each.marks
        return frozenset()

    def write(self, created: datetime, seen: Iterable[Memory]) -> None:
        """Remember the memories that were seen in the store created then, and no others."""
        others = [each for each in self._read() if not self._is_about_this(each)]
        marks = frozenset(map(mark, seen))
        new = _Moved(source=self._source, target=self._target, created=created, marks=marks)
        self._write([*others, new])

    def clear(self) -> None:
        """Forget this move: the new store does not exist."""
        self._write([each for each in self._read() if not self._is_about_this(each)])

    def clear_source(self) -> None:
        """Forget all moves from or to the old place: the store there was deleted."""
        self._write([e for e in self._read() if self._source not in (e.source, e.target)])

    def _is_about_this(self, each: _Moved) -> bool:
        return (each.source, each.target) == (self._source, self._target)

    def _read(self) -> list[_Moved]:
        try:
            return _FILE.validate_json(self.path.read_bytes())
        except (FileNotFoundError, ValueError):
            return []

    def _write(self, moves: Sequence[_Moved]) -> None:
        self._folder.require_ours()
        if moves:
            self._folder.make_outermost()
            disk.write_whole(self.path, _FILE.dump_json(list(moves)))
        else:
            self.path.unlink(missing_ok=True)


def mark(memory: Memory) -> str:
    """What identifies a memory until it is stored again."""
    known = f"{memory.id} {timestamp_text(memory.timestamp)}"
    return sha256(known.encode()).hexdigest()[:16]
