"""Blocking work off the event loop, on threads that are not the host's default ones: fifty calls
that wait for a server there would block everything else that the host does on them.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar
from weakref import WeakKeyDictionary

from . import posix  # noqa: F401 - it says so where there is no fork
from .errors import UNCHANGED, explained
from .limits import WORKERS

T = TypeVar("T")

# Of each event loop: one that a thread runs for what it holds has its own, and waits for no other.
# The threads end with their loop. They do not survive a fork: the child starts its own.
_executors: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
os.register_at_fork(after_in_child=_executors.clear)


async def run_blocking(work: Callable[[], T]) -> T:
    """Run `work` on a thread. If the caller is cancelled, it stops waiting at once, and work that
    has begun runs to its end. Raises StorageError if there can be no more threads.
    """
    loop = asyncio.get_running_loop()
    if loop not in _executors:
        _executors[loop] = ThreadPoolExecutor(WORKERS, thread_name_prefix="agent-memory")
    with explained(UNCHANGED):
        running = loop.run_in_executor(_executors[loop], work)
    return await running


async def run_cancellable(work: Callable[[Event], T]) -> T:
    """Like `run_blocking`, for `work(cancelled)` that waits for others: once the caller is
    cancelled, `cancelled` is set, and work that has changed nothing yet should give up.
    """
    cancelled = Event()
    try:
        return await run_blocking(lambda: work(cancelled))
    finally:
        cancelled.set()
