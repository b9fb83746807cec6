"""The settings of a store on a server, by their names in a bundle."""

from typing import Annotated

from memory_semantic.check import Settings, variable
from memory_semantic.errors import InputError
from pydantic import AfterValidator, ConfigDict, Field

# The variable with the server's key if the settings have none.
KEY_VARIABLE = "AGENT_MEMORY_QDRANT_API_KEY"
# How long one try at a request may take, in seconds.
TRY_SECONDS = 10


def _key(key: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"qdrant_api_key (or {KEY_VARIABLE}) is not a valid key. Set it again.")
    return key


class ServerConfig(Settings):
    """How to talk to the server. The descriptions are the rows of the table in docs/server.md."""

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
    qdrant_replicas: int = Field(
        1,
        ge=1,
        description="copies of a new store, on different nodes; use 3 in a cluster. A write must "
        "reach more than half of them",
    )

    def collection(self, agent: str) -> str:
        """The name of the collection of `agent`."""
        return f"{self.qdrant_prefix}.{agent}"
