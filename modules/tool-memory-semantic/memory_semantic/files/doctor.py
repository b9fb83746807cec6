"""What an examination finds about a store on this machine: its disk, folder, lock and shard."""

import errno
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

from ..backend import REPAIR_COMMAND, Finding, ShowProgress
from ..errors import StorageError
from ..findings import NO_STORE, about_info, about_memories, about_words, store_problem
from ..resources import explanation, readable_size, shortage
from ..settings import StorageConfig
from ..workers import run_blocking
from . import disk
from .access import FileAccess
from .child import examined
from .folder import AgentFolder
from .lock import take_lock

# How long to wait for a lock. A process that keeps it after a call releases it at once when wanted.
_LOCK_SECONDS = 0.5
# How many files of others are named.
_NAMED = 5


async def findings(
    access: FileAccess, config: StorageConfig, progress: ShowProgress
) -> AsyncIterator[Finding]:
    """All findings, each after those it depends on."""
    folder = access.folder
    for finding in _of_others(folder):
        yield finding
    # Before anything else: opening a store tightens the rights of its folder.
    was_open = _is_open_to_others(folder.path)
    try:
        exists = folder.exists
        folder.require_writable()
    except StorageError as error:
        yield store_problem(error)
        return
    if not exists:
        none = f"{folder.agent_id!r} has no store in {folder.root}."
        yield Finding("ok", "store", none, NO_STORE)
        for finding in _leftovers(folder):
            yield finding
        return
    try:
        disk.require_space(folder.root)
    except StorageError as error:
        yield Finding("problem", "disk", str(error))
        for finding in _leftovers(folder):
            yield finding
        return
    yield Finding("ok", "disk", f"{readable_size(shutil.disk_usage(folder.root).free)} free")

    try:
        info = await run_blocking(lambda: folder.manifest())
    except StorageError as error:
        yield store_problem(error)
        return
    if info:
        yield about_info(info, info.shard)
    yield await run_blocking(lambda: _lock_state(folder))
    try:
        with progress("Comparing", 1):
            problems, number = await run_blocking(lambda: examined(access))
    except StorageError as error:
        yield store_problem(error)
        return
    compared = "hashes, vectors, indexes and the journal"
    for finding in about_memories(problems, number, compared, REPAIR_COMMAND):
        yield finding
    if info:
        for finding in about_words(config, info):
            yield finding
        yield _journal(folder)
    # A file in it may be open to all while a session writes it: nobody else reaches it.
    tightened = "were too wide; tightened to the owner alone"
    yield Finding("ok", "permissions", tightened if was_open else "the owner alone")
    for finding in _leftovers(folder):
        yield finding


def _journal(folder: AgentFolder) -> Finding:
    if header := folder.journal.ends()[0]:
        size = readable_size(folder.journal.path.stat().st_size)
        return Finding("ok", "journal", f"{size}, of {header.shard}")
    remedy = f"See that you may write to {folder.path}, and that its disk has room."
    return Finding("warning", "journal", "none could be written", remedy)


def _of_others(folder: AgentFolder) -> Iterator[Finding]:
    beside, within = folder.of_others()
    names = [str(path.relative_to(folder.root)) for path in (*within, *beside)]
    if len(names) > _NAMED:
        names[_NAMED:] = [f"{len(names) - _NAMED:,} more"]
    if names:
        text = f"not made by agent-memory, and left alone: {', '.join(names)}"
        yield Finding("warning" if within else "ok", "other files", text)


def _is_open_to_others(folder: Path) -> bool:
    with suppress(OSError):  # another finding says so
        return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)
    return False


def _lock_state(folder: AgentFolder) -> Finding:
    try:
        with take_lock(folder.database, time.monotonic() + _LOCK_SECONDS, Event()):
            return Finding("ok", "lock", "free")
    except StorageError as error:  # if that lasts, the check says so
        return Finding("ok", "lock", str(error))
    except OSError as error:
        number = shortage(error)
        if number:
            return Finding("problem", "lock", explanation(number))
        if error.errno in (errno.EACCES, errno.EPERM, errno.EISDIR):  # the file is the cause
            path = folder.database / "lock"
            return Finding("problem", "lock", f"{error.filename or path}: {error.strerror}")
        return Finding(
            "problem",
            "lock",
            f"this file system has no locks ({error.strerror})",
            "Move the storage_root to a local disk.",
        )


def _leftovers(folder: AgentFolder) -> Iterator[Finding]:
    for left in folder.gathered:
        yield Finding(
            "warning",
            "vectors",
            "a reembed or a repair is running, or was interrupted and can be resumed",
            f"Run the same one again, or discard what it has: {disk.removal(left)}",
        )
    for kept in folder.damaged:
        yield Finding(
            "warning",
            "kept files",
            f"{kept.name} is a shard that a repair has not read whole, forgotten texts included",
            f"When you no longer need it: {disk.removal(kept)}",
        )
