"""The port to a store on a Qdrant server.

A rebuild makes a new collection beside the present one and puts it in its place. Others may store
and forget meanwhile. Once everything is copied, the alias stands for the new collection, and calls
wait until it is ready: nothing more can change while the last changes are copied.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from memory_semantic.backend import Backend, Finding, Progress, Repair, ShowProgress, untold
from memory_semantic.copying import compare, fill, forget_in, payloads
from memory_semantic.embeddings.generator import EmbeddingGenerator
from memory_semantic.errors import StorageError, explained
from memory_semantic.examine import examine
from memory_semantic.findings import (
    NO_STORE,
    about_info,
    about_memories,
    about_words,
    store_problem,
)
from memory_semantic.limits import EMBEDDING_BATCH
from memory_semantic.settings import StorageConfig
from memory_semantic.store import EmbeddingModel, StoreInfo, memories_in
from memory_semantic.workers import run_cancellable

from .access import ServerAccess

if TYPE_CHECKING:
    from .shards import Shards

T = TypeVar("T")

# How an error of a rebuild ends.
_AS_IT_WAS = "The store is unchanged. Run it again: it resumes."
_ALMOST = "The store is rebuilt; if calls keep waiting for it: agent-memory doctor --repair"
# How an error of an erasure ends.
_GONE = "Deleted memories are in no answer, but what an interrupted reembed left may contain them."
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServerBackend(ServerAccess, Backend):
    """The store of `agent` on the server at `url`, with the settings of `ServerConfig`."""

    def __init__(self, agent: str, url: str, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(agent, url, config)
        self.where = url

    def agents(self) -> list[str]:
        """Those that the API key may see."""
        return self.shards().agents()

    def size(self) -> None:
        """None: it is kept elsewhere."""

    async def exists(self) -> bool:
        """Whether there is a store."""
        return await self.info() is not None

    async def findings(
        self, config: StorageConfig, progress: ShowProgress
    ) -> AsyncIterator[Finding]:
        """The server's version, the way to it, and the collection."""
        try:
            version = await self._shards(lambda shards: shards.version())
            yield Finding("ok", "server", f"{self.where} answers: Qdrant {version}")
            url, key = urlsplit(self.where), self.config.qdrant_api_key
            if key and url.scheme == "http" and url.hostname not in _LOOPBACK:
                text = "the API key and all texts go there unencrypted"
                yield Finding("warning", "server", text, "Use https.")
            info = await self.info()
            if info is None:
                none = f"{self.agent!r} has no store at {self.where}."
                yield Finding("ok", "store", none, NO_STORE)
                return
            yield about_info(info, info.shard)
            with progress("Comparing", info.memories) as bar:
                problems, number = await self.run(
                    lambda store: (examine(store, bar.done), store.count())
                ) or ([], 0)
            names = await self._shards(lambda shards: shards.names())
        except StorageError as error:
            yield store_problem(error)
            return
        mend = "Restore the collection from a snapshot."
        for finding in about_memories(problems, number, "hashes and vectors", mend):
            yield finding
        for finding in about_words(config, info):
            yield finding
        if len(names) > 1:
            others = "a reembed is running or was interrupted"
            yield Finding(
                "warning",
                "collections",
                f"{len(names) - 1} more for this agent: {others}",
                f"agent-memory reembed --model {info.model.model}",
            )

    async def repair(self, config: StorageConfig, findings: Sequence[Finding]) -> Repair:
        """If the alias does not stand for a ready collection, as after an
        interruption, it will stand for the newest ready one.
        """

        async def run(_: Progress) -> str:
            info = await self._shards(lambda shards: shards.restore())
            return f"The store is {info.shard} again." if info else ""

        return Repair("Use the newest complete collection?", run)

    async def rebuild(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """Uses the vectors that interrupted runs have made, and removes their
        collections.
        """
        present = await self.info()
        if present is None:
            raise StorageError("The agent has no store on the server.")
        embedding = None if info.embedder == present.embedder else generator
        info = info.model_copy(update={"created": present.created})
        with explained(_AS_IT_WAS):
            begun = await self._unfinished(info.model)
            new = await self._shards(lambda shards: shards.claim(info))
            source, target = self.beside(present), self.beside(new)
            before = await memories_in(source)
            missing = EMBEDDING_BATCH + 1
            while missing > EMBEDDING_BATCH:  # others go on storing
                found = await target.run(payloads) or {}
                after = await fill(source, target, found, new, embedding, progress, begun)
                missing = len(after.keys() - found.keys())
            lacks = await compare(before, source, target, embedding is None, progress)
            if lacks:
                raise StorageError(f"The new collection lacks memories and is not used. {lacks[0]}")
            found = await target.run(payloads) or {}  # now, because calls wait after the switch
            current = await self.info()
            if current is None or current.shard != present.shard:
                raise StorageError(
                    "Somebody else has rebuilt this store meanwhile. Their rebuild was kept."
                )
            try:
                await self._shards(lambda shards: shards.switch(new))
                after = await fill(source, target, found, new, embedding, progress, begun)
            except BaseException:
                await self._shards(lambda shards: shards.switch(present))
                raise
        # From here on, others may have stored in it, even if the server's answer does not arrive.
        with explained(_ALMOST):
            await self._shards(lambda shards: shards.finish(new))
        await self._shards(lambda shards: shards.clear(keep=new.shard))
        return len(after)

    async def erase(self) -> None:
        """Here, it can only erase from what rebuilds have left."""
        with explained(_GONE):
            for begun in await self._unfinished():
                await forget_in(begun, self)

    def forgotten(self, model: str) -> str:
        """The server decides when to rewrite its files."""
        return (
            "Gone from search. The server takes them out of its files when it next rewrites them, "
            f"or at once with: agent-memory reembed --model {model}"
        )

    async def _unfinished(self, model: EmbeddingModel | None = None) -> list[ServerAccess]:
        """The stores of unfinished rebuilds, running or interrupted, with this `model` or any."""
        found = await self._shards(lambda shards: shards.all())
        begun = [info for info in found if not info.ready and model in (None, info.model)]
        return [self.beside(info) for info in begun]

    async def _shards(self, work: "Callable[[Shards], T]") -> T:
        return await run_cancellable(lambda cancelled: work(self.shards(cancelled)))
