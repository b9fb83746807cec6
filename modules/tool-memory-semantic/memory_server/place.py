"""The place on a Qdrant server. `agent-memory.sam` is the collection of the agent sam, and its
metadata say what the store is.

Nothing is kept between calls but the connection: each call asks the server what the store is.
"""

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from memory_semantic.errors import (
    UNCHANGED,
    DamagedStoreError,
    NewerStoreError,
    ReplacedStoreError,
    StorageError,
    explained,
)
from memory_semantic.place import Place
from memory_semantic.points import StoreInfo
from memory_semantic.store import Store
from memory_semantic.workers import run_cancellable

from .settings import ServerConfig

if TYPE_CHECKING:
    from .connection import Connection

T = TypeVar("T")

_FORMAT = 4
_STORE = "agent_memory"  # the key in a collection's metadata
# The first Qdrant with writes that only insert. An older one would overwrite.
_OLDEST = (1, 17)
# The fields of a point to filter or sort by, and their indexes.
_INDEXES = {
    **dict.fromkeys(("id", "tags", "replaced_by"), "keyword"),
    **dict.fromkeys(("timestamp", "expires"), "datetime"),
    "pinned": "bool",
}
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
        self.url = self.where = url
        self.config = ServerConfig.parse(config)
        self._prefix = f"{self.config.qdrant_prefix}."
        self.collection = f"{self._prefix}{agent}"

    async def info(self) -> StoreInfo | None:
        """See `Place`."""
        return await self.on_server(self._present)

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Place`. `expect` is not asked for again: reading or writing vectors shows if it is
        out of date.
        """
        return await self.on_server(lambda connection: self._run(connection, work, create, expect))

    def agents(self) -> list[str]:
        """Those that the API key may see."""
        found = self._connection(Event()).ask(lambda client: client.get_collections()).collections
        names = [each.name for each in found if each.name.startswith(self._prefix)]
        return sorted(name.removeprefix(self._prefix) for name in names)

    async def close(self) -> None:
        """See `Place`. Nothing is open between calls."""

    async def on_server(self, work: "Callable[[Connection], T]") -> T:
        """What `work` returns, off the event loop. Raises StorageError."""

        def operation(cancelled: Event) -> T:
            with explained(UNCHANGED):
                return work(self._connection(cancelled))

        return await run_cancellable(operation)

    def _connection(self, cancelled: Event) -> "Connection":
        try:
            import qdrant_client  # noqa: F401 - takes a second, so only when it is needed
        except ImportError:
            raise StorageError(_NEEDS_CLIENT) from None
        from .connection import Connection

        return Connection(self.url, self.config, cancelled)

    def _run(
        self,
        connection: "Connection",
        work: Callable[[Store], T],
        create: StoreInfo | None,
        expect: StoreInfo | None,
    ) -> T | None:
        from .connection import MissingError, RefusedError
        from .points import ServerPoints

        info = expect or self._present(connection) or (create and self._create(connection, create))
        if info is None:
            return None
        if create and info.embedder != create.embedder:
            raise ReplacedStoreError("The store was given another model meanwhile.")
        try:
            return work(Store(ServerPoints(self.collection, info, connection)))
        except (MissingError, RefusedError) as error:
            with explained(error.outcome):
                present = self._present(connection)
            if present and present.embedder == info.embedder:
                raise
            raise ReplacedStoreError(
                "The store was replaced while this call was running. Try again.", error.outcome
            ) from error

    def _present(self, connection: "Connection") -> StoreInfo | None:
        from .connection import MissingError

        try:
            found = connection.ask(lambda client: client.get_collection(self.collection))
        except MissingError:
            return None
        try:
            fields = (found.config.metadata or {})[_STORE]
            if fields["format"] > _FORMAT:
                raise NewerStoreError(
                    f"The store was made by a newer version (format {fields['format']}). Upgrade "
                    "amplifier-module-tool-memory-semantic."
                )
            if fields["format"] != _FORMAT:
                raise ValueError("It is of an unknown format.")
            info = StoreInfo.model_validate({**fields, "memories": found.points_count or 0})
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedStoreError(
                f"The collection {self.collection!r} on the server does not say what it is: it has "
                "lost its metadata, is of an older version, or is not a store. Restore it from a "
                "snapshot, or choose another qdrant_prefix."
            ) from error
        if info.agent != self.agent:
            raise StorageError(
                f"The collection {self.collection!r} on the server belongs to {info.agent!r}."
            )
        for field in _INDEXES.keys() - found.payload_schema.keys():  # a creation was interrupted
            connection.ask(
                lambda client, field=field: client.create_payload_index(
                    self.collection, field, _INDEXES[field], wait=True
                )
            )
        return info

    def _create(self, connection: "Connection", info: StoreInfo) -> StoreInfo:
        """Create a store as `info` describes, unless somebody else creates it meanwhile."""
        from qdrant_client import models

        from .connection import ExistsError
        from .points import WORDS, vector_name

        version = connection.ask(lambda client: client.info()).version
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            raise StorageError(
                f"The Qdrant server has version {version or 'unknown'}, but {needed} is needed. "
                "Upgrade it."
            )
        copies = self.config.qdrant_replicas
        vectors = models.VectorParams(
            size=info.model.dimensions,
            distance=models.Distance.COSINE,
            datatype=models.Datatype.FLOAT16,
            on_disk=True,
        )
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        fields = info.model_dump(mode="json", by_alias=True, exclude={"memories"})
        with suppress(ExistsError):  # somebody else's
            connection.ask(
                lambda client: client.create_collection(
                    self.collection,
                    {vector_name(info): vectors},
                    {WORDS: words} if info.words else None,
                    replication_factor=copies,
                    # Where the network splits a cluster, at most one side has more than half.
                    write_consistency_factor=copies // 2 + 1,
                    # No graph: an agent's store is small, and a search compares all of it.
                    hnsw_config=models.HnswConfigDiff(m=0),
                    optimizers_config=models.OptimizersConfigDiff(default_segment_number=1),
                    # A collection keeps two files of its log. Qdrant's default is 32 MB each.
                    wal_config=models.WalConfigDiff(wal_capacity_mb=4),
                    metadata={_STORE: {"format": _FORMAT, **fields}},
                )
            )
        made = self._present(connection)
        if made is None:
            raise StorageError("The store was deleted from the server while it was being created.")
        return made
