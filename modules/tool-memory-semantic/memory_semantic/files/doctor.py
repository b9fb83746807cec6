"""What an examination finds about a store on this machine: its disk, folder, lock and shard."""

import asyncio
import errno
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event

from ..backend import REPAIR_COMMAND, Finding, ShowProgress
from ..errors import StorageError
from ..examine import examine
from ..findings import NO_STORE, about_info, about_memories, about_words, store_problem
from ..resources import explanation, readable_size, shortage
from ..settings import StorageConfig
from ..workers import run_blocking
from . import disk
from .access import FileAccess
from .apart import run_apart
from .folder import AgentFolder
from .info import Manifest
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
            check = partial(_examine, folder.root, folder.agent_id, access.lock_seconds)
            size = disk.size(folder.database)
            problems, number = await run_blocking(lambda: run_apart(check, size=size))
    except StorageError as error:
        yield store_problem(error)
        return
    for finding in about_memories(problems, number, "hashes, vectors and indexes", REPAIR_COMMAND):
        yield finding
    if info:
        for finding in (*about_words(config, info), *_erasure(info)):
            yield finding
        yield _backup(folder)
    # A file in it may be open to all while a session writes it: nobody else reaches it.
    tightened = "were too wide; tightened to the owner alone"
    yield Finding("ok", "permissions", tightened if was_open else "the owner alone")
    for finding in _leftovers(folder):
        yield finding


def _examine(root: Path, agent: str, lock_seconds: float) -> tuple[list[str], int]:
    """The problems of a store, a sentence each, and how many memories it holds."""
    access = FileAccess(AgentFolder(root, agent), lock_seconds)
    return asyncio.run(access.run(lambda store: (examine(store), store.count()))) or ([], 0)


def _backup(folder: AgentFolder) -> Finding:
    header = folder.backup and folder.backup.header()
    if header:
        return Finding("ok", "backup", f"of {header.exported:%Y-%m-%d %H:%M} UTC")
    remedy = f"See that you may write to {folder.path}, and that its disk has room."
    return Finding("warning", "backup", "none could be written", remedy)


def _erasure(info: Manifest) -> Iterator[Finding]:
    if info.erasing:
        text = "bytes of forgotten memories may still be on disk: some are being erased, or that "
        text += "was interrupted"
        yield Finding("warning", "forgotten", text, REPAIR_COMMAND)


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
    for left in (folder.rebuild, folder.rebuild.with_suffix(".tmp")):
        if not left.exists():
            continue
        yield Finding(
            "warning",
            "rebuild",
            "one is running, or was interrupted and can be resumed",
            f"Run the same reembed or repair again, or discard it: {disk.removal(left)}",
        )
    for kept in folder.kept:
        yield Finding(
            "warning",
            "kept files",
            f"{kept.name} holds what an earlier repair replaced, forgotten texts included",
            f"When you no longer need it: {disk.removal(kept)}",
        )
