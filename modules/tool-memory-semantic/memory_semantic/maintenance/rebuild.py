"""Puts a new shard in place of the present one: for another model, words, an erasure or a repair.

The new shard is filled beside the present one, in `rebuild/` in the agent's folder, where it is the
shard of an ordinary store. The present store is read in short calls, so others wait only briefly.
Finally, under its lock, what changed meanwhile is applied, and one write of the manifest is the
swap. What was deleted meanwhile would leave its bytes in the new shard. In that case, the new shard
is first erased in the same way, and the swap is tried again. So nothing that was forgotten comes
back, and after a rebuild no byte of it is left.

    rebuild/queue, lock         one rebuild at a time
    rebuild/embedded/<agent>/   embedded with a model: the next run resumes it
    rebuild/copied/<agent>/     copied vectors: the next run starts over
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, DamagedStoreError, StorageError, explained
from ..files import disk
from ..files.backend import FileBackend
from ..files.info import Manifest
from ..files.store import FileStore
from ..store import EmbeddingModel, Store, StoreInfo
from ..workers import run_blocking, work_here
from .beside import COPIED, EMBEDDED, is_resumable, only_rebuild, target_in
from .copy import Payloads, Progress, changes, fill, forget_in, payloads, put
from .damaged import DamagedFiles

T = TypeVar("T")

_HIDDEN = (
    "Deleted memories are in no answer, but their bytes may still be on disk: "
    "`agent-memory doctor --repair` erases them."
)


async def rebuild(
    backend: FileBackend, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress
) -> int:
    """See `Place.rebuild`."""
    with explained(UNCHANGED):
        present = await backend.info()
        async with only_rebuild(backend, 0):
            if present is None or present.model != info.model:
                target = target_in(backend, EMBEDDED)
                return await _replace(backend, target, info, generator, progress)
            disk.remove(target_in(backend, EMBEDDED).folder.path)
            return await _replace(backend, target_in(backend, COPIED), info, None, progress)


async def repair(
    backend: FileBackend, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress
) -> int:
    """Like `rebuild`, but from the texts that can be read in files that are damaged or written by
    another engine. What is replaced is kept in a folder `damaged-…` beside the database.
    """
    with explained(UNCHANGED):
        async with only_rebuild(backend, 0):
            files, target = DamagedFiles(backend), target_in(backend, EMBEDDED)
            return await _replace(files, target, info, generator, progress)


async def erase(backend: FileBackend) -> None:
    """See `Place.erase`."""
    try:
        with explained(_HIDDEN):
            async with only_rebuild(backend, backend.lock_seconds):
                await _erase(backend)
    except StorageError as error:
        raise type(error)(str(error).removesuffix(error.outcome).rstrip(), _HIDDEN) from error


def unfinished(backend: FileBackend, model: EmbeddingModel | None) -> list[FileBackend]:
    """The stores that interrupted rebuilds have left, with this `model` or any."""
    target = target_in(backend, EMBEDDED)
    return [target] if is_resumable(target, model) else []


async def _erase(backend: FileBackend) -> None:
    """Runs under the lock for rebuilds."""
    # Open the store, not only its manifest: that removes the shard that a killed run has replaced.
    info = await backend.run(lambda store: store.info)
    for begun in unfinished(backend, None):
        try:
            await forget_in(begun, backend)
            await erase(begun)
        except DamagedStoreError:  # then it is useless
            await begun.close()
            disk.remove(target_in(backend, EMBEDDED).folder.path)
    if info and info.erasing:
        await _replace(backend, target_in(backend, COPIED), info, None, lambda done, of: None)


async def _replace(
    source: FileBackend | DamagedFiles,
    target: FileBackend,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress,
) -> int:
    """Fill `target`, starting from what an interrupted run has left, and put its shard in place."""
    if not is_resumable(target, info.model, info.words):
        disk.remove(target.folder.path)
    await target.run(lambda store: None, create=info)
    while True:
        await fill(source, target, info, generator, progress)
        begun = await target.info()
        if begun and begun.erasing:  # what was deleted meanwhile
            await erase(target)
        found = await _settled(target)
        number = await _completed(source.run(partial(_swap, target, info, generator, found)))
        if number is not None:
            progress(number, number)
            return number


def _swap(
    target: FileBackend,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    found: Payloads,
    present: Store | DamagedFiles,
) -> int | None:
    """Runs under the store's lock. `found` is what `target` holds; returns how many memories there
    are, or None if `target` holds any that were deleted meanwhile.
    """
    assert isinstance(present, FileStore | DamagedFiles)
    wanted = payloads(present)
    stale, late = changes(found, wanted)
    if stale:
        return None

    async def add() -> None:
        await put(list(present.get(late).values()), target, info, generator)
        await _settled(target)

    if late:
        work_here()  # all workers may be waiting for what this thread holds
        asyncio.run(add())
    manifest = target.folder.manifest()
    if manifest is None or manifest.memories != len(wanted):
        raise StorageError("The new shard does not hold all memories. Run it again.")
    present.replace_shard(target.folder.database / manifest.shard, manifest)
    return len(wanted)


async def _settled(target: FileBackend) -> Payloads:
    """Close `target`, flush it to disk, and return what it holds."""
    found, manifest = await target.run(lambda store: (payloads(store), store.info)) or ({}, None)
    assert isinstance(manifest, Manifest)
    await target.close()
    await run_blocking(lambda _: disk.settle(target.folder.database / manifest.shard))
    return found


async def _completed(running: Awaitable[T]) -> T:
    """The result of what must complete: if the caller is cancelled, it still ends first."""
    task = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
