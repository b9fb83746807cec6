"""An agent's collection on a Qdrant server.

agent-memory.sam                an alias: all requests use this name, and an access token of the
                                agent can be limited to it
agent-memory.sam.memories       the collection that it stands for; the info is in its metadata
"""

import re
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from memory_semantic.errors import DamagedStoreError, ReplacedStoreError, StorageError, explained
from memory_semantic.store import Store, StoreInfo
from qdrant_client import models

from .connection import Connection, ExistsError, MissingError, RefusedError
from .info import ServerInfo
from .requests import INDEXES, parameters
from .settings import ServerConfig
from .store import ServerStore

T = TypeVar("T")

# The first Qdrant with metadata and conditional updates. An older one would ignore the condition.
_OLDEST = (1, 16)


class Collection:
    """The collection `name` of `agent_id` on the server at `url`. Every method may block, and
    raises StorageError; once `cancelled` is set, nothing is retried.
    """

    def __init__(self, agent_id: str, url: str, config: ServerConfig, cancelled: Event) -> None:
        self._agent_id = agent_id
        self._config = config
        self._connection = Connection(url, config, cancelled)
        self._ask = self._connection.ask
        self._alias = f"{config.qdrant_prefix}.{agent_id}"
        self.name = f"{self._alias}.memories"

    def present(self) -> ServerInfo | None:
        """The store that the alias stands for; None if there is no store."""
        for _ in range(2):  # if there was no alias, it may have been made meanwhile
            if found := self._described(self._alias):
                return found
            left = self._described(self.name)
            if not (left and left.memories):  # or no more than an interrupted creation leaves
                return None
        raise DamagedStoreError(
            f"The server has memories of {self._agent_id!r}, but not their alias {self._alias!r}, "
            "which a snapshot does not contain. Create it again: `agent-memory doctor --repair`."
        )

    def run(self, work: Callable[[Store], T], info: ServerInfo) -> T:
        """What `work` returns, given the store that `present` described as `info`. Raises
        ReplacedStoreError if the store is gone, or has another model now.
        """
        try:
            return work(ServerStore(self._alias, info, self._connection))
        except RefusedError as error:
            with explained(error.outcome):
                present = self.present()
            if present and present.vector == info.vector:
                raise
            raise ReplacedStoreError(
                "The store was replaced while this call was running. Try again.", error.outcome
            ) from error

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
        wanted = parameters(ServerInfo.model_validate(dict(info)), self._config)
        try:
            self._ask(lambda client: client.create_collection(self.name, **wanted))
        except ExistsError:  # somebody else's, or left by an interrupted creation
            self._described(self.name)
        for field, kind in INDEXES.items():
            self._ask(
                lambda client, field=field, kind=kind: client.create_payload_index(
                    self.name, field, kind, wait=True
                )
            )
        if self.present() is None:
            self._make_alias()
        made = self.present()
        if made is None:
            raise StorageError("The store was deleted from the server while it was being created.")
        return made

    def restore_alias(self) -> None:
        """Make the alias again if there is none."""
        if self._described(self._alias) is None:
            self._make_alias()

    def version(self) -> str:
        """The version of the server."""
        return self._ask(lambda client: client.info()).version

    def agents(self) -> list[str]:
        """The agents with a store on the server, as far as the API key may see them."""
        found = self._ask(lambda client: client.get_aliases()).aliases
        start = f"{self._config.qdrant_prefix}."
        names = [alias.alias_name for alias in found]
        return sorted(name.removeprefix(start) for name in names if name.startswith(start))

    def _make_alias(self) -> None:
        alias = models.CreateAlias(collection_name=self.name, alias_name=self._alias)
        made = models.CreateAliasOperation(create_alias=alias)
        self._ask(lambda client: client.update_collection_aliases([made]))

    def _described(self, name: str) -> ServerInfo | None:
        """The info of the collection or alias; None if there is none."""
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
                f"The collection {name!r} on the server does not say what it is: it has lost its "
                "metadata, is of an older version, or is not a store. Restore it from a snapshot, "
                "or choose another qdrant_prefix."
            ) from error
        if info.agent != self._agent_id:
            raise StorageError(f"The collection {name!r} on the server belongs to {info.agent!r}.")
        return info
