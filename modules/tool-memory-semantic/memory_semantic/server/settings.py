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


def _key(key: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"qdrant_api_key (or {KEY_VARIABLE}) is not a key. Set it again.")
    return key


class ServerConfig(Settings):
    """How the server is talked to, and what is asked of it when a store is made.

    Those from `qdrant_shards` on count when a store is made. The descriptions are the rows of the
    table in docs/server.md.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the key among it

    qdrant_api_key: Annotated[str, AfterValidator(_key)] = Field(
        default_factory=lambda: variable(KEY_VARIABLE),
        repr=False,
        description="the key of the server, or an access token",
    )
    qdrant_prefix: str = Field(
        "agent-memory",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="what the names of collections begin with: one for each team of a shared "
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
        "by itself",
    )
    qdrant_replicas: int = Field(
        1, ge=1, description="copies, on different nodes; take 3 in a cluster"
    )
    qdrant_write_consistency: int | None = Field(
        None, ge=1, description="copies that must have a write before it is acknowledged"
    )
    qdrant_exact_below: int = Field(
        EXACT_BELOW,
        ge=1,
        description="memories up to which a search compares all of them; above, the server uses a "
        "graph, and may miss some",
    )
    qdrant_quantization: Literal["int8", "binary", "none"] = Field(
        "int8",
        description="what stays in memory of the vectors above that, while the originals are on "
        "disk: `int8`, `binary` (small collections too), `none`",
    )

    @property
    def write_consistency(self) -> int:
        """How many copies a write must reach."""
        # Of two copies one: the server marks the other as dead before it acknowledges a write that
        # did not reach it, and brings it back by itself. If both must have it and one has not, the
        # write fails, and the two differ.
        return self.qdrant_write_consistency or (self.qdrant_replicas + 1) // 2
