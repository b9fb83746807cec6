"""The smallest thing behind a door: the real lock, and a counter in a file of the folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from memory_semantic.files.door import door_of, take_lock

T = TypeVar("T")


class Counting:
    """It counts in the file `count`; `entered` and `closed` count how often it was opened."""

    entered = 0
    closed = 0
    is_valid = True

    def __init__(self, folder: Path, deadline: float, cancelled: Callable[[], bool]) -> None:
        self.folder = folder
        self.lock = take_lock(folder, deadline, cancelled)
        Counting.entered += 1

    def add(self) -> int:
        """Count one more, in two steps that two simultaneous callers would mix up."""
        file = self.folder / "count"
        number = int(file.read_text() or 0) + 1 if file.exists() else 1
        file.write_text(str(number))
        return number

    def close(self) -> None:
        Counting.closed += 1
        self.lock.release()

    def awaited(self) -> bool:
        return self.lock.awaited()

    def valid(self) -> bool:
        return Counting.is_valid


class CountingDoor:
    """The door to `folder`, behind which is counted. It is looked up each time, as a place does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def run(self, work: Callable[[Counting], T], seconds: float) -> T:
        enter = partial(Counting, self.folder)
        done = await door_of(self.folder).run(lambda opened: (work(opened),), enter, seconds)
        assert done
        return done[0]

    def close(self) -> None:
        door_of(self.folder).close()
