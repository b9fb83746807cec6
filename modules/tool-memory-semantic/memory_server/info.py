"""What a store on a server is, according to its collection's metadata."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from memory_semantic.errors import NewerStoreError
from memory_semantic.store import StoreInfo
from pydantic import Field

_FORMAT = 3
_STORE = "agent_memory"  # the key in a collection's metadata


class ServerInfo(StoreInfo):
    """What a store on a server is. A write is acknowledged once it was read back from
    `write_consistency` copies.
    """

    write_consistency: int = Field(default=1, ge=1, exclude=True)

    @property
    def vector(self) -> str:
        """The name of the vector in each point. That of another model has another name: the server
        refuses a call that began before the store was removed and made again with another model.
        """
        made_by = json.dumps([*self.model, self.endpoint])
        return sha256(made_by.encode()).hexdigest()[:12]

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
        return cls.model_validate({**fields, **there})

    def metadata(self) -> dict[str, Any]:
        """This info as a collection's metadata."""
        fields = self.model_dump(mode="json", by_alias=True, exclude={"memories"})
        return {_STORE: {"format": _FORMAT, **fields}}
