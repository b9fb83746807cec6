"""This process's one door to each store: calls line up there, and one worker runs them.

The worker waits for the store's lock and opens the store once for all waiting calls, so no other
thread waits for a lock, and calls that come together cost little more than one. After a burst of
calls it stays inside for a moment ("lingers"), and leaves as soon as anyone else wants the store.
"""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Condition, Event, RLock, Thread
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..errors import UNCHANGED, StorageError, starting_a_thread
from .lock import InUseError, in_use

logger = logging.getLogger(__name__)

# How long calls are served while another process waits for the lock: about six times as long as
# opening a store takes, so that most of a turn is work.
TURN_SECONDS = 0.1
# Two calls within this time are a burst, after which the store stays open for the same time: most
# of a call is opening and closing. No longer, because a process that is stopped (Ctrl-Z) meanwhile
# keeps all others out. 0 turns it off.
LINGER_SECONDS = 0.25
LINGER_POLL_SECONDS = 0.005  # as often as a waiting process polls the lock
# Even a call that must not wait for others needs a moment to reach the worker.
LEAST_SECONDS = 0.25

# Guards the lines of all doors. Held during a fork, so that the child can release it.
_lock = RLock()


class Visit(Protocol):
    """The store while its lock is held."""

    def close(self) -> None:
        """Close the store and release the lock. Called once, whatever has happened."""

    def wanted(self) -> bool:
        """Whether anyone else is waiting for the lock."""
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
    """The line of this process's calls on one store. Created by `door_of`."""

    def __init__(self, folder: Path, enter: Callable[[float, Event], V]) -> None:
        self._folder = folder
        self._enter = enter
        self.reset()

    def reset(self) -> None:
        """Forget the line and the worker; after a fork, both are the parent's."""
        self._changed = Condition(_lock)
        self._line: deque[_Operation] = deque()
        self._worker: Thread | None = None
        self._nobody_waits = Event()  # set when all who waited for the lock have given up
        self._begun = 0.0  # when the last operation began
        self._is_burst = self._may_linger = self._lingers = False

    async def run(self, work: Callable[[V], T], seconds: float) -> T:
        """Run `work` in the worker's thread, in the order of the calls; returns or raises the same.

        It is dropped if it has not begun after `seconds` or when the caller is cancelled; once
        begun, it completes, and what it has written must be on disk. Raises StorageError if the
        time is up or `work` itself calls this, and whatever entering the store raises.
        """
        if threading.current_thread() is self._worker:
            raise StorageError("A call on a store cannot wait for another one on it.", UNCHANGED)
        operation = _Operation(work, time.monotonic() + seconds, Future())
        self._line_up(operation)
        answer = asyncio.wrap_future(operation.answer)
        try:
            await asyncio.wait([answer], timeout=max(seconds, LEAST_SECONDS))
            if not self._dropped(operation):
                # The worker has waited for all in the line, perhaps since long before this call.
                with suppress(InUseError):
                    return await answer
            raise InUseError(in_use(self._folder, seconds), UNCHANGED)
        except asyncio.CancelledError:
            answer.cancel()  # nobody wants an answer that still comes
            raise
        finally:
            self._dropped(operation)

    def close(self) -> None:
        """Return when the worker has served the line and has left. The next call starts another."""
        worker = self._worker
        self.stop_lingering()
        if worker:
            worker.join()

    def stop_lingering(self) -> None:
        """Return once the store is closed, unless a call is being served."""
        with _lock:
            self._may_linger = False
            while self._lingers:
                self._changed.wait(LINGER_POLL_SECONDS)

    def _line_up(self, operation: _Operation) -> None:
        with _lock:
            if self._worker is None:
                # Not a daemon: when the interpreter ends, it finishes what it has begun.
                worker = Thread(target=self._serve_all, name="agent-memory", daemon=False)
                with starting_a_thread():
                    worker.start()  # it waits for `_lock`
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
                if not nobody_waits.is_set():  # else everyone in the line has come since
                    self._refuse(error, deadline)
                continue
            last_answer = None
            try:
                with closing(visit):
                    last_answer = self._serve(visit)
            except BaseException as error:  # from closing: operations' errors are in their answers
                logger.warning("A store was not closed properly: %s", type(error).__name__)
            if last_answer:
                last_answer()

    def _refuse(self, error: BaseException, deadline: float) -> None:
        with _lock:
            now = time.monotonic()
            for each in list(self._line):
                # If the time was up, calls that came since may have some left.
                if now < deadline or each.deadline <= now:
                    self._take(each).answer.set_exception(error)

    def _serve(self, visit: V) -> Callable[[], None] | None:
        # Returns a function that gives the last answer once the visit is closed, so that a single
        # call leaves nothing open behind it.
        turn_ends = time.monotonic() + TURN_SECONDS
        while operation := self._next():
            try:
                result = operation.work(visit)
            except BaseException as error:
                return partial(operation.answer.set_exception, error)
            with _lock:  # before the answer is given, because its receiver may fork
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
                # When the interpreter ends, the main thread ends first.
                lingers = self._lingers and self._may_linger and threading.main_thread().is_alive()
                if not lingers or time.monotonic() >= until:
                    return False
                # The caller that has just been answered may be about to call again.
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


# One door for every store that this process has called. They are kept, because a door knows when it
# was last used, and a tool creates a MemoryStorage for each call.
_doors: dict[Path, Door[Any]] = {}


def door_of(folder: Path, enter: Callable[[float, Event], V]) -> Door[V]:
    """The door to the store in `folder`, always the same one for a path. It keeps its first
    `enter`, which takes the lock as `take_lock` does and returns the visit.
    """
    with _lock:
        return _doors.setdefault(folder, Door(folder, enter))


def _before_fork() -> None:
    """A child would inherit an open store that it cannot use."""
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
