"""Where the store of an agent is on a Qdrant server, and how it is made there.

agent-memory.sam                an alias: the name by which everything is asked for, and to which
                                an access token of the agent can be limited
agent-memory.sam.shard-1        the collection that it stands for; another embedding model is
                                another collection, `shard-2`. The manifest is in its metadata.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any

from memory_semantic import manifest as manifests
from memory_semantic.errors import UNCHANGED, DamagedStoreError, StorageError, explained
from memory_semantic.manifest import Manifest
from memory_semantic.open_store import OpenStore

from .config import ServerConfig
from .connection import Connection, ExistsError, MissingError
from .server_collection import INDEXES, WORDS, ServerCollection

# Where in the metadata of a collection the manifest is, and what of it has no meaning there.
_MANIFEST = "agent_memory"
_NOT_THERE = ("engine", "memories")
# Qdrant has metadata and conditional updates since then. An older one would ignore the condition.
_OLDEST = (1, 16)
_FLOAT16 = 2  # bytes


class Server:
    """The store of `agent_id` on the server at `url`, with the settings of `ServerConfig`."""

    def __init__(self, agent_id: str, url: str, config: Mapping[str, Any] | None = None) -> None:
        self.config = ServerConfig.parse(config)
        self.url = url
        self.name = f"{self.config.qdrant_prefix}.{agent_id}"
        self._agent_id = agent_id

    def peek(self, cancelled: Event | None = None) -> Manifest | None:
        """The manifest as it is now; None if there is no store."""
        with explained(lambda: UNCHANGED):
            return self._manifest(self._connection(cancelled))

    @contextmanager
    def open(
        self, cancelled: Event, create: Manifest | None = None
    ) -> Iterator[OpenStore[ServerCollection] | None]:
        """The store for one operation; None if there is none and none is created. Others may work
        in it at the same time.

        Once `cancelled` is set nothing is tried again. `create` describes the store to make if
        there is none. Raises StorageError, which says what was changed.
        """
        collection: ServerCollection | None = None
        with explained(lambda: collection.outcome if collection else UNCHANGED):
            connection = self._connection(cancelled)
            manifest = self._manifest(connection)
            if manifest is None and create:
                manifest = self._create(connection, create)
            if manifest is None:
                yield None
                return
            collection = self._collection(connection, manifest)
            yield OpenStore(manifest, collection)

    def _connection(self, cancelled: Event | None = None) -> Connection:
        return Connection(self.url, self.config, cancelled or Event())

    def _collection(self, connection: Connection, manifest: Manifest) -> ServerCollection:
        def replaced() -> bool:
            present = self._manifest(connection)
            return present is None or present.shard != manifest.shard

        return ServerCollection(self.name, manifest, connection.ask, replaced)

    def _manifest(self, connection: Connection, name: str | None = None) -> Manifest | None:
        name = name or self.name
        try:
            found = connection.ask(lambda client: client.get_collection(name))
        except MissingError:
            return None
        metadata = found.config.metadata or {}
        try:
            manifest = manifests.parse(metadata[_MANIFEST])
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedStoreError(
                f"The collection {name!r} on the server does not say what it is: it has lost "
                "its metadata, or is none of a memory. Restore it from a backup, or choose another "
                "qdrant_prefix."
            ) from error
        if manifest.agent != self._agent_id:
            raise StorageError(
                f"The collection {name!r} on the server belongs to {manifest.agent!r}."
            )
        return manifest

    def _create(self, connection: Connection, manifest: Manifest) -> Manifest:
        """Make the store, or let another do it who does so at the same moment. It is there as soon
        as the alias stands for it.
        """
        version = connection.ask(lambda client: client.info()).version
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if not numbers or (int(numbers[1]), int(numbers[2])) < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            raise StorageError(
                f"The Qdrant server has version {version or 'unknown'}, and {needed} is needed. "
                "Upgrade it."
            )
        others = [shard for shard in self.shards(connection) if shard != manifest.shard]
        if others:
            raise StorageError(
                f"The server has the collection {self._shard(others[-1])!r}, but not the alias "
                f"{self.name!r} for it, which a snapshot does not hold. Make the alias anew."
            )
        self._make(connection, manifest)
        made = self._manifest(connection)
        if made is None:
            self.switch(manifest.shard, connection)
            made = self._manifest(connection)
        if made is None:
            raise StorageError("The memory was deleted from the server while it was made.")
        return made

    def make(self, manifest: Manifest) -> None:
        """Have the collection that `manifest` describes, beside the one that the alias stands for;
        what an interruption left of it is kept, if it is to be the same.
        """
        connection = self._connection()
        begun = self._manifest(connection, self._shard(manifest.shard))
        if begun and (begun.embedding, begun.words) != (manifest.embedding, manifest.words):
            self.remove_shard(manifest.shard)
        self._make(connection, manifest)

    @contextmanager
    def beside(self, manifest: Manifest, cancelled: Event) -> Iterator[OpenStore[ServerCollection]]:
        """The collection that `manifest` describes, whatever the alias stands for."""
        collection: ServerCollection | None = None
        with explained(lambda: collection.outcome if collection else UNCHANGED):
            connection = self._connection(cancelled)
            name = self._shard(manifest.shard)
            collection = ServerCollection(name, manifest, connection.ask, lambda: False)
            yield OpenStore(manifest, collection)

    def switch(self, shard: str, connection: Connection | None = None) -> None:
        """Let the alias stand for this shard from now on."""
        from qdrant_client import models

        alias = models.CreateAlias(collection_name=self._shard(shard), alias_name=self.name)
        switch = models.CreateAliasOperation(create_alias=alias)
        (connection or self._connection()).ask(
            lambda client: client.update_collection_aliases([switch])
        )

    def remove(self, agreed: Callable[[OpenStore[ServerCollection]], bool]) -> bool:
        """Delete the store for good, if `agreed` says so of it; returns whether it did."""
        with self.open(Event()) as store:
            agrees = store is not None and agreed(store)
        if agrees:
            for shard in self.shards():
                self.remove_shard(shard)
        return agrees

    def remove_shard(self, shard: str) -> None:
        """Delete this shard for good, and the alias if it stands for it."""
        name = self._shard(shard)
        self._connection().ask(lambda client: client.delete_collection(name))

    def shards(self, connection: Connection | None = None) -> list[str]:
        """The shards of the agent that are on the server, also those that no alias stands for."""
        connection = connection or self._connection()
        found = connection.ask(lambda client: client.get_collections()).collections
        names = [collection.name for collection in found]
        start = self._shard("")
        return sorted(name.removeprefix(start) for name in names if name.startswith(start))

    def version(self) -> str:
        """The version of the server."""
        return self._connection().ask(lambda client: client.info()).version

    def agents(self) -> list[str]:
        """The agents that have a memory on the server, as far as the API key may know."""
        found = self._connection().ask(lambda client: client.get_aliases()).aliases
        start = f"{self.config.qdrant_prefix}."
        names = [alias.alias_name for alias in found]
        return sorted(name.removeprefix(start) for name in names if name.startswith(start))

    def _shard(self, shard: str) -> str:
        return f"{self.name}.{shard}"

    def _make(self, connection: Connection, manifest: Manifest) -> None:
        from qdrant_client import models

        name, config, size = self._shard(manifest.shard), self.config, manifest.embedding.dimensions
        rarity = models.SparseVectorParams(modifier=models.Modifier.IDF)
        fields = manifests.fields(manifest)
        metadata = {key: value for key, value in fields.items() if key not in _NOT_THERE}
        vectors = models.VectorParams(
            size=size,
            distance=models.Distance.COSINE,
            datatype=models.Datatype.FLOAT16,
            on_disk=True,
        )
        # The log of writes, of which a collection keeps two files: 32 MB each are the server's own.
        log = models.WalConfigDiff(wal_capacity_mb=4)
        optimizers = models.OptimizersConfigDiff(
            # In kB of vectors: smaller segments have no graph, and are compared whole.
            indexing_threshold=max(1, config.qdrant_exact_below * size * _FLOAT16 // 1024),
            # The memory of an agent is small, and each segment takes files and RAM of its own.
            default_segment_number=1,
        )
        try:
            connection.ask(
                lambda client: client.create_collection(
                    name,
                    vectors_config={manifest.shard: vectors},
                    sparse_vectors_config={WORDS: rarity} if manifest.words else None,
                    shard_number=config.qdrant_shards,
                    replication_factor=config.qdrant_replicas,
                    write_consistency_factor=config.write_consistency,
                    optimizers_config=optimizers,
                    wal_config=log,
                    quantization_config=_quantization(config.qdrant_quantization),
                    metadata={_MANIFEST: metadata},
                )
            )
        except ExistsError:  # another's, or what an interrupted creation left
            self._manifest(connection, name)
        for field, kind in INDEXES.items():
            connection.ask(
                lambda client, field=field, kind=kind: client.create_payload_index(
                    name, field, models.PayloadSchemaType(kind), wait=True
                )
            )


def _quantization(kind: str) -> Any:
    """The smaller copy of the vectors, which stays in memory while they are on disk."""
    from qdrant_client import models

    if kind == "int8":
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)
    if kind == "binary":
        binary = models.BinaryQuantizationConfig(always_ram=True)
        return models.BinaryQuantization(binary=binary)
    return None
