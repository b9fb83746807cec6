"""An agent's collection on a Qdrant server. Its name is `agent-memory.sam`, to which an access
token of the agent can be limited, and its metadata say what the store is.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import TypeVar

from memory_semantic.errors import (
    DamagedStoreError,
    ReplacedStoreError,
    StorageError,
    explained,
    newer,
)
from memory_semantic.points import StoreInfo
from memory_semantic.settings import ServerConfig
from memory_semantic.store import Store
from qdrant_client import models

from .connection import Connection, ExistsError, MissingError, RefusedError
from .points import WORDS, ServerPoints, vector_name

T = TypeVar("T")

_FORMAT = 4
_STORE = "agent_memory"  # the key in a collection's metadata
# The first Qdrant with writes that only insert. An older one would overwrite.
_OLDEST = (1, 17)
# The fields of a point to filter or sort by, and their indexes.
_INDEXES = {
    **dict.fromkeys(
        ("id", "tags", "replaced_by", "metadata.project_id"), models.PayloadSchemaType.KEYWORD
    ),
    **dict.fromkeys(("timestamp", "expires"), models.PayloadSchemaType.DATETIME),
    "pinned": models.PayloadSchemaType.BOOL,
}


class Collection:
    """The collection of `agent` on the server at `url`. Every method may block, and raises
    StorageError; once `cancelled` is set, nothing is retried.
    """

    def __init__(self, agent: str, url: str, config: ServerConfig, cancelled: Event) -> None:
        self.name = config.collection(agent)
        self._agent = agent
        self._copies = config.qdrant_replicas
        self._connection = Connection(url, config, cancelled)
        self.ask = self._connection.ask

    def present(self) -> StoreInfo | None:
        """What the store is; None if there is none."""
        try:
            found = self.ask(lambda client: client.get_collection(self.name))
        except MissingError:
            return None
        try:
            fields = (found.config.metadata or {})[_STORE]
            if fields["format"] > _FORMAT:
                raise newer(fields["format"])
            if fields["format"] != _FORMAT:
                raise ValueError("It is of an unknown format.")
            info = StoreInfo.model_validate({**fields, "memories": found.points_count or 0})
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedStoreError(
                f"The collection {self.name!r} on the server does not say what it is: it has lost "
                "its metadata, is of an older version, or is not a store.",
                remedy="Restore it from a snapshot, or choose another qdrant_prefix.",
            ) from error
        if info.agent != self._agent:
            raise StorageError(
                f"The collection {self.name!r} belongs to {info.agent!r}. Choose another "
                "qdrant_prefix."
            )
        for field in _INDEXES.keys() - found.payload_schema.keys():  # a creation was interrupted
            self.ask(
                lambda client, field=field: client.create_payload_index(
                    self.name, field, _INDEXES[field], wait=True
                )
            )
        return info

    def _create(self, info: StoreInfo) -> StoreInfo:
        """Create a store as `info` describes, unless somebody else creates it meanwhile."""
        version = self.ask(lambda client: client.info()).version
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            raise StorageError(
                f"The Qdrant server has version {version or 'unknown'}, but {needed} is needed. "
                "Upgrade it."
            )
        vectors = models.VectorParams(
            size=info.model.dimensions,
            distance=models.Distance.COSINE,
            datatype=models.Datatype.FLOAT16,
            on_disk=True,
        )
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        fields = info.model_dump(mode="json", by_alias=True, exclude={"memories"})
        with suppress(ExistsError):
            self.ask(
                lambda client: client.create_collection(
                    self.name,
                    {vector_name(info): vectors},
                    {WORDS: words} if info.words else None,
                    # In a cluster, Qdrant's default is one for each node, and each would work out
                    # for itself how rare a word is.
                    shard_number=1,
                    replication_factor=self._copies,
                    # Where the network splits a cluster, at most one side has more than half.
                    write_consistency_factor=self._copies // 2 + 1,
                    # No graph: an agent's store is small, and a search compares all of it.
                    hnsw_config=models.HnswConfigDiff(m=0),
                    optimizers_config=models.OptimizersConfigDiff(default_segment_number=1),
                    # A collection keeps two files of its log. Qdrant's default is 32 MB each.
                    wal_config=models.WalConfigDiff(wal_capacity_mb=4),
                    metadata={_STORE: {"format": _FORMAT, **fields}},
                )
            )
        made = self.present()
        if made is None:
            raise StorageError("The store was deleted from the server while it was being created.")
        return made

    def run(
        self, work: Callable[[Store], T], create: StoreInfo | None, expect: StoreInfo | None
    ) -> T | None:
        """See `Place`. `expect` is not asked for again: reading or writing vectors shows if it is
        out of date.
        """
        info = expect or self.present() or (create and self._create(create))
        if info is None:
            return None
        if create and info.embedder != create.embedder:
            raise ReplacedStoreError("The store was given another model meanwhile.")
        try:
            return work(Store(ServerPoints(self.name, info, self._connection)))
        except (MissingError, RefusedError) as error:
            with explained(error.outcome):
                present = self.present()
            if present is None or present.embedder == info.embedder:
                raise
            raise ReplacedStoreError(
                "The store was replaced while this call was running. Try again.", error.outcome
            ) from error
