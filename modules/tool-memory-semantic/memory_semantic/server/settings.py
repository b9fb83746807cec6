"""The settings of a store on a server, by the names that they have in a bundle."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from ..errors import InputError
from ..settings import Settings, variable

# What is the key of the server where the settings have none.
KEY_VARIABLE = "AGENT_MEMORY_QDRANT_API_KEY"
# What a try at a request may take, in seconds.
TRY_SECONDS = 10
# Searches compare all memories up to so many; above, the server uses its index, and may miss some.
EXACT_BELOW = 20_000

_Positive = Annotated[int, Field(ge=1)]


def _key(key: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"qdrant_api_key (or {KEY_VARIABLE}) is not a key. Set it again.")
    return key


class ServerConfig(Settings):
    """How the server is talked to, and what is asked of it when a store is made.

    `qdrant_api_key` is by default what AGENT_MEMORY_QDRANT_API_KEY says. `qdrant_prefix` is what
    the names of collections begin with, `qdrant_timeout` the seconds that each of three tries may
    take.

    The others count when a store is made. Of `qdrant_replicas` copies a write must reach
    `qdrant_write_consistency`, by default half of them or more. Up to about `qdrant_exact_below`
    memories a search compares all; above, vectors are served from disk, found by a graph and, with
    `qdrant_quantization`, by a smaller copy that stays in memory.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the key among it

    qdrant_api_key: Annotated[str, AfterValidator(_key)] = Field(
        default_factory=lambda: variable(KEY_VARIABLE), repr=False
    )
    qdrant_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "agent-memory"
    qdrant_timeout: _Positive = TRY_SECONDS
    qdrant_shards: _Positive = 1
    qdrant_replicas: _Positive = 1
    qdrant_write_consistency: _Positive | None = None
    qdrant_exact_below: _Positive = EXACT_BELOW
    qdrant_quantization: Literal["int8", "binary", "none"] = "int8"

    @property
    def write_consistency(self) -> int:
        """How many copies a write must reach."""
        # Of two copies one: the server marks the other as dead before it acknowledges a write that
        # did not reach it, and brings it back by itself. If both must have it and one has not, the
        # write fails, and the two differ.
        return self.qdrant_write_consistency or (self.qdrant_replicas + 1) // 2
