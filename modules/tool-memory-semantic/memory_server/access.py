"""How a call reaches a store on a Qdrant server; `shards` says how the store is kept there.

Nothing is kept between calls but the connection: each call asks the server what the store is.
"""

import shlex
import sys
from collections.abc import Callable, Mapping
from copy import copy
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from memory_semantic.errors import UNCHANGED, ReplacedStoreError, StorageError, explained
from memory_semantic.store import Store, StoreInfo
from memory_semantic.workers import run_cancellable

from .info import ServerInfo
from .settings import ServerConfig

if TYPE_CHECKING:
    from .shards import Shards

T = TypeVar("T")

_NEEDS_CLIENT = (
    "qdrant_url is set, but the server's client is not installed. Install it (uv pip install "
    f'--python {shlex.quote(sys.executable)} "qdrant-client>=1.20,<1.21").'
)


class ServerAccess:
    """The store of `agent` on the server at `url`, with the settings of `ServerConfig`. Others
    may work in it at the same time.

    A cancelled call ends at once: a write that has begun is completed, and nothing is retried.
    """

    def __init__(self, agent: str, url: str, config: Mapping[str, Any] | None = None) -> None:
        self.url = url
        self.config = ServerConfig.parse(config)
        self.agent = agent
        self._beside: ServerInfo | None = None

    async def info(self) -> ServerInfo | None:
        """See `Access`."""

        def ask(cancelled: Event) -> ServerInfo | None:
            with explained(UNCHANGED):
                return self._beside or self.shards(cancelled).present()

        return await run_cancellable(ask)

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Access`. `expect` must be an info from this backend. It is not asked for again:
        reading or writing vectors shows if it is out of date.
        """
        assert expect is None or isinstance(expect, ServerInfo)

        def operation(cancelled: Event) -> T | None:
            with explained(UNCHANGED):
                shards = self.shards(cancelled)
                if self._beside:
                    return work(shards.beside(self._beside))
                for tries_left in (2, 1, 0):
                    info = expect or shards.present() or (shards.create(create) if create else None)
                    if info is None:
                        break
                    if create and info.model != create.model:
                        raise ReplacedStoreError("The store was given another model meanwhile.")
                    try:
                        return work(shards.store(info))
                    except ReplacedStoreError:
                        if expect or not tries_left:
                            raise
                return None

        return await run_cancellable(operation)

    async def close(self) -> None:
        """See `Access`. Nothing is open between calls."""

    def beside(self, info: ServerInfo) -> "ServerAccess":
        """The collection of `info`, whichever one is the store; `create` has no effect."""
        other = copy(self)
        other._beside = info
        return other

    def shards(self, cancelled: Event | None = None) -> "Shards":
        """The collections on the server; nothing is retried once `cancelled` is set. Raises
        StorageError if the client is not installed.
        """
        try:
            import qdrant_client  # noqa: F401 - takes a second, so only when it is needed
        except ImportError:
            raise StorageError(_NEEDS_CLIENT) from None
        from .shards import Shards

        return Shards(self.agent, self.url, self.config, cancelled or Event())
