"""The port to a store on a Qdrant server; `collection` says how the store is kept there.

Nothing is kept between calls but the connection: each call asks the server what the store is.
"""

import shlex
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from memory_semantic.backend import Backend, Finding, Progress, Repair, ShowProgress, untold
from memory_semantic.embeddings.generator import EmbeddingGenerator
from memory_semantic.errors import UNCHANGED, ReplacedStoreError, StorageError, explained
from memory_semantic.examine import examine
from memory_semantic.findings import (
    NO_STORE,
    about_info,
    about_memories,
    about_words,
    store_problem,
)
from memory_semantic.settings import StorageConfig
from memory_semantic.store import Store, StoreInfo
from memory_semantic.workers import run_cancellable

from .info import ServerInfo
from .settings import ServerConfig

if TYPE_CHECKING:
    from .collection import Collection

T = TypeVar("T")

_NEEDS_CLIENT = (
    "qdrant_url is set, but the server's client is not installed. Install it (uv pip install "
    f'--python {shlex.quote(sys.executable)} "qdrant-client>=1.20,<1.21").'
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServerBackend(Backend):
    """The store of `agent` on the server at `url`, with the settings of `ServerConfig`. Others
    may work in it at the same time.

    A cancelled call ends at once: a write that has begun is completed, and nothing is retried.
    """

    forgotten = (
        "Gone from search. The server takes them out of its files when it next rewrites them."
    )

    def __init__(self, agent: str, url: str, config: Mapping[str, Any] | None = None) -> None:
        self.agent = agent
        self.url = self.where = url
        self.config = ServerConfig.parse(config)

    async def info(self) -> ServerInfo | None:
        """See `Backend`."""
        return await self._on_server(lambda collection: collection.present())

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Backend`. `expect` must be an info from this backend. It is not asked for again:
        reading or writing vectors shows if it is out of date.
        """
        assert expect is None or isinstance(expect, ServerInfo)

        def operation(collection: "Collection") -> T | None:
            info = expect or collection.present() or (create and collection.create(create))
            if info is None:
                return None
            if create and info.embedder != create.embedder:
                raise ReplacedStoreError("The store was given another model meanwhile.")
            return collection.run(work, info)

        return await self._on_server(operation)

    async def close(self) -> None:
        """See `Backend`. Nothing is open between calls."""

    def agents(self) -> list[str]:
        """Those that the API key may see."""
        return self._collection(Event()).agents()

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
            version = await self._on_server(lambda collection: collection.version())
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
            yield about_info(info, await self._on_server(lambda collection: collection.name))
            with progress("Comparing", info.memories) as bar:
                problems, number = await self.run(
                    lambda store: (examine(store, bar.done), store.count())
                ) or ([], 0)
        except StorageError as error:
            yield store_problem(error)
            return
        mend = "Restore the collection from a snapshot."
        for finding in about_memories(problems, number, "hashes and vectors", mend):
            yield finding
        for finding in about_words(config, info):
            yield finding

    async def repair(self, config: StorageConfig) -> Repair:
        """Of a store that has lost its alias, as a restored snapshot has."""

        async def run(_: Progress) -> str:
            await self._on_server(lambda collection: collection.restore_alias())
            return "The alias stands for the collection again."

        return Repair("The alias of the collection will be made again.", run)

    async def reembed(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """Raises StorageError, which says how an export and an import do it. Once the settings of
        all machines name the other model, no machine can store until that is done.
        """
        name = await self._on_server(lambda collection: collection.name)
        raise StorageError(
            "A store on a server cannot be given another model in place. Set embedding_model to "
            f"{info.model.model!r} on every machine, so that nobody stores meanwhile. Then "
            f"`agent-memory export memories.jsonl --agent {self.agent}`, remove the collection "
            f"{name!r} from the server (or set another qdrant_prefix), and "
            f"`agent-memory import memories.jsonl --agent {self.agent}`.",
            UNCHANGED,
        )

    async def _on_server(self, work: "Callable[[Collection], T]") -> T:
        def operation(cancelled: Event) -> T:
            with explained(UNCHANGED):
                return work(self._collection(cancelled))

        return await run_cancellable(operation)

    def _collection(self, cancelled: Event) -> "Collection":
        try:
            import qdrant_client  # noqa: F401 - takes a second, so only when it is needed
        except ImportError:
            raise StorageError(_NEEDS_CLIENT) from None
        from .collection import Collection

        return Collection(self.agent, self.url, self.config, cancelled)
