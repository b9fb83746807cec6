"""The settings, by their names in a bundle or in settings.yaml."""

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

# The variable that names the server if the settings do not, and the one that other programs use.
SERVER_VARIABLE = "AGENT_MEMORY_QDRANT_URL"
_OTHERS_VARIABLE = "QDRANT_URL"
# How similar a setting must be to be suggested for an unknown name: `max_query_results` for
# `max_results`, but not `qdrant_api_key` for `openai_api_key`.
_NEAR = 0.75
_DOUBT = (
    f"{_OTHERS_VARIABLE} is set, but it belongs to other programs and is not used. If the memories "
    f"are on that server, set {SERVER_VARIABLE} (and AGENT_MEMORY_QDRANT_API_KEY), or qdrant_url "
    f"in the settings; to keep them on this machine, set qdrant_url to {HERE!r}."
)


def clean_place(url: str) -> str:
    """The address of a Qdrant server, or `HERE`. Raises InputError for anything else."""
    place = clean_local(url) or HERE
    if place != HERE:
        clean_base_url(place, "qdrant_url", "http://localhost:6333")
    return place.rstrip("/")


def expanded(path: str, name: str) -> Path:
    """`path`, absolute; `name` is what errors call it. Raises InputError for an impossible one."""
    home = os.environ.get("HOME")
    if path.startswith("~") and home is not None and not Path(home).is_absolute():
        raise InputError(f"HOME is {home!r:.80}, not a folder. Set it to your home folder.")
    if "\0" in path or "${" in path:
        raise InputError(f"{name} cannot be a folder, or a variable in it was not expanded.")
    try:
        return Path(path).expanduser().absolute()
    except (RuntimeError, FileNotFoundError):
        raise InputError(f"{name} is in a home or current folder that does not exist.") from None


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

    storage_root: Annotated[
        str, AfterValidator(lambda root: str(expanded(root, "storage_root")))
    ] = Field(
        "~/.amplifier/memory", description="where the stores of all agents are, on a local disk"
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
        description="whether the tools mask keys and passwords before anything else sees them",
    )
    read_only: bool = Field(False, description="whether a session gets only `memory_search`")
    usage: bool = Field(
        False, description="whether searches record which memories they find, and when"
    )
    qdrant_url: Annotated[str, AfterValidator(clean_place)] = Field(
        default_factory=lambda: variable(SERVER_VARIABLE),
        description="a Qdrant server to keep the stores on instead; `local` means this machine",
    )

    @property
    def doubt(self) -> str:
        """Advice for a machine without a store if only QDRANT_URL, which 1.2.0 read, says where the
        memories may be; else blank.
        """
        named = "qdrant_url" in self.model_fields_set or variable(SERVER_VARIABLE)
        others = clean_local(variable(_OTHERS_VARIABLE))
        return "" if named or others in ("", HERE) else _DOUBT


def core_settings(config: Mapping[str, Any] | None, own: Collection[str] = ()) -> dict[str, Any]:
    """The settings in `config`, without a module's `own`. Raises InputError for an unknown name: a
    misspelt setting would have no effect, and nobody would know.
    """
    known = {*StorageConfig.model_fields, *own}
    given = {str(name): value for name, value in (config or {}).items()}
    if not given.keys() <= known:
        from .server.settings import ServerConfig  # otherwise needed only with a server

        known |= ServerConfig.model_fields.keys()
    wrong = [_no_setting(name, known) for name in given if name not in known]
    if wrong:
        raise InputError(f"{' '.join(wrong)} {UNCHANGED}")
    return {name: value for name, value in given.items() if name not in own}


def _no_setting(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=_NEAR)
    hint = f"Did you mean {near[0]!r}?" if near else "The module's README lists all settings."
    return f"There is no setting {name!r:.60}. {hint}"


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
