"""Blocking work off the event loop, on a few threads of our own.

On the host's default threads, fifty calls that wait for a server would stop everything else that
the host does.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event
from typing import TypeVar

from . import posix  # noqa: F401 - where there is no fork, it says so
from .limits import WORKERS

T = TypeVar("T")

_this = threading.local()


def work_here() -> None:
    """From now on this thread does blocking work itself, as a worker does."""
    _this.is_worker = True


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, thread_name_prefix="agent-memory", initializer=work_here)


# Threads do not survive a fork: the child makes its own.
os.register_at_fork(after_in_child=_executor.cache_clear)


async def run_blocking(work: Callable[[Event], T]) -> T:
    """The result of `work(cancelled)` from a worker thread; a worker does it itself, because all
    others may be waiting for what it holds. If the caller is cancelled, it stops waiting at once
    and `cancelled` is set: work that only waits should give up then, work that writes should not.
    """
    cancelled = Event()
    if getattr(_this, "is_worker", False):
        return work(cancelled)
    try:
        return await asyncio.get_running_loop().run_in_executor(_executor(), work, cancelled)
    except asyncio.CancelledError:
        cancelled.set()
        raise
