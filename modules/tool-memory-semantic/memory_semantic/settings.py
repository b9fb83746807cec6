"""The settings, by the names that they have in a bundle or in settings.yaml."""

import os
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .check import clean_base_url, clean_local
from .errors import UNCHANGED, InputError
from .limits import HERE, LOCK_SECONDS, MAX_RESULTS

T = TypeVar("T")

# What names the server where the settings do not, and what other programs name theirs by.
SERVER_VARIABLE = "AGENT_MEMORY_QDRANT_URL"
_OTHERS_VARIABLE = "QDRANT_URL"
# How alike two names must be for the one to be advised instead of the other: `max_results` is
# `max_query_results`, but `openai_api_key` is not `qdrant_api_key`.
_NEAR = 0.75
_DOUBT = (
    f"{_OTHERS_VARIABLE} is set, which belongs to other programs and is not used. If the memories "
    f"are on that server, set {SERVER_VARIABLE} (and AGENT_MEMORY_QDRANT_API_KEY), or qdrant_url "
    f"in the settings; if they are to be on this machine, set qdrant_url to {HERE!r}."
)


def clean_place(url: str) -> str:
    """The address of a Qdrant server, or `HERE`. Raises InputError for what is no address."""
    place = clean_local(url) or HERE
    if place != HERE:
        clean_base_url(place, "qdrant_url", "http://localhost:6333")
    return place.rstrip("/")


def expanded(path: str, name: str) -> Path:
    """`path`, absolute; `name` is what errors call it. Raises InputError if it can be no folder."""
    home = os.environ.get("HOME")
    if path.startswith("~") and home is not None and not Path(home).is_absolute():
        raise InputError(f"HOME is {home!r:.80}, which is no folder. Set it to your home folder.")
    if "\0" in path or "${" in path:
        raise InputError(f"{name} cannot be a folder, or a variable was not expanded.")
    try:
        return Path(path).expanduser().absolute()
    except (RuntimeError, FileNotFoundError):
        raise InputError(f"{name} is in a home or a current folder that is not there.") from None


def variable(name: str) -> str:
    """What the environment says under this name, trimmed; blank if it says nothing."""
    return os.environ.get(name, "").strip()


class Settings(BaseModel):
    """Settings by name, checked; defaults may come from the environment of the moment."""

    model_config = ConfigDict(frozen=True, validate_default=True, hide_input_in_errors=True)

    @classmethod
    def parse(cls, config: Mapping[str, Any] | None) -> Self:
        """As `parsed` says."""
        return parsed(config, cls)


class StorageConfig(Settings):
    """Where memories are kept, what embeds them, how many a search may return.

    The descriptions are the rows of the table in the module's README.
    """

    storage_root: Annotated[
        str, AfterValidator(lambda root: str(expanded(root, "storage_root")))
    ] = Field(
        "~/.amplifier/memory", description="where the memories of all agents lie, on a local disk"
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
        None, ge=0, le=1, description="how much shared words count beside the meaning, 0 to 1"
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
        description="whether the tools mask keys and passwords before anything else sees them",
    )
    read_only: bool = Field(False, description="whether a session gets `memory_search` alone")
    usage: bool = Field(
        False, description="whether searches record which memories they find, and when"
    )
    qdrant_url: Annotated[str, AfterValidator(clean_place)] = Field(
        default_factory=lambda: variable(SERVER_VARIABLE),
        description="a Qdrant server that keeps the stores instead; `local` is this machine",
    )

    @property
    def doubt(self) -> str:
        """What to do if this machine has no store, where nothing says where the memories are but
        QDRANT_URL, which 1.2.0 read; else blank.
        """
        named = "qdrant_url" in self.model_fields_set or variable(SERVER_VARIABLE)
        others = clean_local(variable(_OTHERS_VARIABLE))
        return "" if named or others in ("", HERE) else _DOUBT


def core_settings(config: Mapping[str, Any] | None, own: Collection[str] = ()) -> dict[str, Any]:
    """The settings in `config`, without those that a module has of its `own`. Raises InputError for
    a name that is neither's: a misspelt setting would not be in force, and nobody would know.
    """
    known = {*StorageConfig.model_fields, *own}
    given = {str(name): value for name, value in (config or {}).items()}
    if not given.keys() <= known:
        from .server.settings import ServerConfig  # needed where there is a server, and here

        known |= ServerConfig.model_fields.keys()
    wrong = [_no_setting(name, known) for name in given if name not in known]
    if wrong:
        raise InputError(f"{' '.join(wrong)} {UNCHANGED}")
    return {name: value for name, value in given.items() if name not in own}


def _no_setting(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=_NEAR)
    hint = f"Did you mean {near[0]!r}?" if near else "The module's README lists those there are."
    return f"There is no setting {name!r:.60}. {hint}"


def parsed(config: Mapping[str, Any] | None, into: type[T]) -> T:
    """Those of the settings in `config` that the model or dataclass `into` has; any may be a text,
    a blank one counting as unset: so Amplifier expands `${VAR}`. Raises InputError for a wrong one.
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
        # What pydantic takes from a text it takes from True as well, which would be 1.
        if isinstance(value, bool) and not isinstance(getattr(settings, name, True), bool):
            raise InputError(f"The setting {name} is wrong: it must be a number, not bool.")
    return settings


def _wrong(error: Any) -> str:
    cause = error.get("ctx", {}).get("error")
    if cause:  # one of ours, which names the setting
        return str(cause)
    rule = re.sub(r"^(Input|String) should", "it must", error["msg"])
    return f"The setting {error['loc'][0]} is wrong: {rule}."
