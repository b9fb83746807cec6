"""An agent's collections on a Qdrant server, and which of them is its store.

agent-memory.sam                an alias: all requests use this name, and an access token of the
                                agent can be limited to it
agent-memory.sam.shard-1        the collection that it stands for; another embedding model means
                                another collection, `shard-2`. The info is in its metadata.

While the alias stands for a collection that is not ready, calls wait. That collection refuses a
call that began earlier, because its vector has another name, and the call starts again. So no write
is lost when one collection replaces another.
"""

import re
import time
from threading import Event

from memory_semantic.errors import DamagedStoreError, StorageError
from memory_semantic.store import StoreInfo
from qdrant_client import models

from .connection import Connection, ExistsError, MissingError
from .info import NOW_READY, ServerInfo
from .requests import INDEXES, parameters
from .settings import ServerConfig
from .store import ServerStore

_POLL_SECONDS = 0.2
# The first Qdrant with metadata and conditional updates. An older one would ignore the condition.
_OLDEST = (1, 16)


class Shards:
    """The collections of `agent_id` on the server at `url`. Every method may block, and raises
    StorageError; once `cancelled` is set, nothing is retried.
    """

    def __init__(self, agent_id: str, url: str, config: ServerConfig, cancelled: Event) -> None:
        self._agent_id = agent_id
        self._config = config
        self._connection = Connection(url, config, cancelled)
        self._ask = self._connection.ask
        self._alias = f"{config.qdrant_prefix}.{agent_id}"

    def present(self) -> ServerInfo | None:
        """The store that the alias stands for, once it is ready; None if there is no store."""
        end = time.monotonic() + self._config.qdrant_timeout
        while True:
            found = self._described(self._alias)
            if found is None and self._is_empty():
                return None
            # If there was no alias, it may have been created meanwhile.
            found = found or self._described(self._alias)
            if found is None:
                raise DamagedStoreError(
                    f"The server has memories of {self._agent_id!r}, but not their alias "
                    f"{self._alias!r}, which a snapshot does not contain. Create it again: "
                    "`agent-memory doctor --repair`."
                )
            if found.ready:
                return found
            if time.monotonic() > end:
                raise StorageError(
                    f"The store of {self._agent_id!r} is being rebuilt. Try again later. If this "
                    "persists, the rebuild was interrupted: `agent-memory doctor --repair`."
                )
            self._connection.pause(_POLL_SECONDS)

    def store(self, info: ServerInfo) -> ServerStore:
        """The agent's store, which `present` described as `info`."""

        def replaced() -> bool:
            present = self.present()
            return present is None or present.shard != info.shard

        return ServerStore(self._alias, info, self._connection, replaced)

    def beside(self, info: ServerInfo) -> ServerStore:
        """The collection of `info`, whatever the alias stands for."""
        return ServerStore(self._name(info.shard), info, self._connection, lambda: False)

    def create(self, info: StoreInfo) -> ServerInfo:
        """Create a store as `info` describes, unless somebody else creates it at the same moment.
        It exists as soon as the alias stands for it.
        """
        version = self.version()
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            raise StorageError(
                f"The Qdrant server has version {version or 'unknown'}, but {needed} is needed. "
                "Upgrade it."
            )
        first = ServerInfo.model_validate({**dict(info), "shard": "shard-1", "ready": True})
        try:
            self._make(first)
        except ExistsError:  # somebody else's, or left by an interrupted creation
            self._described(self._name(first.shard))
            self._index(first)
        if self.present() is None:
            self.switch(first)
        made = self.present()
        if made is None:
            raise StorageError("The store was deleted from the server while it was being created.")
        return made

    def claim(self, info: StoreInfo) -> ServerInfo:
        """Create another collection of the agent as `info` describes, not yet ready; returns its
        info.
        """
        while True:
            shard = f"shard-{max(map(_number, self.names()), default=0) + 1}"
            copies = self._config.write_consistency
            own = {"shard": shard, "ready": False, "write_consistency": copies}
            claimed = ServerInfo.model_validate({**dict(info), **own})
            try:
                self._make(claimed)
                return claimed
            except ExistsError:  # another claimed it first
                continue

    def switch(self, info: ServerInfo) -> None:
        """Make the alias stand for the collection of `info`."""
        alias = models.CreateAlias(collection_name=self._name(info.shard), alias_name=self._alias)
        switch = models.CreateAliasOperation(create_alias=alias)
        self._ask(lambda client: client.update_collection_aliases([switch]))

    def finish(self, info: ServerInfo) -> None:
        """Mark the collection of `info` as ready."""
        name = self._name(info.shard)
        self._ask(lambda client: client.update_collection(name, metadata=NOW_READY))

    def all(self) -> list[ServerInfo]:
        """All collections of the agent, oldest first, whether or not the alias stands for them."""
        found = [self._described(self._name(shard)) for shard in self.names()]
        return [info for info in found if info]

    def restore(self) -> ServerInfo | None:
        """If the alias does not stand for a ready collection, make it stand for the newest one that
        is ready, and return that.
        """
        present = self._described(self._alias)
        if present and present.ready:
            return None
        for info in reversed(self.all()):
            if info.ready:
                self.switch(info)
                return info
        return None

    def clear(self, keep: str) -> None:
        """Delete all collections but that of the shard `keep` for good."""
        for shard in self.names():
            if shard != keep:
                self._remove(shard)

    def names(self) -> list[str]:
        """The agent's shards on the server, including those that the alias does not stand for."""
        found = self._ask(lambda client: client.get_collections()).collections
        ours = re.compile(re.escape(self._name("")) + r"(shard-[0-9]+)")
        names = [ours.fullmatch(collection.name) for collection in found]
        return sorted((name[1] for name in names if name), key=_number)

    def version(self) -> str:
        """The version of the server."""
        return self._ask(lambda client: client.info()).version

    def agents(self) -> list[str]:
        """The agents with a store on the server, as far as the API key may see them."""
        found = self._ask(lambda client: client.get_aliases()).aliases
        start = f"{self._config.qdrant_prefix}."
        names = [alias.alias_name for alias in found]
        return sorted(name.removeprefix(start) for name in names if name.startswith(start))

    def _name(self, shard: str) -> str:
        return f"{self._alias}.{shard}"

    def _is_empty(self) -> bool:
        """Whether the agent has no more than what an interrupted creation leaves."""
        return not any(self.beside(info).count() for info in self.all())

    def _remove(self, shard: str) -> None:
        self._ask(lambda client: client.delete_collection(self._name(shard)))

    def _described(self, name: str) -> ServerInfo | None:
        """The info of the collection; None if there is none."""
        try:
            found = self._ask(lambda client: client.get_collection(name))
        except MissingError:
            return None
        try:
            info = ServerInfo.from_metadata(
                found.config.metadata or {},
                memories=found.points_count or 0,
                write_consistency=found.config.params.write_consistency_factor or 1,
            )
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedStoreError(
                f"The collection {name!r} on the server does not say what it is: it has lost "
                "its metadata, or is not a store. Restore it from a snapshot, or choose another "
                "qdrant_prefix."
            ) from error
        if info.agent != self._agent_id:
            raise StorageError(f"The collection {name!r} on the server belongs to {info.agent!r}.")
        return info

    def _make(self, info: ServerInfo) -> None:
        wanted = parameters(info, self._config)
        self._ask(lambda client: client.create_collection(self._name(info.shard), **wanted))
        self._index(info)

    def _index(self, info: ServerInfo) -> None:
        for field, kind in INDEXES.items():
            self._ask(
                lambda client, field=field, kind=kind: client.create_payload_index(
                    self._name(info.shard), field, kind, wait=True
                )
            )


def _number(shard: str) -> int:
    return int(shard.rpartition("-")[2])
