"""One operation at a time on a store, whatever process, thread or child it comes from."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from filelock import FileLock, Timeout

from .errors import StorageError
from .models import LOCK_POLL_SECONDS

# Waiters line up for the first, and only the one who holds it waits for the second. So whoever
# just let go of a store cannot take it again before those who were waiting.
NAMES = ("queue", "lock")


@contextmanager
def locked(folder: Path, seconds: float, started: float, cancelled: Event) -> Iterator[None]:
    """Hold the store in `folder`, which must exist, for the length of the block.

    Waits until `seconds` after `started` (by `time.monotonic`), or until `cancelled` is set. The
    operating system frees the lock when the process dies.

    Raises StorageError if the wait is over, or if the folder was replaced meanwhile.
    """
    queue, lock = (_file_lock(folder / name) for name in NAMES)

    def acquire(each: FileLock) -> None:
        patience = max(0.0, started + seconds - time.monotonic())
        each.acquire(patience, cancel_check=cancelled.is_set)

    try:
        acquire(queue)
        try:
            acquire(lock)
        finally:
            queue.release()
    except Timeout:
        holder = (folder / NAMES[1]).read_text(errors="replace")[:20] or "unknown"
        raise StorageError(
            f"This memory has been in use by other calls (now by process {holder}) for "
            f"{seconds:g} seconds. Try again when that is done."
        ) from None
    try:
        if cancelled.is_set():
            raise StorageError("The call was cancelled while it waited.")
        yield
    finally:
        lock.release()


def _file_lock(path: Path) -> FileLock:
    def sign(descriptor: int) -> None:
        if not path.exists() or not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise StorageError("The store was replaced while this call waited for it.")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)

    # `filelock`, because it frees on death and in forked children, and with these settings never
    # falls back to a file that only pretends to lock.
    return FileLock(
        path,
        mode=0o600,
        poll_interval=LOCK_POLL_SECONDS,
        fallback_to_soft=False,
        preserve_lock_file=True,
        on_acquired=sign,
    )
