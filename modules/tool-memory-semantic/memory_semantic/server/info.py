"""What a store on a server is, as its collection says in its metadata."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ..errors import NewerStoreError
from ..store import StoreInfo

# 1 is a store without words. 1.3 reads both, and writes them like this.
_FORMAT = 2
# Where in the metadata of a collection the rest is, and whether it is ready.
_STORE = "agent_memory"
_READY = "agent_memory_ready"


class ServerInfo(StoreInfo):
    """What a store on a server is.

    `shard` names its collection and the vector in it. `ready` is False while the collection is
    being filled. `points` is how many memories there were when this was read, which the server
    tells in passing: about so many.
    """

    shard: str = Field(default="shard-1", pattern=r"^shard-[0-9]+$")
    ready: bool = Field(default=True, exclude=True)
    points: int = Field(default=0, exclude=True)

    @classmethod
    def describing(cls, info: StoreInfo, shard: str) -> "ServerInfo":
        """`info` of a store that lies in `shard`, and is new there."""
        return cls.model_validate({**dict(info), "shard": shard, "ready": True, "points": 0})

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], points: int) -> "ServerInfo":
        """What `metadata` made this of. Raises NewerStoreError if a newer version did, ValueError,
        LookupError or TypeError if it was none of ours.
        """
        fields = metadata[_STORE]
        if fields["format"] > _FORMAT:
            raise NewerStoreError(
                f"The store was made by a newer version (format {fields['format']}). Upgrade "
                "amplifier-module-tool-memory-semantic."
            )
        there = {"ready": metadata.get(_READY, True), "points": points}
        return cls.model_validate({**fields, **there})

    def metadata(self) -> dict[str, Any]:
        """What the collection says of itself."""
        fields = self.model_dump(mode="json", by_alias=True, exclude={"common"})
        number = _FORMAT if self.words else 1
        return {_STORE: {"format": number, **fields}, _READY: self.ready}


# What the metadata of a collection that becomes ready is changed by.
NOW_READY = {_READY: True}
