"""On a server: a new collection made beside the present one and put in its place.

Others store and forget meanwhile. When all is copied, the alias stands for the new collection,
where calls wait until it is ready: what changed is taken along, and nothing can change any more.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from ..embeddings.generator import EmbeddingGenerator
from ..errors import StorageError, explained
from ..memory import Memory
from ..server.backend import ServerBackend
from ..store import Backend, EmbeddingModel, Store, StoreInfo
from ..workers import run_blocking
from .copy import Progress, copy, memories_in, missing, payloads, stale

if TYPE_CHECKING:
    from ..server.shards import Shards

T = TypeVar("T")

# How an error of a rebuild ends.
_AS_IT_WAS = "The store is as it was. Run it again: it resumes."
_ALMOST = "The store is rebuilt; if calls wait for it: agent-memory doctor --repair"


async def rebuild(
    backend: Backend, info: StoreInfo, generator: EmbeddingGenerator | None, progress: Progress
) -> int:
    """Give the store a new collection, as `rebuild.rebuild` says. Vectors that an interrupted run
    has made are used; the collections of such runs are removed.
    """
    server = _server(backend)
    present = await server.info()
    if present is None:
        raise StorageError("The agent has no memory on the server.")
    generator = None if info.model == present.model else generator
    with explained(_AS_IT_WAS):
        begun = await unfinished(server, info.model)
        new = await _shards(server, lambda shards: shards.claim(info))
        target = server.beside(new)
        put = partial(copy, server.beside(present), target, new, generator, progress, vectors=begun)
        before = await put()
        await _require_all(before, server.beside(present), target, generator is None, progress)
        current = await server.info()
        if current is None or current.shard != present.shard:
            raise StorageError("Another has rebuilt this store meanwhile. It is as they left it.")
        try:
            await _shards(server, lambda shards: shards.switch(new))
            after = await memories_in(server.beside(present))
            await _take_out(target, (key for key in before if before[key] != after.get(key)))
            await put(besides=before)
        except BaseException:
            await _shards(server, lambda shards: shards.switch(present))
            raise
    # From here on others may have stored in it, whether or not the server's answer arrives.
    with explained(_ALMOST):
        await _shards(server, lambda shards: shards.finish(new))
    for shard in await _shards(server, lambda shards: shards.names()):
        if shard != new.shard:
            await _shards(server, lambda shards, shard=shard: shards.remove_shard(shard))
    return len(after)


async def unfinished(backend: Backend, model: EmbeddingModel | None = None) -> list[Backend]:
    """What is left, or under way, of rebuilds, with this `model` or any."""
    server = _server(backend)
    found = await _shards(server, lambda shards: shards.unfinished())
    return [server.beside(info) for info in found if model in (None, info.model)]


async def forget_in_unfinished(backend: Backend) -> None:
    """Delete in what rebuilds have begun what was deleted from the store since."""
    for begun in await unfinished(backend):
        found = await begun.run(payloads) or {}
        await _take_out(begun, stale(found, await backend.run(payloads) or {}))


async def restore(backend: ServerBackend) -> str | None:
    """Where the alias stands for nothing that is whole, as after an interruption, let it stand for
    the newest collection that is; returns its name.
    """
    info = await _shards(backend, lambda shards: shards.restore())
    return info.shard if info else None


async def _require_all(
    copied: dict[UUID, Memory],
    source: Backend,
    target: Backend,
    same_model: bool,
    progress: Progress,
) -> None:
    problems = await missing(copied, source, target, same_model, progress)
    if problems:
        raise StorageError(f"The new collection lacks memories, and is not used. {problems[0]}")


async def _take_out(backend: Backend, keys: Iterable[UUID]) -> None:
    def work(store: Store) -> None:
        store.delete(list(store.get(keys).values()))

    await backend.run(work)


async def _shards(server: ServerBackend, work: "Callable[[Shards], T]") -> T:
    return await run_blocking(lambda cancelled: work(server.shards(cancelled)))


def _server(backend: Backend) -> ServerBackend:
    assert isinstance(backend, ServerBackend)
    return backend
