"""A new store made beside the present one and put in its place: another model, or a repair.

It is made in `rebuild/` in the agent's folder, where it is an ordinary store of its own, so that
whatever interrupts the work, the present store serves on and the next run goes on from what is
there. The texts are embedded without the lock of the present store; what changed in it meanwhile is
applied under that lock, and one write of its manifest is the swap.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path
from threading import Event

from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage, StorageError, disk
from memory_semantic import manifest as manifests
from memory_semantic.collection import Point
from memory_semantic.errors import UNCHANGED
from memory_semantic.lock import locked
from memory_semantic.manifest import Embedding, Manifest
from memory_semantic.models import EMBEDDING_BATCH, HERE, Entry, point_id, utc_now
from memory_semantic.workers import run_blocking

from .salvage import Salvaged, salvage

# As many as are embedded and written at once: some seconds of work to lose, at most.
BATCH = 4 * EMBEDDING_BATCH
ALL = 2**31  # memories: any number of them


@dataclass
class Present:
    """The present store while its lock is held: what is in it, and how to put another in place.

    `replace` takes the folder of a shard and the manifest that describes it.
    """

    memories: list[Memory]
    replace: Callable[[Path, Manifest], None]


# Opens the present store; waiting for it ends when the event is set.
Source = Callable[[Event], AbstractContextManager[Present]]


def unfinished(storage: MemoryStorage) -> MemoryStorage | None:
    """The store that an interrupted rebuild has made so far, if it can be gone on with."""
    begun = _store_in(storage.folder.rebuild, storage, None)
    try:
        manifest = begun.folder.peek()
    except StorageError:
        return None
    return begun if manifest and (begun.folder.database / manifest.shard).is_dir() else None


@contextmanager
def none_running(storage: MemoryStorage) -> Iterator[None]:
    """While the block lasts no rebuild can run; what one left that is of no use is removed after.

    Raises StorageError if one is running.
    """
    storage.folder.require_writable()
    folder = storage.folder.rebuild
    with _alone(folder):
        try:
            yield
        finally:
            if not unfinished(storage):
                disk.remove(folder)


def read(source: Source, cancelled: Event) -> list[Memory]:
    """All memories of `source`."""
    with source(cancelled) as present:
        return present.memories


async def unembedded(storage: MemoryStorage, source: Source, made: Embedding) -> list[Memory]:
    """The memories of `source` that a rebuild with `made` has still to embed."""
    memories = await run_blocking(lambda cancelled: read(source, cancelled))
    begun = unfinished(storage)
    manifest = await begun.manifest() if begun else None
    if not (begun and manifest and manifest.embedding == made):
        return memories
    keys = [point_id(memory.content) for memory in memories]
    known = await begun.operate(lambda store: store.known(keys), set())
    return [m for m, key in zip(memories, keys, strict=True) if key not in known]


def give_up(storage: MemoryStorage) -> None:
    """Remove what an interrupted rebuild has made so far."""
    with none_running(storage):
        disk.remove(storage.folder.rebuild / storage.agent_id)


async def rebuild(
    storage: MemoryStorage,
    source: Source,
    generator: EmbeddingGenerator,
    made: Embedding,
    progress: Callable[[int, int], None],
) -> int:
    """Make the store of `storage` anew from the memories of `source`, with vectors of `generator`;
    `made` is what it makes. Returns how many memories there are.

    `progress` is told how many of how many are embedded.
    """
    target = _store_in(storage.folder.rebuild, storage, generator)
    new = storage.new_manifest(made, generator.endpoint, _manifest(storage))
    with none_running(storage):
        await run_blocking(lambda cancelled: _prepare(target, new, cancelled))
        while True:
            memories = await run_blocking(lambda cancelled: read(source, cancelled))
            keys = [point_id(memory.content) for memory in memories]
            known = await target.operate(lambda store, keys=keys: store.known(keys), set())
            missing = [m for m, key in zip(memories, keys, strict=True) if key not in known]
            progress(len(memories) - len(missing), len(memories))
            if len(missing) <= EMBEDDING_BATCH:
                break  # few enough to embed while the others wait
            for start in range(0, len(missing), BATCH):
                await target.put([Entry.of(each) for each in missing[start : start + BATCH]])
                done = len(memories) - len(missing) + start + BATCH
                progress(min(done, len(memories)), len(memories))
        number = await run_blocking(lambda cancelled: _swap(source, target, generator, cancelled))
        progress(number, number)
    return number


def _store_in(
    folder: Path, storage: MemoryStorage, generator: EmbeddingGenerator | None
) -> MemoryStorage:
    seconds = storage.config.lock_timeout
    config = {"storage_root": str(folder), "lock_timeout": seconds, "qdrant_url": HERE}
    return MemoryStorage(storage.agent_id, config, embeddings=generator)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder, 0, Event()))
        except StorageError as error:
            raise StorageError(
                f"Another rebuild of this memory is running. {UNCHANGED} Wait for it to end."
            ) from error
        yield


def _prepare(target: MemoryStorage, new: Manifest, cancelled: Event) -> None:
    """Have a store to fill: the one of an interrupted run, if it is to be the same."""
    database = target.folder.database
    try:
        begun = target.folder.peek()
    except StorageError:
        begun = None
    if not (begun and begun.embedding == new.embedding and (database / begun.shard).is_dir()):
        disk.remove(target.folder.path)
    with target.folder.open(cancelled, new):
        pass


def _swap(
    source: Source, target: MemoryStorage, generator: EmbeddingGenerator, cancelled: Event
) -> int:
    with source(cancelled) as present:
        wanted = {point_id(memory.content): memory for memory in present.memories}
        with target.folder.open(cancelled) as new:
            assert new is not None
            stored = {point_id(memory.content): memory for memory in new.newest(ALL)}
            new.erase([memory.id for key, memory in stored.items() if key not in wanted])
        with target.folder.open(cancelled) as new:
            assert new is not None
            missing = [key for key in wanted if key not in stored]
            texts = [wanted[key].content for key in missing]
            made = asyncio.run(generator.generate_batch(texts)) if texts else []
            vectors = dict(zip(missing, made, strict=True))
            changed = [key for key in wanted if key in stored and wanted[key] != stored[key]]
            vectors |= {point.id: point.vector for point in new.collection.retrieve(changed)}
            new.collection.write(
                [Point(key, vectors[key], wanted[key].dict_for_storage()) for key in vectors], {}
            )
            manifest = new.manifest
        if manifest.memories != len(wanted):
            raise StorageError(
                f"The new store holds {manifest.memories} of {len(wanted)} memories. {UNCHANGED}"
            )
        present.replace(target.folder.database / manifest.shard, manifest)
    disk.remove(target.folder.path)  # here, where no interruption reaches
    return len(wanted)


def whole(storage: MemoryStorage) -> Source:
    """A store that is in order."""

    @contextmanager
    def source(cancelled: Event) -> Iterator[Present]:
        with storage.folder.open(cancelled) as store:
            if store is None:
                raise StorageError(f"The agent {storage.agent_id!r} has no memory here.")

            yield Present(store.newest(ALL), store.collection.replace)

    return source


def damaged(storage: MemoryStorage) -> Source:
    """A store that cannot be trusted: the texts that are still in its files. What is replaced is
    kept, in a folder `damaged-…` beside the database.
    """

    @contextmanager
    def source(cancelled: Event) -> Iterator[Present]:
        folder, seconds = storage.folder, storage.config.lock_timeout
        with disk.pinned(folder.database) as database, locked(database, seconds, cancelled):
            shards = _shards(database)

            def replace(shard: Path, manifest: Manifest) -> None:
                kept = folder.keep_as(utc_now())
                shutil.copytree(
                    database, kept, copy_function=os.link, ignore=shutil.ignore_patterns("*.tmp")
                )
                disk.make_private(kept)
                number = max((int(old.name.rpartition("-")[2]) for old in shards), default=0) + 1
                shard.rename(database / f"shard-{number}")
                manifests.write(database, replace_fields(manifest, shard=f"shard-{number}"))
                for old in shards:
                    disk.remove(old)

            yield Present(_salvaged(storage).memories, replace)

    return source


async def add_words(storage: MemoryStorage) -> None:
    """Let the store hold the words of its texts from now on; nothing is embedded."""

    def work(cancelled: Event) -> None:
        with storage.folder.open(cancelled) as store:
            if store:
                store.collection.add_words()

    await run_blocking(work)


async def readable(storage: MemoryStorage) -> Salvaged:
    """What can be read of a damaged store."""

    def read(cancelled: Event) -> Salvaged:
        with locked(storage.folder.database, storage.config.lock_timeout, cancelled):
            return _salvaged(storage)

    return await run_blocking(read)


def _salvaged(storage: MemoryStorage) -> Salvaged:
    """What can be read in the shard that the manifest names; without that, in the fullest: more
    than one is what an interrupted swap leaves, which may hold what was deleted in the other.
    """
    database, manifest = storage.folder.database, _manifest(storage)
    found = {shard.name: salvage(shard, storage.agent_id) for shard in _shards(database)}
    if manifest and manifest.shard in found and found[manifest.shard].memories:
        return found[manifest.shard]
    return max(found.values(), key=lambda each: len(each.memories), default=Salvaged([], 0, 0))


def _manifest(storage: MemoryStorage) -> Manifest | None:
    """The manifest of the present store, if it can be read."""
    try:
        return manifests.read(storage.folder.database)
    except StorageError:
        return None


def _shards(database: Path) -> list[Path]:
    return list(database.glob("shard-*[0-9]"))
