"""The settings, by their names in a bundle or in settings.yaml."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .check import clean_base_url, clean_local
from .errors import InputError
from .limits import HERE, LOCK_SECONDS, MAX_RESULTS

T = TypeVar("T")

# The variable that names the server if the settings do not.
SERVER_VARIABLE = "AGENT_MEMORY_QDRANT_URL"


def clean_place(url: str) -> str:
    """The address of a Qdrant server, or `HERE`. Raises InputError for anything else."""
    place = clean_local(url) or HERE
    if place != HERE:
        clean_base_url(place, "qdrant_url", "http://localhost:6333")
    return place.rstrip("/")


def clean_root(path: str) -> str:
    """The storage root `path` with `~` expanded. Raises InputError for an impossible one, and for
    one that is another folder wherever it is used.
    """
    home = os.environ.get("HOME")
    if path.startswith("~") and home is not None and not Path(home).is_absolute():
        raise InputError(f"HOME is {home!r:.80}, not a folder. Set it to your home folder.")
    if "\0" in path or "${" in path:
        raise InputError("storage_root cannot be a folder, or a variable in it was not expanded.")
    try:
        root = Path(path).expanduser()
        here = os.path.realpath(root)
    except (RuntimeError, FileNotFoundError):
        raise InputError(
            "storage_root is in a home or current folder that does not exist."
        ) from None
    if not root.is_absolute():
        raise InputError(
            f"storage_root {path!r:.80} is not an absolute path, so each folder that you work in "
            f"would have a memory of its own. Write {here} instead."
        )
    return str(root)


def variable(name: str) -> str:
    """The environment variable of this name, trimmed; blank if it is not set."""
    return os.environ.get(name, "").strip()


class Settings(BaseModel):
    """Settings by name, checked; defaults may come from the environment, read each time."""

    model_config = ConfigDict(frozen=True, validate_default=True, hide_input_in_errors=True)

    @classmethod
    def parse(cls, config: Mapping[str, Any] | None) -> Self:
        """See `parsed`."""
        return parsed(config, cls)


class StorageConfig(Settings):
    """Where memories are kept, what embeds them, how many a search may return.

    The descriptions are the rows of the table in the module's README.
    """

    storage_root: Annotated[str, AfterValidator(clean_root)] = Field(
        "~/.amplifier/memory",
        description="where the stores of all agents are: an absolute path on a local disk",
    )
    embedding_model: Annotated[str, AfterValidator(clean_local)] | None = Field(
        None,
        description="`local`, a [model on this machine](../../docs/models.md) such as "
        "`multilingual`, or a model's name at the service",
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
        False, description="whether searches record which memories they find, and when"
    )
    qdrant_url: Annotated[str, AfterValidator(clean_place)] = Field(
        default_factory=lambda: variable(SERVER_VARIABLE),
        description="a Qdrant server to keep the stores on instead; `local` means this machine",
    )


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
