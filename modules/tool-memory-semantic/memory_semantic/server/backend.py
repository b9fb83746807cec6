"""Where the store of an agent is on a Qdrant server, and how it is made there.

agent-memory.sam                an alias: the name by which everything is asked for, and to which
                                an access token of the agent can be limited
agent-memory.sam.shard-1        the collection that it stands for; another embedding model is
                                another collection, `shard-2`. The manifest is in its metadata.

While the alias stands for a collection that is not ready, calls wait. A call that began before is
refused by that collection, whose vector has another name, and begins again. So no write goes where
it would be lost when one collection takes the place of another.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
_READY = "agent_memory_ready"
_POLL_SECONDS = 0.2
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

    def _manifest(self, connection: Connection) -> Manifest | None:
        """The manifest of what the alias stands for, as soon as that is ready."""
        end = time.monotonic() + self.config.qdrant_timeout
        while True:
            found = self._described(connection, self.name)
            if found is None and self._is_empty(connection):
                return None
            # Where there was no alias, it may have been made by now.
            found = found or self._described(connection, self.name)
            if found is None:
                raise DamagedStoreError(
                    f"The server has memories of {self._agent_id!r}, but not the alias "
                    f"{self.name!r} for them, which a snapshot does not hold. Make it anew: "
                    "agent-memory doctor --repair"
                )
            manifest, ready = found
            if ready:
                return manifest
            if time.monotonic() > end or connection.wait(_POLL_SECONDS):
                raise StorageError(
                    f"The memory of {self._agent_id!r} is being made anew. Try again in a while; "
                    "if it stays so, that was interrupted: agent-memory doctor --repair"
                )

    def _is_empty(self, connection: Connection) -> bool:
        """Whether there is nothing of the agent, but what an interrupted creation leaves."""
        names = [self._shard(shard) for shard in self.shards(connection)]
        return not any(
            connection.ask(lambda client, name=name: client.count(name)).count for name in names
        )

    def _described(self, connection: Connection, name: str) -> tuple[Manifest, bool] | None:
        """What the collection says of itself, and whether it is ready; None if there is none."""
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
                "its metadata, or is none of a memory. Restore it from a snapshot, or choose "
                "another qdrant_prefix."
            ) from error
        if manifest.agent != self._agent_id:
            raise StorageError(
                f"The collection {name!r} on the server belongs to {manifest.agent!r}."
            )
        return manifest, metadata.get(_READY, True)

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
        try:
            self._make(connection, manifest, ready=True)
        except ExistsError:  # another's, or what an interrupted creation left
            self._described(connection, self._shard(manifest.shard))
            self._index(connection, manifest)
        made = self._manifest(connection)
        if made is None:
            self.switch(manifest.shard, connection)
            made = self._manifest(connection)
        if made is None:
            raise StorageError("The memory was deleted from the server while it was made.")
        return made

    def claim(self, manifest: Manifest) -> Manifest:
        """A new collection, beside all others of the agent, as `manifest` describes; it is not
        ready. Returns its own manifest.
        """
        connection = self._connection()
        while True:
            last = max(map(_number, self.shards(connection)), default=0)
            claimed = replace(manifest, shard=f"shard-{last + 1}")
            try:
                self._make(connection, claimed, ready=False)
                return claimed
            except ExistsError:  # another claimed it first
                continue

    def finish(self, shard: str) -> None:
        """Let this shard be ready."""
        name, ready = self._shard(shard), {_READY: True}
        self._connection().ask(lambda client: client.update_collection(name, metadata=ready))

    def unfinished(self) -> list[Manifest]:
        """What is left, or under way, of shards that are not ready."""
        found = [self._described(self._connection(), self._shard(shard)) for shard in self.shards()]
        return [each[0] for each in found if each and not each[1]]

    def restore(self) -> str | None:
        """Where the alias stands for nothing that is ready, let it stand for the newest shard that
        is; returns that.
        """
        connection = self._connection()
        present = self._described(connection, self.name)
        if present and present[1]:
            return None
        for shard in reversed(self.shards(connection)):
            found = self._described(connection, self._shard(shard))
            if found and found[1]:
                self.switch(shard, connection)
                return shard
        if self._is_empty(connection):  # what an interrupted removal left
            for shard in self.shards(connection):
                self.remove_shard(shard)
        return None

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
        """Delete the store for good, if `agreed` says so of it while nobody else can write; returns
        whether it did.
        """
        present = self.peek()
        if present is None:
            return False
        closed = self.claim(present)
        agrees = False
        try:
            self.switch(closed.shard)
            with self.beside(present, Event()) as store:
                agrees = agreed(store)
        finally:
            if not agrees:
                self.switch(present.shard)
                self.remove_shard(closed.shard)
        if agrees:
            for shard in self.shards():
                self.remove_shard(shard)
        return agrees

    def forget(self, ids: Sequence[str]) -> None:
        """Delete the memories with these ids in what an interrupted work has left."""
        for manifest in self.unfinished():
            with self.beside(manifest, Event()) as store:
                store.erase(ids)

    def remove_shard(self, shard: str) -> None:
        """Delete this shard for good, and the alias if it stands for it."""
        name = self._shard(shard)
        self._connection().ask(lambda client: client.delete_collection(name))

    def shards(self, connection: Connection | None = None) -> list[str]:
        """The shards of the agent that are on the server, also those that no alias stands for."""
        connection = connection or self._connection()
        found = connection.ask(lambda client: client.get_collections()).collections
        ours = re.compile(re.escape(self._shard("")) + r"(shard-[0-9]+)")
        names = [ours.fullmatch(collection.name) for collection in found]
        return sorted((name[1] for name in names if name), key=_number)

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

    def _make(self, connection: Connection, manifest: Manifest, *, ready: bool) -> None:
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
                metadata={_MANIFEST: metadata, _READY: ready},
            )
        )
        self._index(connection, manifest)

    def _index(self, connection: Connection, manifest: Manifest) -> None:
        from qdrant_client import models

        name = self._shard(manifest.shard)
        for field, kind in INDEXES.items():
            connection.ask(
                lambda client, field=field, kind=kind: client.create_payload_index(
                    name, field, models.PayloadSchemaType(kind), wait=True
                )
            )


def _number(shard: str) -> int:
    return int(shard.rpartition("-")[2])


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
