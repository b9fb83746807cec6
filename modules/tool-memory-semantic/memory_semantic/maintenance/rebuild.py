"""A new shard in place of the present one: another model, words added, an erasure, a repair.

The new shard is filled beside the present one, in `rebuild/` in the agent's folder, where it is the
shard of an ordinary store. The present store is read in short calls, so others wait briefly only.
Under its lock, at last, what changed meanwhile is applied, and one write of the manifest is the
swap. What was deleted meanwhile leaves its bytes in the new shard: then that is erased itself
first, in the same way, and the swap tried again. So nothing that was forgotten comes back, and
when a rebuild is done, no byte of it is left.

    rebuild/queue, lock         one rebuild at a time
    rebuild/embedded/<agent>/   made with a model: the next run resumes it
    rebuild/copied/<agent>/     made of the vectors that there are: the next run begins another

On a server a new collection takes the place of the present one: see `on_server`.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import TypeVar

from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, DamagedStoreError, StorageError, explained
from ..files import disk
from ..files.backend import FileBackend
from ..files.info import Manifest
from ..files.store import FileStore
from ..memory import Memory
from ..store import Backend, EmbeddingModel, Store, StoreInfo
from ..workers import run_blocking, work_here
from . import on_server
from .copy import Payloads, Progress, changes, fill, memories_in, payloads, put, take_out
from .damaged import DamagedFiles
from .place import COPIED, EMBEDDED, is_resumable, only_rebuild, target_in

T = TypeVar("T")

_HIDDEN = (
    "What was deleted is out of every answer, but its bytes may still be on the disk: "
    "`agent-memory doctor --repair` erases them."
)


def _untold(done: int, of: int) -> None:
    """Nobody wants to know."""


async def rebuild(
    backend: Backend,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress = _untold,
) -> int:
    """Make the store as `info` says, with vectors of `generator`, which has the model of `info`;
    with None the vectors are copied. Returns how many memories there are.

    Raises StorageError if another rebuild is running, and if there is no store. Interrupted, the
    store is as it was; the next run with the same model embeds no text again.
    """
    if not isinstance(backend, FileBackend):
        return await on_server.rebuild(backend, info, generator, progress)
    with explained(UNCHANGED):
        async with only_rebuild(backend, 0):
            target = target_in(backend, EMBEDDED if generator else COPIED)
            return await _replace(backend, target, info, generator, progress)


async def repair(
    backend: FileBackend,
    info: StoreInfo,
    generator: EmbeddingGenerator,
    progress: Progress = _untold,
) -> int:
    """As `rebuild`, from the texts that can be read in files that are damaged, or another engine's.
    What is replaced is kept, in a folder `damaged-…` beside the database.
    """
    with explained(UNCHANGED):
        async with only_rebuild(backend, 0):
            files, target = DamagedFiles(backend), target_in(backend, EMBEDDED)
            return await _replace(files, target, info, generator, progress)


async def erase(backend: Backend) -> None:
    """Leave no byte of what was deleted from the store, nor of what rebuilds have left of it.

    Waits for another rebuild to end, as long as for the store. Raises StorageError, which says that
    the erasure is still due.
    """
    if not isinstance(backend, FileBackend):
        for begun in await _unfinished(backend):
            await _forget_in(begun, backend)
        return
    try:
        with explained(_HIDDEN):
            async with only_rebuild(backend, backend.lock_seconds):
                await _erase(backend)
    except StorageError as error:
        raise type(error)(str(error).removesuffix(error.outcome).rstrip(), _HIDDEN) from error


async def give_up(backend: Backend) -> None:
    """Remove what an interrupted rebuild has left, on this machine. Raises StorageError if one is
    running.
    """
    if not isinstance(backend, FileBackend):
        return
    with explained(UNCHANGED):
        async with only_rebuild(backend, 0):
            disk.remove(target_in(backend, EMBEDDED).folder.path)


async def unembedded(
    backend: Backend, info: StoreInfo, among: Iterable[Memory] | None = None
) -> list[Memory]:
    """The memories that a rebuild to the model of `info` has still to embed, of the store's or of
    those that a repair has found.
    """
    memories = {memory.key: memory for memory in among or ()}
    if among is None:
        memories = await memories_in(backend)
    for begun in await _unfinished(backend, info.model):
        known = await begun.run(payloads) or {}
        memories = {key: memory for key, memory in memories.items() if key not in known}
    return list(memories.values())


async def _unfinished(backend: Backend, model: EmbeddingModel | None = None) -> list[Backend]:
    if not isinstance(backend, FileBackend):
        return await on_server.unfinished(backend, model)
    target = target_in(backend, EMBEDDED)
    return [target] if is_resumable(target, model) else []


async def _forget_in(begun: Backend, backend: Backend) -> None:
    found = await begun.run(payloads) or {}  # first: what is stored meanwhile is not among it
    stale, _ = changes(found, await backend.run(payloads) or {})
    await take_out(begun, stale)


async def _erase(backend: FileBackend) -> None:
    """With the lock of rebuilds."""
    # Opened, not read from the manifest: that removes the shard which a killed run has replaced.
    info = await backend.run(lambda store: store.info)
    for begun in await _unfinished(backend):
        try:
            await _forget_in(begun, backend)
            await erase(begun)
        except DamagedStoreError:  # it is of no use
            await begun.close()
            disk.remove(target_in(backend, EMBEDDED).folder.path)
    if info and info.erasing:
        await _replace(backend, target_in(backend, COPIED), info, None, _untold)


async def _replace(
    source: FileBackend | DamagedFiles,
    target: FileBackend,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress,
) -> int:
    """Fill the `target`, or what an interrupted run has left there, and put its shard in place."""
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
    """Under the lock of the store. `found` is what the `target` holds; returns how many memories
    there are, None if the target holds any that were deleted meanwhile.
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
        work_here()  # the workers may all be waiting for what this thread holds
        asyncio.run(add())
    manifest = target.folder.manifest()
    if manifest is None or manifest.memories != len(wanted):
        raise StorageError("The new shard does not hold all memories. Run it again.")
    present.replace_shard(target.folder.database / manifest.shard, manifest)
    return len(wanted)


async def _settled(target: FileBackend) -> Payloads:
    """What is in the `target`, which is closed, and on disk."""
    found, manifest = await target.run(lambda store: (payloads(store), store.info)) or ({}, None)
    assert isinstance(manifest, Manifest)
    await target.close()
    await run_blocking(lambda _: disk.settle(target.folder.database / manifest.shard))
    return found


async def _completed(running: Awaitable[T]) -> T:
    """The result of what must not be left alone: if the caller is cancelled, it ends first."""
    task = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
