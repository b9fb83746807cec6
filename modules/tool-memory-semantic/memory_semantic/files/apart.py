"""Work on the files of a store in a process of its own: damage can make the engine abort its
process, hang, or ask for more memory than there is.
"""

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

from ..errors import REPAIR, UNCHANGED, DamagedStoreError, StorageError, exhausted, explained
from ..resources import shortage

T = TypeVar("T")

# The slowest work here, the full check, takes 4 ms for a memory of 4 kB; then it hangs.
_SECONDS = 300
_BYTES_PER_SECOND = 250_000
# Address space besides four times the store's size: an altered number in a list of ids makes the
# engine ask for up to 100 GB.
_BYTES = 4 * 2**30
# How a process ends if the engine crashes it. Any other end is not the store's fault.
_CRASHES = [signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV]


def run_apart(work: Callable[..., T], *arguments: Any, size: int) -> T:
    """What `work` returns, a function of a module, in a process of its own; `size` is that of the
    store's files in bytes.

    Raises DamagedStoreError if the engine crashes or hangs on the files, the StorageError that
    `work` raises, and StorageError if the process fails otherwise.
    """
    apart = multiprocessing.get_context("spawn")
    ours, theirs = apart.Pipe(duplex=False)
    with explained(UNCHANGED):
        process = apart.Process(
            target=_answer, args=(theirs, 4 * size + _BYTES, work, arguments), daemon=True
        )
        process.start()
    theirs.close()
    try:
        if not ours.poll(_SECONDS + size / _BYTES_PER_SECOND):
            raise DamagedStoreError(f"The vector engine hangs on the store's files. {REPAIR}")
        answer = ours.recv()
    except EOFError:
        process.join()
        raise _end(process.exitcode or 0) from None
    finally:
        process.kill()
        process.join()
    if isinstance(answer, StorageError):
        raise answer
    return answer


def _end(code: int) -> StorageError:
    """The error for a process that ended with `code`, without an answer."""
    if -code in _CRASHES:
        return DamagedStoreError(f"The vector engine crashes on the store's files. {REPAIR}")
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return StorageError(f"The check failed: its process {how}. Run it again.", UNCHANGED)


def _end_with_parent() -> None:
    # It may be killed, and this would go on with the store's lock, or with files that are removed.
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _answer(answer: Connection, memory: int, work: Callable[..., Any], arguments: Any) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the engine prints there when it crashes
        with suppress(ValueError, OSError):  # macOS refuses it
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (memory, most))
        answer.send(work(*arguments))
    except StorageError as error:
        answer.send(error)
    except Exception as error:
        number = shortage(error)
        failed = StorageError(f"The check failed ({type(error).__name__}).", UNCHANGED)
        answer.send(exhausted("The check failed", number) if number else failed)
