"""The smallest visit to a store: its real lock, and a counter in a file of the folder."""

from pathlib import Path
from threading import Event

from memory_semantic.files.door import Door, door_of
from memory_semantic.files.lock import take_lock


class CountingVisit:
    """A visit that counts in the file `count`; `entered` and `closed` count the visits."""

    entered = 0
    closed = 0
    valid = True

    def __init__(self, folder: Path, deadline: float, cancelled: Event) -> None:
        self.folder = folder
        self.lock = take_lock(folder, deadline, cancelled)
        CountingVisit.entered += 1

    def add(self) -> int:
        """Count one more, in two steps that two simultaneous callers would mix up."""
        file = self.folder / "count"
        number = int(file.read_text() or 0) + 1 if file.exists() else 1
        file.write_text(str(number))
        return number

    def close(self) -> None:
        CountingVisit.closed += 1
        self.lock.release()

    def wanted(self) -> bool:
        return self.lock.wanted()

    def still_valid(self) -> bool:
        return CountingVisit.valid


def counting_door(folder: Path) -> Door[CountingVisit]:
    """The door to `folder`, for visits that count."""
    return door_of(folder, lambda deadline, cancelled: CountingVisit(folder, deadline, cancelled))
