"""What an examination finds about a store on this machine: its disk, folder, lock and shard."""

import errno
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Event

from ..errors import StorageError
from ..files.backend import FileBackend
from ..files.folder import AgentFolder
from ..files.info import Manifest
from ..files.lock import take_lock
from ..limits import MIN_FREE_BYTES
from ..resources import explanation, shortage
from ..settings import StorageConfig
from ..workers import run_blocking
from .apart import examine_apart
from .findings import (
    REPAIR,
    Finding,
    ShowProgress,
    about_info,
    about_memories,
    about_words,
    store_problem,
)

# How long to wait for a lock. A process that keeps it after a call releases it at once when wanted.
_LOCK_SECONDS = 0.5


async def findings(
    backend: FileBackend, config: StorageConfig, progress: ShowProgress
) -> AsyncIterator[Finding]:
    """All findings, each after those it depends on."""
    folder = backend.folder
    # Before anything else: opening a store tightens the rights of its folder.
    exposed = _exposed(folder.path)
    try:
        exists = folder.exists
        folder.require_writable()
    except StorageError as error:
        yield store_problem(error)
        return
    if not exists:
        doubt = config.doubt
        yield Finding(
            "problem" if doubt else "warning",
            "store",
            f"{folder.agent_id!r} has no memory in {folder.root}",
            doubt or "agent-memory agents",
        )
        for finding in _leftovers(folder):
            yield finding
        return
    free = shutil.disk_usage(folder.root).free
    if free < MIN_FREE_BYTES:
        yield Finding(
            "problem",
            "disk",
            f"{free / 1e6:.1f} MB are free; {MIN_FREE_BYTES / 1e6:.1f} MB are needed",
            "Free some space; until then, the store is not opened.",
        )
        return
    yield Finding("ok", "disk", f"{free / 1e9:.1f} GB free")

    try:
        info = await run_blocking(lambda _: folder.manifest())
    except StorageError as error:
        yield store_problem(error)
        return
    if info:
        yield about_info(info, info.shard)
    yield await run_blocking(lambda _: _lock_state(folder))
    try:
        with progress("Comparing", info.memories if info else 0) as bar:
            problems, number = await run_blocking(lambda _: examine_apart(backend, bar.done))
    except StorageError as error:
        yield store_problem(error)
        return
    for finding in about_memories(problems, number, "hashes, vectors and indexes", REPAIR):
        yield finding
    if info:
        for finding in (*about_words(config, info), *_erasure(info)):
            yield finding
    yield _permissions(folder.path, exposed)
    for finding in _leftovers(folder):
        yield finding


def _erasure(info: Manifest) -> Iterator[Finding]:
    if info.erasing:
        text = "bytes of forgotten memories may still be on disk: erasing them was interrupted"
        yield Finding("warning", "forgotten", text, REPAIR)


def _exposed(folder: Path) -> list[Path]:
    try:
        return [path for path in (folder, *folder.rglob("*")) if _open_to_others(path)]
    except OSError:  # not allowed to look; another finding says so
        return []


def _open_to_others(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)
    except FileNotFoundError:
        return False


def _permissions(folder: Path, exposed: list[Path]) -> Finding:
    left = [path for path in exposed if _open_to_others(path)]
    if left:
        return Finding(
            "warning",
            "permissions",
            f"others could read {len(left)} files, but not the folder they are in",
            f"chmod -R go-rwx {folder}",
        )
    if exposed:
        return Finding("ok", "permissions", "were too wide; tightened to the owner alone")
    return Finding("ok", "permissions", "the owner alone")


def _lock_state(folder: AgentFolder) -> Finding:
    try:
        with take_lock(folder.database, time.monotonic() + _LOCK_SECONDS, Event()):
            return Finding("ok", "lock", "free")
    except StorageError as error:
        return Finding("warning", "lock", str(error))
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
            f"Run the same reembed or repair again, or discard it: rm -r {left}",
        )
    if folder.removed.exists():
        text = "a removal was interrupted; some texts are left"
        yield Finding("warning", "removed", text, f"rm -r {folder.removed}")
    for kept in folder.kept:
        yield Finding(
            "warning",
            "kept files",
            f"{kept.name} holds what an earlier repair replaced, forgotten texts included",
            f"When you no longer need it: rm -r {kept}",
        )
