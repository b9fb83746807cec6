"""What a store on a server is, as its collection says in its metadata."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ..errors import NewerStoreError
from ..store import StoreInfo

# 1 is a store without words. 1.3 reads both, and writes them like this.
_FORMAT = 2
# Where in the metadata of a collection the rest is, and whether the collection is ready.
_STORE = "agent_memory"
_READY = "agent_memory_ready"
NOW_READY = {_READY: True}


class ServerInfo(StoreInfo):
    """What a store on a server is. `shard` names its collection and the vector in it; `ready` is
    False while that is being filled.
    """

    shard: str = Field(default="shard-1", pattern=r"^shard-[0-9]+$")
    ready: bool = Field(default=True, exclude=True)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], memories: int) -> "ServerInfo":
        """What `metadata` says. Raises NewerStoreError if a newer version made it; ValueError,
        LookupError or TypeError if it is none of ours.
        """
        fields = metadata[_STORE]
        if fields["format"] > _FORMAT:
            raise NewerStoreError(
                f"The store was made by a newer version (format {fields['format']}). Upgrade "
                "amplifier-module-tool-memory-semantic."
            )
        there = {"ready": metadata.get(_READY, True), "memories": memories}
        return cls.model_validate({**fields, **there})

    def metadata(self) -> dict[str, Any]:
        """What the collection says of itself."""
        fields = self.model_dump(mode="json", by_alias=True, exclude={"common", "memories"})
        return {_STORE: {"format": _FORMAT if self.words else 1, **fields}, _READY: self.ready}
