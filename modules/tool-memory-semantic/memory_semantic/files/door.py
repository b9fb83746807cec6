"""This process's one line to each store: calls queue up, and one thread runs them with it open.

After a burst of calls the store stays open for a moment ("lingers"), because most of a call is
opening and closing; its worker leaves as soon as another process wants it.
"""

import asyncio
import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, Protocol, TypeVar

from ..errors import UNCHANGED, StorageError, explained
from .lock import POLL_SECONDS, InUseError, in_use

logger = logging.getLogger(__name__)

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

    def wanted(self) -> bool:
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
        with _lock:
            if self._worker is None:
                # A daemon, so that the end of the interpreter need not wait until it leaves by
                # itself: `close_all` makes it finish what it has begun.
                worker = Thread(target=self._serve, name="agent-memory", daemon=True)
                with explained(UNCHANGED):
                    worker.start()
                self._worker = worker
            self._calls.put(call)

    def _serve(self) -> None:
        opened, turn_ends = None, 0.0
        while True:
            call = self._next(opened, turn_ends)
            if opened and not (call and opened.valid()):
                opened = _close(opened)
            if call is None:
                with _lock:
                    if self._calls.empty():
                        self._worker = None
                        return
            elif not call.answer.cancelled():
                opened, turn_ends = self._answer(call, opened, turn_ends)

    def _answer(self, call: _Call, opened: Any, turn_ends: float) -> tuple[Any, float]:
        result = None
        try:
            if opened is None:
                opened = call.enter(call.deadline, call.answer.cancelled)
                turn_ends = time.monotonic() + TURN_SECONDS
            if not call.answer.set_running_or_notify_cancel():
                return opened, turn_ends
            now = time.monotonic()
            self._lingers, self._begun = now - self._begun < LINGER_SECONDS, now
            if opened:
                result = call.work(opened)
        except BaseException as error:  # an engine that panics raises no Exception
            opened = _close(opened)
            if call.answer.running() or call.answer.set_running_or_notify_cancel():
                call.answer.set_exception(error)
        else:
            call.answer.set_result(result)
        return opened, turn_ends

    def _next(self, opened: Opened | None, turn_ends: float) -> _Call | None:
        """The next call; None if the store must be closed first, or there is none."""
        if opened is None:
            with suppress(Empty):
                return self._calls.get_nowait()
            return None
        seconds, pause = (LINGER_SECONDS, POLL_SECONDS) if self._lingers else (0, 0)
        end = time.monotonic() + seconds
        with suppress(OSError):  # a file system that fails now is an error of the next call
            while time.monotonic() < turn_ends or not opened.wanted():
                try:
                    return self._calls.get(timeout=pause)
                except Empty:
                    if time.monotonic() >= end or opened.wanted():
                        break
        return None


def _close(opened: Opened | None) -> None:
    try:
        if opened:
            opened.close()
    except BaseException as error:
        logger.warning("A store was not closed properly: %s", type(error).__name__)


_lock = Lock()
# One door for every store that this process has called: a tool creates a MemoryStorage for each
# call.
_doors: dict[Path, Door] = {}


def door_of(folder: Path) -> Door:
    """The door to the store in `folder`, always the same one for a path."""
    with _lock:
        return _doors.setdefault(folder, Door(folder))


@atexit.register
def close_all() -> None:
    """Close every store that is open, once what has begun is done."""
    for door in list(_doors.values()):
        door.close()


def _forget() -> None:
    """In a child, which has none of its parent's threads and cannot use what they have open."""
    global _lock
    _lock = Lock()
    _doors.clear()


os.register_at_fork(after_in_child=_forget)
