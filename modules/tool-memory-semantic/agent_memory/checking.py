"""The full check of a store in a process of its own: some damage makes the engine abort the process
that it runs in, or ask for more memory than there is.
"""

import asyncio
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from memory_semantic import MemoryStorage, StorageError
from memory_semantic.check import check
from memory_semantic.collection import Collection
from memory_semantic.errors import REPAIR, UNCHANGED, DamagedStoreError
from memory_semantic.open_store import OpenStore

# Address space for the check beside four times the store: an altered number in a list of ids makes
# the engine ask for up to 100 GB.
_CHECK_BYTES = 4 * 2**30

# How a process ends that the engine crashes. Any other end is none of the store's doing.
_CRASHES = [signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV]


def checked_apart(storage: MemoryStorage, progress: Callable[[int], None]) -> tuple[list[str], int]:
    """The problems of a store, a sentence each, and how many memories it holds. `progress` is told
    how many are done.

    Raises DamagedStoreError if the engine crashes on its files, and StorageError if the store
    cannot be checked.
    """
    apart = multiprocessing.get_context("spawn")
    ours, theirs = apart.Pipe(duplex=False)
    task = (storage.agent_id, asdict(storage.config), theirs)
    process = apart.Process(target=_check, args=task, daemon=True)
    process.start()
    theirs.close()
    try:
        while isinstance(answer := ours.recv(), int):
            progress(answer)
    except EOFError:
        process.join()
        answer = _end(process.exitcode or 0)
    finally:
        process.join()
    if isinstance(answer, StorageError):
        raise answer
    return answer


def _end(code: int) -> StorageError:
    """The error for a check that ended so without an answer."""
    if -code in _CRASHES:
        return DamagedStoreError(f"The vector engine crashes on the files of the store. {REPAIR}")
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return StorageError(f"The check failed: its process {how}. {UNCHANGED} Run it again.")


def _check(agent: str, config: dict[str, Any], answer: Connection) -> None:
    def work(store: OpenStore[Collection]) -> tuple[list[str], int]:
        return check(store, answer.send), store.manifest.memories

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what the engine says when it crashes
        storage = MemoryStorage(agent, config)
        files = (path for path in storage.folder.database.rglob("*") if path.is_file())
        _bound_memory(_CHECK_BYTES + 4 * sum(path.stat().st_size for path in files))
        answer.send(asyncio.run(storage.operate(work, ([], 0))))
    except StorageError as error:
        answer.send(error)
    except Exception as error:
        answer.send(StorageError(f"The check failed ({type(error).__name__}). {UNCHANGED}"))


def _bound_memory(size: int) -> None:
    """Let this process have at most `size` bytes of address space, where that can be set."""
    present, most = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [size, *(each for each in (present, most) if each != resource.RLIM_INFINITY)]
    with suppress(ValueError, OSError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), most))
