"""The settings of a store on a server, by their names in a bundle."""

from typing import Annotated, Literal

from memory_semantic.errors import InputError
from memory_semantic.settings import Settings, variable
from pydantic import AfterValidator, ConfigDict, Field

# The variable with the server's key if the settings have none.
KEY_VARIABLE = "AGENT_MEMORY_QDRANT_API_KEY"
# How long one try at a request may take, in seconds.
TRY_SECONDS = 10
# Up to this many memories, a search compares all; above, the server uses its index and may miss
# some.
EXACT_BELOW = 20_000


def _key(key: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"qdrant_api_key (or {KEY_VARIABLE}) is not a valid key. Set it again.")
    return key


class ServerConfig(Settings):
    """How to talk to the server, and how it should keep a new store.

    Those from `qdrant_shards` on take effect when a store is created. The descriptions are the rows
    of the table in docs/server.md.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the input includes the key

    qdrant_api_key: Annotated[str, AfterValidator(_key)] = Field(
        default_factory=lambda: variable(KEY_VARIABLE),
        repr=False,
        description="the server's key, or an access token",
    )
    qdrant_prefix: str = Field(
        "agent-memory",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="the prefix of all collection names: a different one for each team on a shared "
        "server",
    )
    qdrant_timeout: int = Field(
        TRY_SECONDS,
        ge=1,
        description="seconds that each of three tries may take to connect, and to be answered",
    )
    qdrant_shards: int = Field(
        1,
        ge=1,
        description="pieces of a collection; with more than one, shared words are counted in each "
        "separately",
    )
    qdrant_replicas: int = Field(
        1, ge=1, description="copies, on different nodes; use 3 in a cluster"
    )
    qdrant_write_consistency: int | None = Field(
        None, ge=1, description="copies that a write must reach before it is acknowledged"
    )
    qdrant_exact_below: int = Field(
        EXACT_BELOW,
        ge=1,
        description="number of memories up to which a search compares all; above, the server uses "
        "a graph and may miss some",
    )
    qdrant_quantization: Literal["int8", "binary", "none"] = Field(
        "int8",
        description="the copy of the vectors that stays in memory above that, while the originals "
        "are on disk: `int8`, `binary` (also for small collections), `none`",
    )

    @property
    def write_consistency(self) -> int:
        """How many copies a write must reach."""
        # Where the network splits a cluster, at most one side has more than half of the copies.
        return self.qdrant_write_consistency or self.qdrant_replicas // 2 + 1
