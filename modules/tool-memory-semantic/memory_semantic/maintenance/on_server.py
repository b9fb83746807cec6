"""On a server: a new collection made beside the present one and put in its place.

Others store and forget meanwhile. When all is copied, the alias stands for the new collection,
where calls wait until it is ready: what changed is taken along, and nothing can change any more.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..embeddings.generator import EmbeddingGenerator
from ..errors import StorageError, explained
from ..server.backend import ServerBackend
from ..store import Backend, EmbeddingModel, StoreInfo
from ..workers import run_blocking
from .copy import Progress, fill, fill_once, memories_in, missing, payloads

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
        source, target = server.beside(present), server.beside(new)
        before = await memories_in(source)
        await fill(source, target, new, generator, progress, begun)
        lacks = await missing(before, source, target, generator is None, progress)
        if lacks:
            raise StorageError(f"The new collection lacks memories, and is not used. {lacks[0]}")
        found = await target.run(payloads) or {}  # not later: from the switch on, calls wait
        current = await server.info()
        if current is None or current.shard != present.shard:
            raise StorageError("Another has rebuilt this store meanwhile. It is as they left it.")
        try:
            await _shards(server, lambda shards: shards.switch(new))
            after = await fill_once(source, target, found, new, generator, progress, begun)
        except BaseException:
            await _shards(server, lambda shards: shards.switch(present))
            raise
    # From here on others may have stored in it, whether or not the server's answer arrives.
    with explained(_ALMOST):
        await _shards(server, lambda shards: shards.finish(new))
    await _shards(server, lambda shards: shards.clear(keep=new.shard))
    return len(after)


async def unfinished(backend: Backend, model: EmbeddingModel | None = None) -> list[Backend]:
    """What is left, or under way, of rebuilds, with this `model` or any."""
    server = _server(backend)
    found = await _shards(server, lambda shards: shards.all())
    begun = [info for info in found if not info.ready and model in (None, info.model)]
    return [server.beside(info) for info in begun]


async def restore(backend: ServerBackend) -> str | None:
    """Where the alias stands for nothing that is whole, as after an interruption, let it stand for
    the newest collection that is; returns its name.
    """
    info = await _shards(backend, lambda shards: shards.restore())
    return info.shard if info else None


async def _shards(server: ServerBackend, work: "Callable[[Shards], T]") -> T:
    return await run_blocking(lambda cancelled: work(server.shards(cancelled)))


def _server(backend: Backend) -> ServerBackend:
    assert isinstance(backend, ServerBackend)
    return backend
