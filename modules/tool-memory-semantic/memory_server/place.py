"""The place on a Qdrant server. Nothing is kept between calls but the connection: each call asks
the server what the store is.
"""

import shlex
import sys
from collections.abc import Callable, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from memory_semantic.errors import (
    REPAIR,
    UNCHANGED,
    DamagedStoreError,
    StorageError,
    explained,
)
from memory_semantic.place import Place
from memory_semantic.points import StoreInfo
from memory_semantic.settings import ServerConfig, parsed
from memory_semantic.store import Store
from memory_semantic.workers import run_cancellable

if TYPE_CHECKING:
    from .collection import Collection

T = TypeVar("T")

# What to do about damage there.
RESTORE = "Restore the collection from a snapshot."
_NEEDS_CLIENT = (
    "qdrant_url is set, but the server's client is not installed. Install it (uv pip install "
    f'--python {shlex.quote(sys.executable)} "qdrant-client>=1.20,<1.21").'
)


class ServerPlace(Place):
    """The store of `agent` on the server at `url`, with the settings of `ServerConfig`. Others may
    work in it at the same time.

    A cancelled call ends at once: a write that has begun is completed, and nothing is retried.
    """

    forgotten = (
        "Gone from search. The server takes them out of its files when it next rewrites them."
    )

    def __init__(self, agent: str, url: str, config: Mapping[str, Any] | None = None) -> None:
        self.agent = agent
        self.url = self.address = url
        self.config = parsed(config, ServerConfig)

    async def info(self) -> StoreInfo | None:
        """See `Place`."""
        return await self.on_server(lambda collection: collection.present())

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Place`."""
        return await self.on_server(lambda collection: collection.run(work, create, expect))

    def agents(self) -> list[str]:
        """Those that the API key may see."""
        found = self._collection(Event()).ask(lambda client: client.get_collections()).collections
        start = self.config.collection("")
        names = (each.name for each in found)
        return sorted(name.removeprefix(start) for name in names if name.startswith(start))

    async def close(self) -> None:
        """See `Place`. Nothing is open between calls."""

    async def on_server(self, work: "Callable[[Collection], T]") -> T:
        """What `work` returns, off the event loop. Raises StorageError."""

        def operation(cancelled: Event) -> T:
            with explained(UNCHANGED):
                try:
                    return work(self._collection(cancelled))
                except DamagedStoreError as error:
                    error.remedy = error.remedy.replace(REPAIR, RESTORE)
                    raise

        return await run_cancellable(operation)

    def _collection(self, cancelled: Event) -> "Collection":
        try:
            import qdrant_client  # noqa: F401 - takes a second, so only when it is needed
        except ImportError:
            raise StorageError(_NEEDS_CLIENT) from None
        from .collection import Collection

        return Collection(self.agent, self.url, self.config, cancelled)
