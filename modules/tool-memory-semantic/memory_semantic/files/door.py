"""Who works on a store: one process at a time, which holds its lock, and in that one call after
another, through the process's one door to it.

At the door calls queue up, and one thread runs them with the store open.

After a burst of calls the store stays open for a moment ("lingers"), because most of a call is
opening and closing; its worker leaves as soon as another process wants it.
"""

import asyncio
import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, Protocol, TypeVar

from ..errors import UNCHANGED, StorageError, explained
from ..posix import fcntl

logger = logging.getLogger(__name__)

# Waiters line up for the first lock, and only its holder waits for the second. So nobody who has
# just released a store takes it again before the next in line.
NAMES = ("queue", "lock")
POLL_SECONDS = 0.005
# What the system says where a file system has no locks, such as some network drives.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
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

    def awaited(self) -> bool:
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


# How long calls are served while another process waits for the lock: about six times as long as
# opening a store takes, so that most of a turn is work.
TURN_SECONDS = 0.1
# Two calls within this time are a burst, after which the store stays open for the same time. No
# longer, because a process that is stopped (Ctrl-Z) meanwhile keeps all others out. Not after a
# single call, which would take half as long again to look for others.
LINGER_SECONDS = 0.25
# Even a call that must not wait for others needs a moment to reach the worker.
LEAST_SECONDS = 0.25


class Opened(Protocol):
    """A store while its lock is held."""

    def close(self) -> None:
        """Close the store and release the lock."""

    def awaited(self) -> bool:
        """Whether anyone else is waiting for the lock."""
        ...

    def valid(self) -> bool:
        """Whether another call can be served."""
        ...


S = TypeVar("S", bound=Opened)
T = TypeVar("T")
# Takes the lock by this time (in time.monotonic), unless the call is cancelled meanwhile, and opens
# the store, if there is one.
Enter = Callable[[float, Callable[[], bool]], S | None]


class _Call(NamedTuple):
    work: Callable[[Any], Any]
    enter: Enter[Any]
    deadline: float
    answer: "Future[Any]"


class Door:
    """The line to the store in `folder`: see `door_of`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()  # None: close the store
        self._worker: Thread | None = None
        self._begun = 0.0  # when the last call began
        self._lingers = False

    async def run(self, work: Callable[[S], T], enter: Enter[S], seconds: float) -> T | None:
        """Run `work` on the store in the worker's thread, in the order of the calls; returns or
        raises the same, or returns None if there is no store. If it is not open, `enter` opens it.

        It is dropped if it has not begun after `seconds` or when the caller is cancelled; once
        begun, it completes. Raises StorageError if the time is up or `work` itself calls this.
        """
        if threading.current_thread() is self._worker:
            raise StorageError("A call on a store cannot wait for another one on it.", UNCHANGED)
        call = _Call(work, enter, time.monotonic() + seconds, Future())
        answer = asyncio.wrap_future(call.answer)
        self._line_up(call)
        try:
            await asyncio.wait([answer], timeout=max(seconds, LEAST_SECONDS))
            if not call.answer.cancel():
                with suppress(InUseError):  # it names the rest of the time
                    return await answer
            raise InUseError(in_use(self._folder, seconds), UNCHANGED)
        finally:
            answer.cancel()  # nobody wants an answer that still comes

    def close(self) -> None:
        """Return once the store is closed; calls that came before are served first."""
        if worker := self._worker:
            self._calls.put(None)
            worker.join()

    def _line_up(self, call: _Call) -> None:
        with _guard:
            if self._worker is None:
                # Not a daemon: when the interpreter ends, it finishes what it has begun.
                worker = Thread(target=self._serve, name="agent-memory", daemon=False)
                with explained(UNCHANGED):
                    worker.start()
                self._worker = worker
            self._calls.put(call)

    def _serve(self) -> None:
        opened, turn_ends = None, 0.0
        while True:
            try:
                call = self._next(opened, turn_ends)
                is_valid = opened is not None and call is not None and opened.valid()
            except BaseException:  # such as too little memory
                call, is_valid = None, False
            if opened and not is_valid:
                _close(opened)
                opened = None
            if call is None:
                with _guard:
                    if self._calls.empty():
                        self._worker = None
                        return
            elif not call.answer.cancelled():
                opened, turn_ends = self._answer(call, opened, turn_ends)

    def _answer(self, call: _Call, opened: Any, turn_ends: float) -> tuple[Any, float]:
        result = None
        try:
            if opened is None:
                opened = call.enter(call.deadline, partial(self._nobody_waits, call))
                turn_ends = time.monotonic() + TURN_SECONDS
            if not call.answer.set_running_or_notify_cancel():
                return opened, turn_ends
            now = time.monotonic()
            self._lingers, self._begun = now - self._begun < LINGER_SECONDS, now
            if opened:
                result = call.work(opened)
        except BaseException as error:  # an engine that panics raises no Exception
            _close(opened)
            opened = None
            if call.answer.running() or call.answer.set_running_or_notify_cancel():
                call.answer.set_exception(error)
        else:
            call.answer.set_result(result)
        return opened, turn_ends

    def _nobody_waits(self, call: _Call) -> bool:
        return call.answer.cancelled() and self._calls.empty()

    def _next(self, opened: Opened | None, turn_ends: float) -> _Call | None:
        """The next call; None if the store must be closed first, or there is none."""
        if opened is None:
            with suppress(Empty):
                return self._calls.get_nowait()
            return None
        seconds, pause = (LINGER_SECONDS, POLL_SECONDS) if self._lingers else (0, 0)
        end = time.monotonic() + seconds
        with suppress(OSError):  # a file system that fails now is an error of the next call
            while time.monotonic() < turn_ends or not opened.awaited():
                try:
                    return self._calls.get(timeout=pause)
                except Empty:
                    # When the interpreter ends, the main thread ends first.
                    ends = time.monotonic() >= end or not threading.main_thread().is_alive()
                    if ends or opened.awaited():
                        break
        return None


def _close(opened: Opened | None) -> None:
    try:
        if opened:
            opened.close()
    except BaseException as error:
        logger.warning("A store was not closed properly: %s", type(error).__name__)


_guard = threading.Lock()
# One door for every store that this process has called: a tool creates a MemoryStorage for each
# call.
_doors: dict[Path, Door] = {}


def door_of(folder: Path) -> Door:
    """The door to the store in `folder`, always the same one for a path."""
    with _guard:
        return _doors.setdefault(folder, Door(folder))


def _in_child() -> None:
    """A child has none of its parent's threads, cannot use what they have open, and must not keep
    the locks that are held.
    """
    global _guard
    _guard = threading.Lock()
    _doors.clear()
    for lock in _held:
        os.close(lock.descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_in_child)
