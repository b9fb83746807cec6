"""What an examination finds about a store on this machine: its disk, folder, shard and journal."""

import shutil
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import REPAIR_COMMAND, StorageError, readable_size
from ..findings import (
    NO_STORE,
    Finding,
    ShowProgress,
    about_info,
    about_memories,
    about_words,
    store_problem,
)
from ..settings import StorageConfig
from ..workers import run_blocking
from . import disk
from .child import examined
from .folder import AgentFolder
from .place import FilePlace
from .repair import shard_that_counts


async def findings(
    place: FilePlace, config: StorageConfig, progress: ShowProgress
) -> AsyncIterator[Finding]:
    """All findings, each after those it depends on."""
    async for finding in _of_store(place, config, progress):
        yield finding
    for finding in _leftovers(place.folder):
        yield finding


async def _of_store(
    place: FilePlace, config: StorageConfig, progress: ShowProgress
) -> AsyncIterator[Finding]:
    folder = place.folder
    # Before anything else: opening a store tightens the rights of its folder.
    was_open = _is_open_to_others(folder.path)
    try:
        exists = folder.exists
        folder.require_writable()
        if not exists:
            none = f"{folder.agent_id!r} has no store in {folder.root}."
            yield Finding("ok", "store", none, NO_STORE)
            return
        disk.require_space(folder.root)
        yield Finding("ok", "disk", f"{readable_size(shutil.disk_usage(folder.root).free)} free")
        info = await run_blocking(folder.manifest)
        if info:
            yield about_info(info, info.shard)
        with progress("Comparing", 1):
            problems, number = await run_blocking(lambda: examined(place))
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


def _journal(folder: AgentFolder) -> Finding:
    if header := folder.journal.ends()[0]:
        size = readable_size(folder.journal.path.stat().st_size)
        return Finding("ok", "journal", f"{size}, of {header.shard}")
    remedy = f"See that you may write to {folder.path}, and that its disk has room."
    return Finding("warning", "journal", "none could be written", remedy)


def _is_open_to_others(folder: Path) -> bool:
    with suppress(OSError):  # another finding says so
        return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)
    return False


def _leftovers(folder: AgentFolder) -> Iterator[Finding]:
    for left in folder.gathered:
        yield Finding(
            "warning",
            "vectors",
            "a reembed or a repair is running, or was interrupted and can be resumed",
            f"Run the same one again, or discard what it has: {disk.removal(left)}",
        )
    shard: Path | None = None
    with suppress(StorageError):  # another finding says so
        shard = shard_that_counts(folder) if folder.exists else None
    for kept in folder.damaged:
        if kept == shard:
            text = f"{kept.name} is the shard of this store: a repair of it was interrupted"
            yield Finding("warning", "kept files", text, REPAIR_COMMAND)
        else:
            text = f"{kept.name} is a shard that a repair has replaced, forgotten texts included"
            mend = f"When you no longer need it: {disk.removal(kept)}"
            yield Finding("warning", "kept files", text, mend)
