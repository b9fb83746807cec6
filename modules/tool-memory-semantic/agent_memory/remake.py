"""On a server: a new collection made beside the present one and put in its place.

Others store and forget meanwhile. What they do until the alias stands for the new collection is
taken along after that; what they do later reaches the new one.
"""

from collections.abc import Callable
from functools import partial
from threading import Event
from uuid import UUID

from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage, StorageError
from memory_semantic.collection import EVERYWHERE, Collection, Hit, Point
from memory_semantic.manifest import Embedding, Manifest
from memory_semantic.open_store import OpenStore
from memory_semantic.workers import run_blocking
from memory_server import Server

from .copying import Opener, copy, memories_in, missing
from .rebuild import ALL


async def remake(
    storage: MemoryStorage,
    server: Server,
    generator: EmbeddingGenerator,
    made: Embedding,
    progress: Callable[[int, int], None],
) -> int:
    """Give the memory of `storage` a new collection, with vectors of `generator`, which makes
    `made`; those of the same model are copied. Returns how many memories there are.
    """
    present = await storage.manifest()
    if present is None:
        raise StorageError(f"The agent {storage.agent_id!r} has no memory on the server.")
    new = storage.new_manifest(made, generator.endpoint, present)
    new.shard = f"shard-{int(present.shard.rpartition('-')[2]) + 1}"
    source, target = _opener(server, present), _opener(server, new)
    embed = None if made == present.embedding else generator
    await run_blocking(lambda _: server.make(new))
    before = await copy(source, target, embed, progress)
    begun = await memories_in(target)  # by an interrupted run, of which some is forgotten by now
    await _forget(target, {key: begun[key] for key in begun.keys() - before.keys()})
    problems = await missing(before, source, target, same_model=embed is None, progress=progress)
    if problems:
        raise StorageError(f"The new collection lacks memories, and is not used. {problems[0]}")
    await run_blocking(lambda _: server.switch(new.shard))
    after = await copy(source, target, embed, progress, besides=before)
    await _forget(target, {key: before[key] for key in before.keys() - after.keys()})
    for shard in await run_blocking(lambda _: server.shards()):
        if shard != new.shard:
            await run_blocking(lambda _, shard=shard: server.remove_shard(shard))
    return len(after)


async def draw_anew(storage: MemoryStorage) -> int:
    """Give ids of their own to memories that share one; the oldest keeps it. Returns how many."""

    def work(store: OpenStore[Collection]) -> int:
        seen: set[str] = set()
        doubled: list[UUID] = []
        for hit in reversed(store.collection.newest(ALL, EVERYWHERE)):
            if hit.payload["id"] in seen:
                doubled.append(hit.id)
            seen.add(hit.payload["id"])
        before = {point.id: point for point in store.collection.retrieve(doubled)}
        ids = store.fresh_ids(len(before), besides=seen)
        renamed = [
            Point(point.id, point.vector, {**point.payload, "id": id})
            for id, point in zip(ids, before.values(), strict=True)
        ]
        return len(renamed) - len(store.collection.write(renamed, before)) if renamed else 0

    return await storage.operate(work, 0)


async def _forget(opener: Opener, gone: dict[UUID, Memory]) -> None:
    """Delete what was forgotten while it was copied, unless somebody has stored it again."""

    def work(cancelled: Event) -> None:
        with opener(cancelled) as store:
            copies = store.collection.retrieve(list(gone)) if store and gone else []
            same = [
                Hit(point.id, point.payload)
                for point in copies
                if store and store.memory(point) == gone[point.id]
            ]
            if store and same:
                store.collection.delete(same)

    await run_blocking(work)


def _opener(server: Server, manifest: Manifest) -> Opener:
    return partial(server.beside, manifest)
