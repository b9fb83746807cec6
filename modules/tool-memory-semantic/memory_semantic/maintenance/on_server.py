"""Maintenance of a store on a Qdrant server.

A rebuild makes a new collection beside the present one and puts it in its place. Others may store
and forget meanwhile. Once everything is copied, the alias stands for the new collection, and calls
wait until it is ready: nothing more can change while the last changes are copied.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from ..embeddings.generator import EmbeddingGenerator
from ..errors import StorageError, explained
from ..files.folder import AgentFolder
from ..memory import Memory
from ..server.backend import ServerBackend
from ..settings import StorageConfig
from ..store import Backend, EmbeddingModel, Store, StoreInfo
from ..workers import run_blocking
from .copy import Progress, compare, fill, fill_once, forget_in, memories_in, payloads
from .examine import examine
from .findings import (
    REPAIR,
    Finding,
    Repair,
    ShowProgress,
    about_info,
    about_memories,
    about_words,
    counted,
    only_shared_ids,
    store_problem,
)
from .places import Forgotten, Place, untold

if TYPE_CHECKING:
    from ..server.shards import Shards

T = TypeVar("T")

# How an error of a rebuild ends.
_AS_IT_WAS = "The store is unchanged. Run it again: it resumes."
_ALMOST = "The store is rebuilt; if calls keep waiting for it: agent-memory doctor --repair"
# How an error of an erasure ends.
_GONE = "Deleted memories are in no answer, but what an interrupted reembed left may contain them."
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class OnServer(Place):
    """See `Place`."""

    def __init__(self, backend: ServerBackend) -> None:
        self.backend = self._server = backend
        self.agent = backend.agent_id
        self.url = self.where = backend.url

    def agents(self) -> list[str]:
        """See `Place`, as far as the API key may see them."""
        return self._server.shards().agents()

    def size(self) -> None:
        """See `Place`."""

    async def exists(self) -> bool:
        """See `Place`."""
        return await self._server.info() is not None

    async def findings(
        self, config: StorageConfig, progress: ShowProgress
    ) -> AsyncIterator[Finding]:
        """See `Place`."""
        try:
            version = await self._shards(lambda shards: shards.version())
            yield Finding("ok", "server", f"{self.where} answers: Qdrant {version}")
            url, key = urlsplit(self.where), self._server.config.qdrant_api_key
            if key and url.scheme == "http" and url.hostname not in _LOOPBACK:
                text = "the API key and all texts go there unencrypted"
                yield Finding("warning", "server", text, "Use https.")
            info = await self._server.info()
            if info is None:
                yield self._none(config)
                return
            yield about_info(info, info.shard)
            with progress("Comparing", info.memories) as bar:
                problems, number = await self._server.run(
                    lambda store: (examine(store, bar.done), store.count())
                ) or ([], 0)
            names = await self._shards(lambda shards: shards.names())
        except StorageError as error:
            yield store_problem(error)
            return
        # Without a lock, only ids can be repaired; the rest is up to the server.
        mend = REPAIR if only_shared_ids(problems) else "Restore the collection from a snapshot."
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
        """See `Place`. If the alias does not stand for a ready collection, as after an
        interruption, it will stand for the newest ready one; and ids are made unique.
        """

        async def run(_: Progress) -> str:
            info = await self._shards(lambda shards: shards.restore())
            number = await self.renew_ids()
            restored = f"The store is {info.shard} again." if info else ""
            renamed = f"{counted(number)} with a new id." if number else ""
            return f"{restored} {renamed}".strip()

        return Repair("Use the newest complete collection, and give each memory a unique id?", run)

    async def rebuild(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """See `Place`. Uses the vectors that interrupted runs have made, and removes their
        collections.
        """
        server = self._server
        present = await server.info()
        if present is None:
            raise StorageError("The agent has no store on the server.")
        embedding = None if info.model == present.model else generator
        info = info.model_copy(update={"created": present.created})
        with explained(_AS_IT_WAS):
            begun = await self.unfinished(info.model)
            new = await self._shards(lambda shards: shards.claim(info))
            source, target = server.beside(present), server.beside(new)
            before = await memories_in(source)
            await fill(source, target, new, embedding, progress, begun)
            compared = await compare(before, source, target, embedding is None, progress)
            lacks = [fault for fault in compared.values() if fault]
            if lacks:
                raise StorageError(f"The new collection lacks memories and is not used. {lacks[0]}")
            found = await target.run(payloads) or {}  # now, because calls wait after the switch
            current = await server.info()
            if current is None or current.shard != present.shard:
                raise StorageError(
                    "Somebody else has rebuilt this store meanwhile. Their rebuild was kept."
                )
            try:
                await self._shards(lambda shards: shards.switch(new))
                after = await fill_once(source, target, found, new, embedding, progress, begun)
            except BaseException:
                await self._shards(lambda shards: shards.switch(present))
                raise
        # From here on, others may have stored in it, even if the server's answer does not arrive.
        with explained(_ALMOST):
            await self._shards(lambda shards: shards.finish(new))
        await self._shards(lambda shards: shards.clear(keep=new.shard))
        return len(after)

    async def erase(self) -> None:
        """See `Place`. Here, it can only erase from what rebuilds have left."""
        with explained(_GONE):
            for begun in await self.unfinished():
                await forget_in(begun, self._server)

    async def gone(self, config: StorageConfig, forgotten: Sequence[Memory]) -> Forgotten:
        """See `Place`. The server decides when to rewrite its files."""
        info = await self._server.info()
        model = info.model.model if info else "local"
        sentence = (
            "Gone from search. The server takes them out of its files when it next rewrites them, "
            f"or at once with: agent-memory reembed --model {model}"
        )
        if not self._on_this_machine(config).holds_memories:
            return Forgotten(sentence)
        return Forgotten(
            sentence,
            "This machine also has a store of this agent, in files that were not touched. "
            f"There: agent-memory forget … --root {config.storage_root}",
        )

    async def remove(self, agreed: Callable[[Store], bool]) -> bool:
        """See `Place`."""
        return await self._shards(lambda shards: shards.remove(agreed))

    @property
    def kept(self) -> list[Path]:
        """See `Place`. A repair keeps nothing here."""
        return []

    async def unfinished(self, model: EmbeddingModel | None = None) -> list[Backend]:
        """See `Place`."""
        found = await self._shards(lambda shards: shards.all())
        begun = [info for info in found if not info.ready and model in (None, info.model)]
        return [self._server.beside(info) for info in begun]

    def _none(self, config: StorageConfig) -> Finding:
        none = f"{self.agent!r} has no memory at {self.where}"
        if self._on_this_machine(config).holds_memories:
            move = f"Move it: agent-memory move --to {self.where}"
            return Finding("problem", "store", f"{none}, but has one on this machine", move)
        return Finding("warning", "store", none, "agent-memory agents")

    def _on_this_machine(self, config: StorageConfig) -> AgentFolder:
        return AgentFolder(Path(config.storage_root), self.agent)

    async def _shards(self, work: "Callable[[Shards], T]") -> T:
        return await run_blocking(lambda cancelled: work(self._server.shards(cancelled)))
