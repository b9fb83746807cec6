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

from ..backend import Progress, Repair, info_for, untold
from ..copying import Payloads, changes, fill, forget_in, payloads, put
from ..embeddings.choice import choose
from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, DamagedStoreError, StorageError, counted, explained
from ..limits import EMBEDDING_BATCH
from ..settings import StorageConfig
from ..store import StoreInfo
from ..workers import run_blocking
from . import disk
from .access import FileAccess
from .beside import COPIED, EMBEDDED, is_resumable, only_rebuild, target_in
from .recovery import Recovery
from .store import FileStore

T = TypeVar("T")

_HIDDEN = (
    "Deleted memories are in no answer, but their bytes may still be on disk: "
    "`agent-memory doctor --repair` erases them."
)


async def rebuild(
    access: FileAccess, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress
) -> int:
    """See `Backend.rebuild`."""
    with explained(UNCHANGED):
        present = await access.info()
        async with only_rebuild(access, 0):
            if present is None or present.embedder != info.embedder:
                target = target_in(access, EMBEDDED)
                return await _replace(access, target, info, generator, progress)
            disk.remove(target_in(access, EMBEDDED).folder.path)
            return await _replace(access, target_in(access, COPIED), info, None, progress)


async def plan_repair(access: FileAccess, config: StorageConfig) -> Repair:
    """A repair of a store that is damaged, lost or written by another engine: like `rebuild`, but
    from what is left of it. What is replaced is kept in a folder `damaged-…` beside the database.
    Raises StorageError if nothing is left.
    """
    access.folder.database.mkdir(mode=0o700, exist_ok=True)  # it may be lost
    source = Recovery(access)
    info = source.info
    if info:  # its model counts, whatever the settings name for new stores
        config = config.model_copy(update={"embedding_model": None, "dimensions": None})
    generator = choose(access.folder.agent_id, config, info)
    async with only_rebuild(access, 0):
        await source.run(Recovery.read)
    if not source.memories:
        raise StorageError(f"{source.found} There is nothing to make a new store from.", UNCHANGED)
    wanted = await info_for(access.folder.agent_id, config, generator)

    async def run(progress: Progress) -> str:
        with explained(UNCHANGED):
            async with only_rebuild(access, 0):
                target = target_in(access, EMBEDDED)
                number = await _replace(Recovery(access), target, wanted, generator, progress)
        return f"Rebuilt, with {counted(number)}."

    return Repair(
        "Start? The damaged files are kept.",
        run,
        f"{source.found}\nA new store will be made, with {wanted.model}.",
        list(source.memories.values()),
        generator,
    )


async def erase(access: FileAccess) -> None:
    """See `Backend.erase`."""
    try:
        with explained(_HIDDEN):
            async with only_rebuild(access, access.lock_seconds):
                await _erase(access)
    except StorageError as error:
        raise type(error)(str(error).removesuffix(error.outcome).rstrip(), _HIDDEN) from error


async def _erase(access: FileAccess) -> None:
    """Runs under the lock for rebuilds."""
    # Open the store, not only its manifest: that removes the shard that a killed run has replaced.
    info = await access.run(lambda store: store.info)
    if is_resumable(begun := target_in(access, EMBEDDED)):
        try:
            await forget_in(begun, access)
            await erase(begun)
        except DamagedStoreError:  # then it is useless
            await begun.close()
            disk.remove(begun.folder.path)
    if info and info.erasing:
        await _replace(access, target_in(access, COPIED), info, None, untold)


async def _replace(
    source: FileAccess | Recovery,
    target: FileAccess,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress,
) -> int:
    """Fill `target`, starting from what an interrupted run has left, and put its shard in place."""
    if not is_resumable(target, info.model, info.words):
        disk.remove(target.folder.path)
    found = await target.run(payloads, create=info) or {}
    while True:
        await fill(source, target, found, info, generator, progress)
        begun = await target.info()
        if begun and begun.erasing:  # what was deleted meanwhile
            await erase(target)
        found = await target.run(payloads) or {}
        await _settle(target)
        number = await _completed(source.run(partial(_swap, target, info, generator, found)))
        if number is not None:
            progress(number, number)
            return number


def _swap(
    target: FileAccess,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    found: Payloads,
    present: FileStore | Recovery,
) -> int | None:
    """Runs under the store's lock. `found` is what `target` holds; returns how many memories there
    are, or None if `target` holds any that were deleted meanwhile, or lacks more than a few.
    """
    wanted = payloads(present)
    stale, late = changes(found, wanted)
    if stale or len(wanted.keys() - found.keys()) > EMBEDDING_BATCH:
        return None

    async def add() -> None:
        await put(list(present.get(late).values()), target, info, generator)
        await _settle(target)

    if late:
        asyncio.run(add())
    manifest = target.folder.manifest()
    if manifest is None or manifest.memories != len(wanted):
        raise StorageError("The new shard does not hold all memories. Run it again.")
    present.replace_shard(target.folder.database / manifest.shard, manifest)
    return len(wanted)


async def _settle(target: FileAccess) -> None:
    """Close `target` and flush it to disk."""
    await target.close()
    manifest = await target.info()
    assert manifest
    await run_blocking(lambda: disk.settle(target.folder.database / manifest.shard))


async def _completed(running: Awaitable[T]) -> T:
    """The result of what must complete: if the caller is cancelled, it still ends first."""
    task = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
