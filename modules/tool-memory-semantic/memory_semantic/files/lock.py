"""The lock of a store: only one process, thread or child works on it at a time."""

import errno
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

from ..errors import StorageError
from ..posix import fcntl

# Waiters line up for the first lock, and only its holder waits for the second. So nobody who has
# just released a store takes it again before the next in line.
NAMES = ("queue", "lock")
POLL_SECONDS = 0.005
# What the system says where a file system has no locks, such as some network drives.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_REPLACED = "The store was deleted or replaced while this call waited for it."

_held: set["Lock"] = set()


class InUseError(StorageError):
    """Others have held the lock of a store for as long as the call would wait."""


class Lock(AbstractContextManager):
    """The lock of a store, held from `take_lock` until `release` or the end of the `with` block.
    The operating system frees it when the process dies, however it dies.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        self.descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        _held.add(self)

    def wanted(self) -> bool:
        """Whether anyone else is waiting for it, in this process or in another."""
        return _is_locked(self._path.with_name(NAMES[0]))

    def release(self) -> None:
        """Let the next one in. May be called again."""
        if self in _held:  # not in a child that was forked meanwhile
            _held.remove(self)
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            finally:
                os.close(self.descriptor)

    def __exit__(self, *_: object) -> None:
        self.release()


def _close_in_child() -> None:
    """A forked child inherits the locks that are held, and must not keep them."""
    for lock in _held:
        os.close(lock.descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


def take_lock(folder: Path, deadline: float, cancelled: Callable[[], bool] = lambda: False) -> Lock:
    """Wait for the lock of the store in `folder`.

    Raises InUseError if `deadline` (in `time.monotonic`) passes, StorageError if `cancelled` says
    so, the folder was deleted or replaced meanwhile, or its file system has no locks, and OSError.
    """
    seconds = max(0.0, deadline - time.monotonic())

    def hold(path: Path) -> Lock:
        with ExitStack() as unless_taken:
            lock = unless_taken.enter_context(Lock(path, os.O_RDWR | os.O_CREAT))
            while not _try(lock.descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    raise InUseError(in_use(folder, seconds))
                if cancelled():
                    raise StorageError("The call was cancelled while waiting for the store.")
                time.sleep(POLL_SECONDS)
            if not os.path.samestat(os.fstat(lock.descriptor), path.stat()):
                raise StorageError(_REPLACED)
            os.pwrite(lock.descriptor, f"{os.getpid():<20}".encode(), 0)
            unless_taken.pop_all()
        return lock

    try:
        with hold(folder / NAMES[0]):
            return hold(folder / NAMES[1])
    except FileNotFoundError:
        raise StorageError(_REPLACED) from None
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        raise StorageError(
            "This file system has no locks. Move the storage_root to a local disk."
        ) from error


def in_use(folder: Path, seconds: float) -> str:
    """The message of the error after a call has waited `seconds` for the store in `folder`."""
    holder = ""
    with suppress(OSError):
        # If nobody works on it, the next in line was stopped while waiting.
        name = NAMES[1] if _is_locked(folder / NAMES[1]) else NAMES[0]
        holder = (folder / name).read_text(errors="replace").strip()
    number = f"{seconds:.1f}".removesuffix(".0")
    waited = f"for {number} {'second' if number == '1' else 'seconds'}"
    if _is_stopped(holder):  # `kill` alone would not reach it before it goes on
        return (
            f"Process {holder}, which is stopped (as by Ctrl-Z), has this store in use; this call "
            f"has waited for it {waited}. Continue it with `fg` in its terminal, or end it with "
            f"`kill -9 {holder}`, which loses nothing that was stored."
        )
    return (
        f"This store has been in use by other calls (now by process {holder or 'unknown'}) "
        f"{waited}. Try again later."
    )


def _is_stopped(process: str) -> bool:
    with suppress(OSError, IndexError):  # only Linux tells
        state = Path("/proc", process, "stat").read_text(errors="replace").rpartition(")")[2]
        return state.split()[0] in ("T", "t")
    return False


def _is_locked(path: Path) -> bool:
    with Lock(path, os.O_RDONLY) as probe:
        return not _try(probe.descriptor, fcntl.LOCK_SH)


def _try(descriptor: int, kind: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False
