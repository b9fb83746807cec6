"""The collections of an agent on a Qdrant server, and which of them is its store.

agent-memory.sam                an alias: the name by which everything is asked for, and to which
                                an access token of the agent can be limited
agent-memory.sam.shard-1        the collection that it stands for; another embedding model is
                                another collection, `shard-2`. The info is in its metadata.

While the alias stands for a collection that is not ready, calls wait. A call that began before is
refused by that collection, whose vector has another name, and begins again. So no write goes where
it would be lost when one collection takes the place of another.
"""

import re
import time
from collections.abc import Callable
from threading import Event

from qdrant_client import models

from ..errors import DamagedStoreError, StorageError
from ..store import Store, StoreInfo
from .connection import Connection, ExistsError, MissingError
from .info import NOW_READY, ServerInfo
from .requests import INDEXES, parameters
from .settings import ServerConfig
from .store import ServerStore

_POLL_SECONDS = 0.2
# Qdrant has metadata and conditional updates since then. An older one would ignore the condition.
_OLDEST = (1, 16)


class Shards:
    """The collections of `agent_id` on the server at `url`. Every method may block, and raises
    StorageError; once `cancelled` is set, nothing is tried again.
    """

    def __init__(self, agent_id: str, url: str, config: ServerConfig, cancelled: Event) -> None:
        self._agent_id = agent_id
        self._config = config
        self._connection = Connection(url, config, cancelled)
        self._ask = self._connection.ask
        self._alias = f"{config.qdrant_prefix}.{agent_id}"

    def present(self) -> ServerInfo | None:
        """What the alias stands for, as soon as that is ready; None if there is no store."""
        end = time.monotonic() + self._config.qdrant_timeout
        while True:
            found = self._described(self._alias)
            if found is None and self._is_empty():
                return None
            # Where there was no alias, it may have been made by now.
            found = found or self._described(self._alias)
            if found is None:
                raise DamagedStoreError(
                    f"The server has memories of {self._agent_id!r}, but not the alias "
                    f"{self._alias!r} for them, which a snapshot does not hold. Make it again: "
                    "agent-memory doctor --repair"
                )
            if found.ready:
                return found
            if time.monotonic() > end:
                raise StorageError(
                    f"The store of {self._agent_id!r} is being rebuilt. Try again in a while; if "
                    "it stays so, that was interrupted: agent-memory doctor --repair"
                )
            self._connection.pause(_POLL_SECONDS)

    def store(self, info: ServerInfo) -> ServerStore:
        """The agent's store, which `present` said to be `info`."""

        def replaced() -> bool:
            present = self.present()
            return present is None or present.shard != info.shard

        return ServerStore(self._alias, info, self._connection, replaced)

    def beside(self, info: ServerInfo) -> ServerStore:
        """What is in the collection of `info`, whatever the alias stands for."""
        return ServerStore(self._name(info.shard), info, self._connection, lambda: False)

    def create(self, info: StoreInfo) -> ServerInfo:
        """Make a store as `info` describes, or let another do it who does so at the same moment.
        It is there as soon as the alias stands for it.
        """
        version = self.version()
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            raise StorageError(
                f"The Qdrant server has version {version or 'unknown'}, and {needed} is needed. "
                "Upgrade it."
            )
        first = ServerInfo.model_validate({**dict(info), "shard": "shard-1", "ready": True})
        try:
            self._make(first)
        except ExistsError:  # another's, or what an interrupted creation left
            self._described(self._name(first.shard))
            self._index(first)
        if self.present() is None:
            self.switch(first)
        made = self.present()
        if made is None:
            raise StorageError("The store was deleted from the server while it was made.")
        return made

    def claim(self, info: StoreInfo) -> ServerInfo:
        """A new collection, beside all others of the agent, as `info` describes; it is not ready.
        Returns its own info.
        """
        while True:
            shard = f"shard-{max(map(_number, self.names()), default=0) + 1}"
            claimed = ServerInfo.model_validate({**dict(info), "shard": shard, "ready": False})
            try:
                self._make(claimed)
                return claimed
            except ExistsError:  # another claimed it first
                continue

    def switch(self, info: ServerInfo) -> None:
        """Let the alias stand for the collection of `info` from now on."""
        alias = models.CreateAlias(collection_name=self._name(info.shard), alias_name=self._alias)
        switch = models.CreateAliasOperation(create_alias=alias)
        self._ask(lambda client: client.update_collection_aliases([switch]))

    def finish(self, info: ServerInfo) -> None:
        """Let the collection of `info` be ready."""
        name = self._name(info.shard)
        self._ask(lambda client: client.update_collection(name, metadata=NOW_READY))

    def all(self) -> list[ServerInfo]:
        """What there is of the agent, the oldest first, whether or not the alias stands for it."""
        found = [self._described(self._name(shard)) for shard in self.names()]
        return [info for info in found if info]

    def restore(self) -> ServerInfo | None:
        """Where the alias stands for nothing that is ready, let it stand for the newest collection
        that is; returns that.
        """
        present = self._described(self._alias)
        if present and present.ready:
            return None
        for info in reversed(self.all()):
            if info.ready:
                self.switch(info)
                return info
        if self._is_empty():  # what an interrupted removal left
            self.clear()
        return None

    def remove(self, agreed: Callable[[Store], bool]) -> bool:
        """Delete the store for good, if `agreed` says so of it while nobody else can write; returns
        whether it did.
        """
        present = self.present()
        if present is None:
            return False
        closed = self.claim(present)
        agrees = False
        try:
            self.switch(closed)
            agrees = agreed(self.beside(present))
        finally:
            if not agrees:
                self.switch(present)
                self._remove(closed.shard)
        if agrees:
            self.clear()
        return agrees

    def clear(self, keep: str = "") -> None:
        """Delete the collections of all shards but `keep` for good, and an alias of one of them."""
        for shard in self.names():
            if shard != keep:
                self._remove(shard)

    def names(self) -> list[str]:
        """The shards of the agent that are on the server, also those that no alias stands for."""
        found = self._ask(lambda client: client.get_collections()).collections
        ours = re.compile(re.escape(self._name("")) + r"(shard-[0-9]+)")
        names = [ours.fullmatch(collection.name) for collection in found]
        return sorted((name[1] for name in names if name), key=_number)

    def version(self) -> str:
        """The version of the server."""
        return self._ask(lambda client: client.info()).version

    def agents(self) -> list[str]:
        """The agents that have a store on the server, as far as the API key may know."""
        found = self._ask(lambda client: client.get_aliases()).aliases
        start = f"{self._config.qdrant_prefix}."
        names = [alias.alias_name for alias in found]
        return sorted(name.removeprefix(start) for name in names if name.startswith(start))

    def _name(self, shard: str) -> str:
        return f"{self._alias}.{shard}"

    def _is_empty(self) -> bool:
        """Whether there is nothing of the agent, but what an interrupted creation leaves."""
        return not any(self.beside(info).count() for info in self.all())

    def _remove(self, shard: str) -> None:
        self._ask(lambda client: client.delete_collection(self._name(shard)))

    def _described(self, name: str) -> ServerInfo | None:
        """What the collection says of itself; None if there is none."""
        try:
            found = self._ask(lambda client: client.get_collection(name))
        except MissingError:
            return None
        try:
            info = ServerInfo.from_metadata(found.config.metadata or {}, found.points_count or 0)
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedStoreError(
                f"The collection {name!r} on the server does not say what it is: it has lost "
                "its metadata, or is none of a memory. Restore it from a snapshot, or choose "
                "another qdrant_prefix."
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
