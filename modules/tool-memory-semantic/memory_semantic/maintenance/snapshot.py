"""Reads a read-only store, such as one in a snapshot or a backup, from a copy.

The engine writes to every store that it opens. So the store is copied to a temporary folder that
only its owner can read, and the copy is removed whatever ends the work, except kill -9.
"""

import math
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from types import FrameType
from typing import NoReturn

from ..errors import StorageError
from ..files.backend import FileBackend, Visit
from ..files.folder import AgentFolder
from ..files.lock import take_lock
from ..limits import ALL
from ..memory import Memory

# Files are copied in units of this size.
_PIECE = 64 * 1024
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def read(backend: FileBackend, note: Callable[[str], None]) -> list[Memory]:
    """All memories of a read-only store, oldest first; `note` is told about the copy."""
    source = backend.folder
    with _temporary_folder() as folder:
        note(
            f"The store in {source.path} is read-only. It is read from a temporary copy in "
            f"{folder}, which is removed afterwards."
        )
        copy = AgentFolder(folder, source.agent_id)
        with ExitStack() as held:
            # Others may be able to write. A store without lock files is not in use; if the file
            # system has no locks, checking the copy must do.
            with suppress(OSError):
                deadline = time.monotonic() + backend.lock_seconds
                held.enter_context(take_lock(source.database, deadline, Event(), read_only=True))
            try:
                copy.path.mkdir(mode=0o700, parents=True)
                _copy(source.database, copy.database)
            except OSError as error:
                raise StorageError(
                    f"The temporary copy could not be made: {error.filename or folder}: "
                    f"{error.strerror}. Set TMPDIR to put it elsewhere."
                ) from error
        # Here and not in a worker, which would keep using the copy while it is removed.
        with closing(Visit(copy, math.inf, Event())) as visit:
            store = visit.store(None)
            return store.newest(ALL)[::-1] if store else []


def _copy(source: Path, target: Path) -> None:
    def stop(error: OSError) -> NoReturn:
        raise error

    for folder, _, names in os.walk(source, onerror=stop):
        into = target / Path(folder).relative_to(source)
        into.mkdir(mode=0o700, parents=True)
        for name in names:
            copy_sparse(Path(folder, name), into / name)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file to a new one, mode 0600, with holes where it holds only zeros: the holes of an
    empty store are a thousand times the size of its data.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as read, os.fdopen(descriptor, "wb") as written:
        while piece := read.read(_PIECE):
            if piece.strip(b"\0"):
                written.write(piece)
            else:
                written.seek(len(piece), os.SEEK_CUR)
        written.truncate(read.tell())


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder, mode 0700, that is removed at the end of the block. A signal that would end the
    process ends the block first.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        ignore()
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def ignore() -> None:  # while the folder is being removed
        for each in before:
            signal.signal(each, signal.SIG_IGN)

    found = {each: signal.getsignal(each) for each in _SIGNALS}
    before = {each: handler for each, handler in found.items() if handler != signal.SIG_IGN}
    try:
        for each in before:
            signal.signal(each, end)
        with tempfile.TemporaryDirectory(prefix="agent-memory-") as name:
            try:
                yield Path(name)
            finally:
                ignore()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
