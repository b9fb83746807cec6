"""The full check of a store in a separate process: some damage makes the engine abort its process,
or ask for more memory than there is.
"""

import asyncio
import errno
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from ..errors import REPAIR, UNCHANGED, DamagedStoreError, StorageError, exhausted, explained
from ..files import disk
from ..files.backend import FileBackend
from ..files.folder import AgentFolder
from ..resources import shortage
from ..store import Store
from .examine import examine

# Address space for the check besides four times the store's size: an altered number in a list of
# ids makes the engine ask for up to 100 GB.
_CHECK_BYTES = 4 * 2**30

# How a process ends if the engine crashes it. Any other end is not the store's fault.
_CRASHES = [signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV]


def examine_apart(backend: FileBackend, progress: Callable[[int], None]) -> tuple[list[str], int]:
    """The problems of a store, a sentence each, and how many memories it holds. Calls `progress`
    with how many are done.

    Raises DamagedStoreError if the engine crashes on the files or asks for more memory than they
    can need, and StorageError if the store cannot be checked.
    """
    apart = multiprocessing.get_context("spawn")
    with explained(UNCHANGED):
        ours, theirs = apart.Pipe(duplex=False)
        folder = backend.folder
        task = (folder.root, folder.agent_id, backend.lock_seconds, theirs)
        process = apart.Process(target=_check, args=task, daemon=True)
        process.start()
        theirs.close()
    try:
        while isinstance(answer := ours.recv(), int):
            progress(answer)
    except EOFError:
        process.join()
        answer = _end(process.exitcode or 0, folder)
    finally:
        process.join()
    if isinstance(answer, StorageError):
        raise answer
    return answer


def _end(code: int, folder: AgentFolder) -> StorageError:
    """The error for a check whose process ended with `code`, without an answer."""
    if -code in _CRASHES:
        if _may_have(_needed(folder)):
            return _crash()
        return exhausted("The check crashed", errno.ENOMEM)
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return StorageError(f"The check failed: its process {how}. {UNCHANGED} Run it again.")


def _crash() -> DamagedStoreError:
    return DamagedStoreError(f"The vector engine crashes on the store's files. {REPAIR}")


def _check(root: Path, agent: str, lock_seconds: float, answer: Connection) -> None:
    def work(store: Store) -> tuple[list[str], int]:
        return examine(store, answer.send), store.count()

    enough = False
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the engine prints there when it crashes
        folder = AgentFolder(root, agent)
        needed = _needed(folder)
        enough = _may_have(needed)
        if enough:
            with suppress(ValueError, OSError):  # macOS refuses it
                _, most = resource.getrlimit(resource.RLIMIT_AS)
                resource.setrlimit(resource.RLIMIT_AS, (needed, most))
        answer.send(asyncio.run(FileBackend(folder, lock_seconds).run(work)) or ([], 0))
    except StorageError as error:
        # If even more memory than any undamaged store needs is too little, the store is damaged.
        too_much = enough and shortage(error) == errno.ENOMEM
        answer.send(_crash() if too_much else error)
    except Exception as error:
        number = shortage(error)
        failed = f"The check failed ({type(error).__name__}). {UNCHANGED}"
        answer.send(exhausted("The check failed", number) if number else StorageError(failed))


def _needed(folder: AgentFolder) -> int:
    """The most bytes of address space that checking an undamaged store takes."""
    return _CHECK_BYTES + 4 * disk.size(folder.database)


def _may_have(size: int) -> bool:
    """Whether this process and its children may have `size` bytes of address space."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit == resource.RLIM_INFINITY or limit >= size
