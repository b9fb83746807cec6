"""Where the store of an agent is on a Qdrant server: see `shards` for how it lies there.

Nothing is kept between calls but the connection: what the store is, is asked for at each.
"""

import shlex
import sys
from collections.abc import Callable, Mapping
from copy import copy
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UNCHANGED, ReplacedStoreError, StorageError, explained
from ..store import Store, StoreInfo
from ..workers import run_blocking
from .info import ServerInfo
from .settings import ServerConfig

if TYPE_CHECKING:
    from .shards import Shards

T = TypeVar("T")

_NEEDS_CLIENT = (
    "qdrant_url is set, but the client of the server is not installed. Install it (uv pip install "
    f'--python {shlex.quote(sys.executable)} "qdrant-client>=1.20,<1.21").'
)


class ServerBackend:
    """The store of `agent_id` on the server at `url`, with the settings of `ServerConfig`. Others
    may work in it at the same time.

    A call that is cancelled ends at once; what it has begun to write is written, and nothing is
    tried again.
    """

    def __init__(self, agent_id: str, url: str, config: Mapping[str, Any] | None = None) -> None:
        self.url = url
        self.config = ServerConfig.parse(config)
        self.agent_id = agent_id
        self._beside: ServerInfo | None = None

    async def info(self) -> ServerInfo | None:
        """See `Backend`."""

        def ask(cancelled: Event) -> ServerInfo | None:
            with explained(UNCHANGED):
                return self._beside or self.shards(cancelled).present()

        return await run_blocking(ask)

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """As `Backend` says. `expect` must be an info of this backend, and is not asked for again:
        that it holds no more is noticed by what reads or writes vectors.
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

        return await run_blocking(operation)

    async def close(self) -> None:
        """As `Backend` says: nothing is open between calls."""

    def beside(self, info: ServerInfo) -> "ServerBackend":
        """What is in the collection of `info`, whatever the store is; `create` makes nothing."""
        other = copy(self)
        other._beside = info
        return other

    def shards(self, cancelled: Event | None = None) -> "Shards":
        """The collections on the server, for whoever keeps stores in order. Raises StorageError if
        the client is not installed.
        """
        try:
            import qdrant_client  # noqa: F401 - takes a second, so not before it is needed
        except ImportError:
            raise StorageError(_NEEDS_CLIENT) from None
        from .shards import Shards

        return Shards(self.agent_id, self.url, self.config, cancelled or Event())
