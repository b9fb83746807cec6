"""The settings, by their names in a bundle or in settings.yaml. A misspelt one is refused."""

import os
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .check import clean_base_url, clean_local
from .errors import UNCHANGED, InputError
from .glance import clean_root
from .limits import HERE, LOCK_SECONDS, MAX_RESULTS, SERVER_VARIABLE, STORAGE_ROOT

T = TypeVar("T")

# The variable with the server's key if the settings have none.
KEY_VARIABLE = "AGENT_MEMORY_QDRANT_API_KEY"
# How long one try at a request to the server may take, in seconds.
TRY_SECONDS = 10
# How similar a setting must be to be suggested for an unknown name: `max_query_results` for
# `max_results`, but not `qdrant_api_key` for `openai_api_key`.
_NEAR = 0.75


def clean_place(url: str) -> str:
    """The address of a Qdrant server, or `HERE`. Raises InputError for anything else."""
    place = clean_local(url) or HERE
    if place != HERE:
        clean_base_url(place, f"qdrant_url (or {SERVER_VARIABLE})", "http://localhost:6333")
    return place.rstrip("/")


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, validate_default=True, hide_input_in_errors=True)


class StorageConfig(_Settings):
    """Where memories are kept, what embeds them, how many a search may return.

    The descriptions are the rows of the table in the module's README.
    """

    storage_root: Annotated[str, AfterValidator(clean_root)] = Field(
        STORAGE_ROOT,
        description="where the stores of all agents are: an absolute path on a local disk",
    )
    embedding_model: Annotated[str, AfterValidator(clean_local)] | None = Field(
        None,
        description="`local` or `static`, which are inside; a [model on this machine]"
        "(../../docs/models.md) such as `multilingual`; or a model's name at the service",
    )
    base_url: Annotated[str, AfterValidator(clean_base_url)] | None = Field(
        None, description="the address of an OpenAI-compatible service"
    )
    dimensions: int | None = Field(None, ge=1, description="a vector length to ask the service for")
    lexical_weight: float | None = Field(
        None, ge=0, le=1, description="how much shared words count besides meaning, 0 to 1"
    )
    max_query_results: int = Field(
        MAX_RESULTS,
        ge=1,
        le=MAX_RESULTS,
        description=f"the most that one search returns, 1 to {MAX_RESULTS}",
    )
    lock_timeout: float = Field(
        LOCK_SECONDS,
        ge=0,
        description="seconds that a call waits for other calls on the same store",
    )
    mask_secrets: bool = Field(
        True,
        description="whether keys and passwords are masked before they are embedded or stored",
    )
    read_only: bool = Field(False, description="whether a session gets only `memory_search`")
    usage: bool = Field(
        False, description="whether searches and recall record which memories they find, and when"
    )
    qdrant_url: Annotated[str, AfterValidator(clean_place)] = Field(
        default_factory=lambda: os.environ.get(SERVER_VARIABLE, "").strip(),
        description="a Qdrant server to keep the stores on instead; `local` means this machine",
    )


def clean_key(key: str) -> str:
    """A key for the server. Raises InputError for one that no header can hold."""
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"qdrant_api_key (or {KEY_VARIABLE}) is not a valid key. Set it again.")
    return key


class ServerConfig(_Settings):
    """How to talk to a server. The descriptions are the rows of the table in docs/server.md."""

    qdrant_api_key: Annotated[str, AfterValidator(clean_key)] = Field(
        default_factory=lambda: os.environ.get(KEY_VARIABLE, "").strip(),
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


def core_settings(config: Mapping[str, Any] | None, own: Collection[str] = ()) -> dict[str, Any]:
    """The settings in `config`, without a module's `own`. Raises InputError for an unknown name: a
    misspelt setting would have no effect, and nobody would know.
    """
    known = {*StorageConfig.model_fields, *ServerConfig.model_fields, *own}
    given = {str(name): value for name, value in (config or {}).items()}
    wrong = []
    for name in (each for each in given if each not in known):
        near = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=_NEAR)
        hint = f"Did you mean {near[0]!r}?" if near else "The module's README lists all settings."
        wrong.append(f"There is no setting {name!r:.60}. {hint}")
    if wrong:
        raise InputError(f"{' '.join(wrong)} {UNCHANGED}")
    return {name: value for name, value in given.items() if name not in own}


def parsed(config: Mapping[str, Any] | None, into: type[T]) -> T:
    """The settings in `config` that the model or dataclass `into` has. Any of them may be a text,
    and a blank one counts as unset: that is how Amplifier expands `${VAR}`. Raises InputError for
    an invalid one.
    """
    values = {
        name: value.strip() if isinstance(value, str) else value
        for name, value in (config or {}).items()
    }
    given = {name: value for name, value in values.items() if value is not None and value != ""}
    try:
        settings = TypeAdapter(into).validate_python(given)
    except ValidationError as error:
        raise InputError(" ".join(map(_wrong, error.errors()))) from None
    for name, value in given.items():
        # Where pydantic takes a number from a text, it also takes True, as 1.
        if isinstance(value, bool) and not isinstance(getattr(settings, name, True), bool):
            raise InputError(f"The setting {name} is wrong: it must be a number, not bool.")
    return settings


def _wrong(error: Any) -> str:
    cause = error.get("ctx", {}).get("error")
    if cause:  # one of our own errors, which names the setting
        return str(cause)
    rule = re.sub(r"^(Input|String) should", "it must", error["msg"])
    return f"The setting {error['loc'][0]} is wrong: {rule}."
