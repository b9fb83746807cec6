"""On a server: a new collection made beside the present one and put in its place.

Others store and forget meanwhile. When all is copied, the alias stands for the new collection,
where calls wait until it is ready: what changed is taken along, and nothing can change any more.
"""

from collections.abc import Callable, Iterable
from functools import partial
from threading import Event
from typing import TypeVar
from uuid import UUID

from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage, StorageError
from memory_semantic.collection import EVERYWHERE, Collection, Hit, Point
from memory_semantic.errors import explained
from memory_semantic.manifest import Embedding, Manifest
from memory_semantic.open_store import OpenStore
from memory_semantic.workers import run_blocking
from memory_server import Server

from .copying import Opener, copy, memories_in, missing
from .rebuild import ALL

T = TypeVar("T")

# How an error of a remake ends.
_AS_IT_WAS = "The memory is as it was. Run it again to go on."
_ALMOST = "The memory is made anew; if calls wait for it: agent-memory doctor --repair"


async def remake(
    storage: MemoryStorage,
    server: Server,
    generator: EmbeddingGenerator,
    made: Embedding,
    progress: Callable[[int, int], None],
) -> int:
    """Give the memory of `storage` a new collection, with vectors of `generator`, which makes
    `made`; those that an interrupted run has made are used, and those of the same model copied.
    Returns how many memories there are.
    """
    present = await storage.manifest()
    if present is None:
        raise StorageError(f"The agent {storage.agent_id!r} has no memory on the server.")
    wanted = storage.new_manifest(made, generator.endpoint, present)
    with explained(lambda: _AS_IT_WAS):
        begun = [each for each in await _in_thread(server.unfinished) if each.embedding == made]
        new = await _in_thread(partial(server.claim, wanted))
        source, target = _opener(server, present), _opener(server, new)
        same = made == present.embedding
        vectors = [_opener(server, manifest) for manifest in begun]
        put = partial(copy, source, target, made, None if same else generator, progress)
        before = await put(vectors=vectors)
        problems = await missing(before, source, target, same_model=same, progress=progress)
        if problems:
            raise StorageError(f"The new collection lacks memories, and is not used. {problems[0]}")
        current = await storage.manifest()
        if current is None or current.shard != present.shard:
            raise StorageError(
                "Another has made this memory anew meanwhile. It is as they left it."
            )
        try:
            await _in_thread(partial(server.switch, new.shard))
            after = await memories_in(source)
            changed = [key for key in before if before[key] != after.get(key)]
            await _take_out(target, changed)
            await put(besides=before)
        except BaseException:
            await _in_thread(partial(server.switch, present.shard))
            raise
    # From here on others may have stored in it, whether or not the server's answer arrives.
    with explained(lambda: _ALMOST):
        await _in_thread(partial(server.finish, new.shard))
    for shard in await _in_thread(server.shards):
        if shard != new.shard:
            await _in_thread(partial(server.remove_shard, shard))
    return len(after)


async def unembedded(storage: MemoryStorage, server: Server, made: Embedding) -> list[Memory]:
    """The memories that a remake with `made` has still to embed."""
    memories = await memories_in(storage.place.open)
    for begun in await _in_thread(server.unfinished):
        if begun.embedding == made:
            for key in await memories_in(_opener(server, begun)):
                memories.pop(key, None)
    return list(memories.values())


async def draw_anew(storage: MemoryStorage) -> int:
    """Give ids of their own to memories that share one; the oldest keeps it. Returns how many."""

    def work(store: OpenStore[Collection]) -> int:
        seen: set[str] = set()
        doubled: list[UUID] = []
        for hit in reversed(store.collection.newest(ALL, EVERYWHERE)):
            id = hit.payload.get("id", "")
            if id in seen:
                doubled.append(hit.id)
            seen.add(id)
        before = {point.id: point for point in store.collection.retrieve(doubled)}
        ids = store.fresh_ids(len(before), besides=seen)
        renamed = [
            Point(point.id, point.vector, {**point.payload, "id": id})
            for id, point in zip(ids, before.values(), strict=True)
        ]
        return len(renamed) - len(store.collection.write(renamed, before)) if renamed else 0

    return await storage.operate(work, 0)


async def _take_out(opener: Opener, keys: Iterable[UUID]) -> None:
    def work(cancelled: Event) -> None:
        with opener(cancelled) as store:
            copies = store.collection.retrieve(list(keys)) if store else []
            if store and copies:
                store.collection.delete([Hit(copy.id, copy.payload) for copy in copies])

    await run_blocking(work)


async def _in_thread(work: Callable[[], T]) -> T:
    return await run_blocking(lambda _: work())


def _opener(server: Server, manifest: Manifest) -> Opener:
    return partial(server.beside, manifest)
