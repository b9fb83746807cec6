"""The settings of a memory on a server, by the names that they have in a bundle."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from memory_semantic.config import parsed
from memory_semantic.errors import InputError

# What a try at a request may take, in seconds.
TRY_SECONDS = 10
# Searches compare all memories up to so many; above, the server uses its index, and may miss some.
EXACT_BELOW = 20_000

_POSITIVE = msgspec.Meta(ge=1)


@dataclass(kw_only=True)
class ServerConfig:
    """How the server is talked to, and what is asked of it when a memory is made.

    `qdrant_api_key` is by default what AGENT_MEMORY_QDRANT_API_KEY says. `qdrant_prefix` is what
    the names of collections begin with, `qdrant_timeout` the seconds that each of three tries may
    take.

    The others count when a memory is made. Of `qdrant_replicas` copies a write must reach
    `qdrant_write_consistency`, by default half of them or more. Up to about `qdrant_exact_below`
    memories a search compares all; above, vectors are served from disk, found by a graph and, with
    `qdrant_quantization`, by a smaller copy that stays in memory.
    """

    qdrant_api_key: str | None = field(default=None, repr=False)
    qdrant_prefix: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")] = "agent-memory"
    qdrant_timeout: Annotated[int, _POSITIVE] = TRY_SECONDS
    qdrant_shards: Annotated[int, _POSITIVE] = 1
    qdrant_replicas: Annotated[int, _POSITIVE] = 1
    qdrant_write_consistency: Annotated[int, _POSITIVE] | None = None
    qdrant_exact_below: Annotated[int, _POSITIVE] = EXACT_BELOW
    qdrant_quantization: Literal["int8", "binary", "none"] = "int8"

    def __post_init__(self) -> None:
        self.qdrant_api_key = (
            self.qdrant_api_key or os.environ.get("AGENT_MEMORY_QDRANT_API_KEY", "").strip()
        )
        if not (self.qdrant_api_key.isascii() and self.qdrant_api_key.isprintable()):
            raise InputError(
                "qdrant_api_key (or AGENT_MEMORY_QDRANT_API_KEY) is not a key. Set it again."
            )

    @classmethod
    def parse(cls, config: Mapping[str, Any] | None) -> "ServerConfig":
        """The settings in `config`. Raises InputError for a value that is wrong."""
        return parsed(config, cls)

    @property
    def write_consistency(self) -> int:
        """How many copies a write must reach."""
        # Of two copies one: the server marks the other as dead before it acknowledges a write that
        # did not reach it, and brings it back by itself. If both must have it and one has not, the
        # write fails, and the two differ.
        return self.qdrant_write_consistency or (self.qdrant_replicas + 1) // 2
