"""What the doctor finds about a store on a Qdrant server."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from memory_semantic import MemoryStorage, StorageError
from memory_semantic.maintenance import examine
from memory_semantic.server.backend import ServerBackend
from memory_semantic.workers import run_blocking

from .findings import (
    REPAIR,
    Finding,
    ShowProgress,
    about_info,
    about_memories,
    about_words,
    only_shared_ids,
    store_problem,
)

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


async def about_server(
    storage: MemoryStorage, server: ServerBackend, progress: ShowProgress
) -> AsyncIterator[Finding]:
    """Everything, in the order in which one thing rests on another."""
    try:
        version = await run_blocking(lambda cancelled: server.shards(cancelled).version())
        yield Finding("ok", "server", f"{server.url} answers: Qdrant {version}")
        url = urlsplit(server.url)
        if server.config.qdrant_api_key and url.scheme == "http" and url.hostname not in _LOOPBACK:
            yield Finding(
                "warning", "server", "the API key and all texts go there unencrypted", "Use https."
            )
        info = await server.info()
        if info is None:
            await storage.info()  # which raises an error if there is one on this machine
            text = f"{storage.agent_id!r} has no memory at {server.url}"
            yield Finding("warning", "store", text, "agent-memory agents")
            return
        number = await storage.count()
        yield about_info(info, info.shard)
        with progress("Comparing", number) as bar:
            problems = await storage.run(lambda store: examine(store, bar.done), list[str]())
        names = await run_blocking(lambda cancelled: server.shards(cancelled).names())
    except StorageError as error:
        yield store_problem(error)
        return
    # Without a lock the ids alone can be repaired; the rest is the server's.
    mend = REPAIR if only_shared_ids(problems) else "Restore the collection from a snapshot."
    for finding in about_memories(problems, number, "hashes and vectors", mend):
        yield finding
    for finding in about_words(storage, info):
        yield finding
    if len(names) > 1:
        yield Finding(
            "warning",
            "collections",
            f"{len(names) - 1} more of this agent: of a reembed under way, or an interrupted one",
            f"agent-memory reembed --model {info.model.model}",
        )
