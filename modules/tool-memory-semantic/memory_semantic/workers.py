"""Blocking work off the event loop, on a few threads of our own.

On the host's default threads, fifty calls that wait for a server would block everything else that
the host does there.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event
from typing import TypeVar

from . import posix  # noqa: F401 - it says so where there is no fork
from .limits import WORKERS

T = TypeVar("T")

_this = threading.local()


def work_here() -> None:
    """Let this thread do blocking work itself from now on, as a worker does."""
    _this.is_worker = True


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, thread_name_prefix="agent-memory", initializer=work_here)


# Threads do not survive a fork: the child starts its own.
os.register_at_fork(after_in_child=_executor.cache_clear)


async def run_blocking(work: Callable[[Event], T]) -> T:
    """Run `work(cancelled)` on a worker thread; a worker runs it itself, because all others may be
    waiting for what it holds. If the caller is cancelled, it stops waiting at once and `cancelled`
    is set: work that only waits should then give up, work that writes should not.
    """
    cancelled = Event()
    if getattr(_this, "is_worker", False):
        return work(cancelled)
    try:
        return await asyncio.get_running_loop().run_in_executor(_executor(), work, cancelled)
    except asyncio.CancelledError:
        cancelled.set()
        raise
