"""The one door of this process to each store: its calls line up there, and one worker does them.

The worker waits for the store's lock and opens the store once for all that wait, so no other thread
waits for a lock, and calls that come together cost little more than one. After a burst of calls it
stays inside for a moment ("lingers"), and leaves as soon as anyone else waits for the store.
"""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Condition, Event, RLock, Thread
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..errors import UNCHANGED, StorageError
from .lock import in_use

logger = logging.getLogger(__name__)

# How long calls are served before others get in that wait for the lock: some six times what it
# takes to open a store, so that most of a turn is work.
TURN_SECONDS = 0.1
# Two calls within this time are a burst, after which the store stays open for as long, because most
# of a call is opening and closing. No longer: a process that is stopped (Ctrl-Z) meanwhile keeps
# all others out. 0 turns it off.
LINGER_SECONDS = 0.25
LINGER_POLL_SECONDS = 0.005  # as often as those look who wait
# A call that must not wait for others needs a moment all the same, to get to the worker.
LEAST_SECONDS = 0.25

# Guards the lines of all doors; held during a fork, so that the child does not find it taken.
_lock = RLock()


class Visit(Protocol):
    """The store from when its lock is taken until that is released."""

    def close(self) -> None:
        """Close the store and release the lock. Called once, whatever has happened."""

    def wanted(self) -> bool:
        """Whether anyone else waits for the lock."""
        ...

    def still_valid(self) -> bool:
        """Whether the store is as this visit left it. Asked before each operation but the first."""
        ...


T = TypeVar("T")
V = TypeVar("V", bound=Visit)


class _Operation(NamedTuple):
    work: Callable[[Any], Any]
    deadline: float
    answer: Future[Any]


class Door(Generic[V]):
    """The line of this process's calls on one store. `door_of` makes it."""

    def __init__(self, folder: Path, enter: Callable[[float, Event], V]) -> None:
        self._folder = folder
        self._enter = enter
        self.reset()

    def reset(self) -> None:
        """Forget the line and the worker, as after a fork: both are the parent's."""
        self._changed = Condition(_lock)
        self._line: deque[_Operation] = deque()
        self._worker: Thread | None = None
        self._nobody_waits = Event()  # for the lock: whoever did was answered or cancelled
        self._begun = 0.0  # when the last operation was
        self._is_burst = self._may_linger = self._lingers = False

    async def run(self, work: Callable[[V], T], seconds: float) -> T:
        """What `work` returns or raises, done in the worker's thread in the order of the calls.

        It is dropped if it has not begun after `seconds` or when the caller is cancelled; once
        begun, it completes, and what it has written must be on disk. Raises StorageError if the
        time is over or a work calls this itself, and what entering the store raises.
        """
        if threading.current_thread() is self._worker:
            raise StorageError("A call on a store cannot wait for another one on it.", UNCHANGED)
        operation = _Operation(work, time.monotonic() + seconds, Future())
        self._line_up(operation)
        answer = asyncio.wrap_future(operation.answer)
        try:
            await asyncio.wait([answer], timeout=max(seconds, LEAST_SECONDS))
            if self._dropped(operation):
                raise StorageError(in_use(self._folder, seconds), UNCHANGED)
            return await answer
        except asyncio.CancelledError:
            answer.cancel()  # what comes after all is for nobody
            raise
        finally:
            self._dropped(operation)

    def close(self) -> None:
        """Return when the worker has done what waits and has left. The next call starts another."""
        worker = self._worker
        self.stop_lingering()
        if worker:
            worker.join()

    def stop_lingering(self) -> None:
        """Return when the store is closed, unless a call is being served."""
        with _lock:
            self._may_linger = False
            while self._lingers:
                self._changed.wait(LINGER_POLL_SECONDS)

    def _line_up(self, operation: _Operation) -> None:
        with _lock:
            if self._worker is None:
                # Not a daemon: at the end of the interpreter it finishes what was begun.
                worker = Thread(target=self._serve_all, name="agent-memory", daemon=False)
                worker.start()  # it waits for `_lock`; where there are no more threads, it raises
                self._worker, self._may_linger = worker, True
            self._line.append(operation)
            self._changed.notify_all()

    def _dropped(self, operation: _Operation) -> bool:
        with _lock:
            if operation not in self._line:
                return False
            self._line.remove(operation)
            if not self._line:
                self._nobody_waits.set()
            return True

    def _serve_all(self) -> None:
        while True:
            with _lock:
                self._lingers = False
                if not self._line:
                    self._worker = None
                    return
                nobody_waits = self._nobody_waits = Event()
                deadline = max(operation.deadline for operation in self._line)
            try:
                visit = self._enter(deadline, nobody_waits)
            except BaseException as error:  # an engine that panics raises no Exception
                if not nobody_waits.is_set():  # else who is in the line has come since
                    self._refuse(error, deadline)
                continue
            last_answer = None
            try:
                with closing(visit):
                    last_answer = self._serve(visit)
            except BaseException as error:  # no operation's: theirs are in their answers
                logger.warning("A store was not closed as it should be: %s", type(error).__name__)
            if last_answer:
                last_answer()

    def _refuse(self, error: BaseException, deadline: float) -> None:
        with _lock:
            now = time.monotonic()
            for each in list(self._line):
                # If the time was over, those that came since have some left.
                if now < deadline or each.deadline <= now:
                    self._take(each).answer.set_exception(error)

    def _serve(self, visit: V) -> Callable[[], None] | None:
        # Returns what gives the last answer, for when the visit is closed: so a single call leaves
        # nothing open behind it.
        turn_ends = time.monotonic() + TURN_SECONDS
        while operation := self._next():
            try:
                result = operation.work(visit)
            except BaseException as error:
                return partial(operation.answer.set_exception, error)
            with _lock:  # before the answer is given: who has it may fork
                self._lingers = self._is_burst and self._may_linger
            if not self._line and not self._lingers:
                return partial(operation.answer.set_result, result)
            operation.answer.set_result(result)
            if not (self._another_comes(visit) and visit.still_valid()):
                break
            if time.monotonic() > turn_ends and visit.wanted():
                break
        return None

    def _another_comes(self, visit: V) -> bool:
        until = time.monotonic() + LINGER_SECONDS
        with _lock:
            while not self._line:
                # The main thread is the first to end when the interpreter does.
                lingers = self._lingers and self._may_linger and threading.main_thread().is_alive()
                if not lingers or time.monotonic() >= until:
                    return False
                # Whoever has just been answered may be about to call again.
                if not self._changed.wait(LINGER_POLL_SECONDS) and visit.wanted():
                    return False
        return True

    def _next(self) -> _Operation | None:
        with _lock:
            if not self._line:
                return None
            self._lingers = False
            now = time.monotonic()
            self._is_burst, self._begun = now - self._begun < LINGER_SECONDS, now
            return self._take(self._line[0])

    def _take(self, operation: _Operation) -> _Operation:
        self._line.remove(operation)
        operation.answer.set_running_or_notify_cancel()
        return operation


# Of every store that this process has called: a door knows when it was used last, and a tool makes
# a MemoryStorage for each call.
_doors: dict[Path, Door[Any]] = {}


def door_of(folder: Path, enter: Callable[[float, Event], V]) -> Door[V]:
    """The door to the store in `folder`, always the same one for a path, with the first `enter`,
    which takes the lock as `take_lock` does, and returns the visit.
    """
    with _lock:
        return _doors.setdefault(folder, Door(folder, enter))


def _before_fork() -> None:
    """A child would inherit a store that is open, and cannot use it."""
    _lock.acquire()
    for door in list(_doors.values()):
        door.stop_lingering()


def _after_in_child() -> None:
    for door in list(_doors.values()):
        door.reset()
    _lock.release()


os.register_at_fork(
    before=_before_fork, after_in_child=_after_in_child, after_in_parent=_lock.release
)
