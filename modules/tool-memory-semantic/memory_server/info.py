"""What a store on a server is, according to its collection's metadata."""

from collections.abc import Mapping
from typing import Any

from memory_semantic.errors import NewerStoreError
from memory_semantic.store import StoreInfo
from pydantic import Field

_FORMAT = 2
# The keys in a collection's metadata: what the store is, and whether the collection is ready.
_STORE = "agent_memory"
_READY = "agent_memory_ready"
NOW_READY = {_READY: True}


class ServerInfo(StoreInfo):
    """What a store on a server is. `shard` names its collection and the vector in it; `ready` is
    False while the collection is being filled. A write is acknowledged once it was read back from
    `write_consistency` copies.
    """

    shard: str = Field(default="shard-1", pattern=r"^shard-[0-9]+$")
    ready: bool = Field(default=True, exclude=True)
    write_consistency: int = Field(default=1, ge=1, exclude=True)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], **there: Any) -> "ServerInfo":
        """The info in `metadata`, with what is `there` besides, under the names of fields.

        Raises NewerStoreError if a newer version made it; ValueError, LookupError or TypeError if
        it is not ours.
        """
        fields = metadata[_STORE]
        if fields["format"] > _FORMAT:
            raise NewerStoreError(
                f"The store was made by a newer version (format {fields['format']}). Upgrade "
                "amplifier-module-tool-memory-semantic."
            )
        if fields["format"] != _FORMAT:
            raise ValueError("It is of an unknown format.")
        return cls.model_validate({**fields, "ready": metadata.get(_READY, True), **there})

    def metadata(self) -> dict[str, Any]:
        """This info as a collection's metadata."""
        fields = self.model_dump(mode="json", by_alias=True, exclude={"common", "memories"})
        return {_STORE: {"format": _FORMAT, **fields}, _READY: self.ready}
