"""One operation at a time on a store, whatever process, thread or child it comes from."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

from .errors import StorageError
from .models import LOCK_POLL_SECONDS
from .posix import fcntl

# Waiters line up for the first, and only the one who holds it waits for the second. So whoever
# just let go of a store does not take it again before the next in line.
NAMES = ("queue", "lock")

_open: set[int] = set()


def _close_in_child() -> None:
    """A forked child inherits the locks that are held, and must not keep them from others."""
    for descriptor in _open:
        os.close(descriptor)
    _open.clear()


os.register_at_fork(after_in_child=_close_in_child)


@contextmanager
def locked(
    folder: Path, seconds: float, cancelled: Event, *, read_only: bool = False
) -> Iterator[None]:
    """Hold the store in `folder` for the length of the block. The folder is never made here, and
    where it is `read_only`, no file in it.

    Waits at most `seconds`, and no longer than until `cancelled` is set. The operating system
    frees the lock when the process dies, however it dies.

    Raises StorageError if the wait is over or the folder was replaced meanwhile, and OSError,
    also where the file system has no locks.
    """
    deadline = time.monotonic() + seconds

    @contextmanager
    def hold(path: Path) -> Iterator[None]:
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        _open.add(descriptor)
        try:
            while not _try(descriptor):
                if cancelled.is_set() or time.monotonic() >= deadline:
                    holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
                    raise StorageError(
                        f"This memory has been in use by other calls (now by process "
                        f"{holder or 'unknown'}) for {seconds:g} seconds. Try again later."
                    )
                time.sleep(LOCK_POLL_SECONDS)
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise StorageError("The store was replaced while this call waited for it.")
            if not read_only:
                os.pwrite(descriptor, f"{os.getpid():<20}".encode(), 0)
            yield
        finally:
            _open.discard(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    queue, lock = (hold(folder / name) for name in NAMES)
    with ExitStack() as held:
        with queue:
            held.enter_context(lock)
        if cancelled.is_set():
            raise StorageError("The call was cancelled while it waited.")
        yield


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
