"""Where a new shard is built on this machine, by one rebuild at a time: see `rebuild`."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Event

from ..errors import StorageError
from ..store import EmbeddingModel
from ..workers import run_blocking
from . import disk
from .access import FileAccess
from .folder import AgentFolder
from .lock import NAMES, Lock, take_lock

# A store whose texts are embedded, and one whose vectors are copied.
EMBEDDED, COPIED = "embedded", "copied"
# How often a rebuild that waits for another, which takes seconds, looks again.
_POLL_SECONDS = 0.05


def target_in(access: FileAccess, kind: str) -> FileAccess:
    """The store of this `kind`, EMBEDDED or COPIED, that is built beside the store of `access`."""
    folder = access.folder
    beside = AgentFolder(folder.rebuild / kind, folder.agent_id, backed_up=False)
    return FileAccess(beside, access.lock_seconds)


def is_resumable(
    target: FileAccess, model: EmbeddingModel | None = None, words: bool | None = None
) -> bool:
    """Whether an interrupted rebuild has left a store there, with this model and with or without
    `words`; None stands for any.
    """
    try:
        manifest = target.folder.manifest()
    except StorageError:
        return False
    if manifest is None or not (target.folder.database / manifest.shard).is_dir():
        return False
    return model in (None, manifest.model) and words in (None, manifest.words)


@asynccontextmanager
async def only_rebuild(access: FileAccess, patience: float) -> AsyncIterator[None]:
    """No other rebuild runs during the block. Leftovers of earlier rebuilds are removed before it,
    and those of this one after it, unless they can be resumed.

    Raises StorageError if another rebuild runs for longer than `patience` seconds, or if there is
    no store.
    """
    folder = access.folder
    folder.require_writable()
    if not folder.exists:
        raise StorageError(f"The agent {folder.agent_id!r} has no store here.")
    with await _only_one(folder, patience):
        await run_blocking(lambda: _clear(access))
        try:
            yield
        finally:
            for kind in (EMBEDDED, COPIED):
                await target_in(access, kind).close()
            await run_blocking(lambda: _clear(access))
            _leave(folder)


async def _only_one(folder: AgentFolder, patience: float) -> Lock:
    end = time.monotonic() + patience
    while True:
        with suppress(FileNotFoundError, StorageError):  # another has just left, or is at work
            folder.rebuild.mkdir(mode=0o700, exist_ok=True)
            return take_lock(folder.rebuild, time.monotonic(), Event())
        if time.monotonic() >= end:
            raise StorageError("Another rebuild of this store is running. Wait for it to end.")
        await asyncio.sleep(_POLL_SECONDS)


def _clear(access: FileAccess) -> None:
    rebuild = access.folder.rebuild
    kept = (*NAMES, EMBEDDED) if is_resumable(target_in(access, EMBEDDED)) else NAMES
    for entry in list(rebuild.iterdir()):
        if entry.name not in kept:
            disk.remove(entry)
    disk.remove(rebuild.with_suffix(".tmp"))


def _leave(folder: AgentFolder) -> None:
    """Remove the folder for rebuilds, unless one can be resumed. Another may begin meanwhile."""
    if not (folder.rebuild / EMBEDDED).exists():
        with suppress(OSError):
            for name in reversed(NAMES):
                (folder.rebuild / name).unlink()
            folder.rebuild.rmdir()
