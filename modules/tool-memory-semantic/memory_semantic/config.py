"""The settings, by the names that they have in a bundle or in settings.yaml."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from .errors import UNCHANGED, InputError
from .models import HERE, LOCK_SECONDS, MAX_RESULTS, clean_base_url, clean_local

T = TypeVar("T")

# What names the server where the settings do not, and what others name theirs by.
SERVER_VARIABLE = "AGENT_MEMORY_QDRANT_URL"
_OTHERS_VARIABLE = "QDRANT_URL"
# How alike two names must be for the one to be advised instead of the other: `max_results` is
# `max_query_results`, but `openai_api_key` is not `qdrant_api_key`.
_NEAR = 0.75


@dataclass(kw_only=True)
class StorageConfig:
    """Where memories are kept, what embeds them, how many a search may return.

    `embedding_model` is `local` or a model's name at the service; None lets a new store choose.
    `base_url` is the address of an OpenAI-compatible service, `dimensions` a vector length to ask
    it for. `lexical_weight` is how much shared words count beside the meaning; None stands for 0.3
    with the built-in model and 0 with others. `lock_timeout` is the seconds that a call waits for
    other calls on the same memory.
    `mask_secrets` is for the tools: whether they mask credentials; `read_only` too: whether a
    session gets `memory_search` alone.
    `qdrant_url` is the address of a Qdrant server that keeps the memories instead, by default what
    AGENT_MEMORY_QDRANT_URL says; `local` stands for this machine.

    `doubt` is not a setting. It is blank, or nothing says where memories are but QDRANT_URL, which
    1.2.0 read: what to do about it if this machine has none.
    """

    storage_root: str = "~/.amplifier/memory"
    embedding_model: str | None = None
    base_url: str | None = None
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    lexical_weight: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    max_query_results: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS)] = MAX_RESULTS
    lock_timeout: Annotated[float, msgspec.Meta(ge=0)] = LOCK_SECONDS
    mask_secrets: bool = True
    read_only: bool = False
    qdrant_url: str = ""

    def __post_init__(self) -> None:
        self.storage_root = _folder(self.storage_root)  # the home is that of the moment
        self.base_url = clean_base_url(self.base_url)
        if self.embedding_model:
            self.embedding_model = clean_local(self.embedding_model)
        named = self.qdrant_url or os.environ.get(SERVER_VARIABLE, "").strip()
        self.qdrant_url = clean_place(named)
        others = clean_local(os.environ.get(_OTHERS_VARIABLE, "")) or HERE
        self.doubt = "" if named or others == HERE else _DOUBT

    @classmethod
    def parse(cls, config: Mapping[str, Any] | None) -> "StorageConfig":
        """The settings in `config`. Raises InputError for a value that is wrong."""
        return parsed(config, cls)


_DOUBT = (
    f"{_OTHERS_VARIABLE} is set, which belongs to other programs and is not used. If the memory is "
    f"on that server, set {SERVER_VARIABLE} (and AGENT_MEMORY_QDRANT_API_KEY), or qdrant_url "
    f"in the settings; if it is to be on this machine, set qdrant_url to {HERE!r}."
)


def core_settings(config: Mapping[str, Any] | None, own: Collection[str] = ()) -> dict[str, Any]:
    """The settings in `config`, without those that a module has of its `own`.

    Raises InputError for a name that is neither the core's nor the module's: a misspelt setting
    would not be in force, and nobody would know.
    """
    known = {each.name for each in fields(StorageConfig)} | set(own)
    given = {str(name): value for name, value in (config or {}).items()}
    if not given.keys() <= known:
        from memory_server.config import ServerConfig  # needed where there is a server, and here

        known |= {each.name for each in fields(ServerConfig)}
    wrong = [_no_setting(name, known) for name in given if name not in known]
    if wrong:
        raise InputError(f"{' '.join(wrong)} {UNCHANGED}")
    return {name: value for name, value in given.items() if name not in own}


def _no_setting(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=_NEAR)
    hint = f"Did you mean {near[0]!r}?" if near else "The module's README lists those there are."
    return f"There is no setting {name!r:.60}. {hint}"


def parsed(config: Mapping[str, Any] | None, into: type[T]) -> T:
    """Those of the settings in `config` that the dataclass `into` has; blank texts are ignored,
    because Amplifier expands an unset `${VAR}` to one. Raises InputError for a value that is wrong.
    """
    given = {
        key: value.strip() if isinstance(value, str) else value
        for key, value in (config or {}).items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
    try:
        return msgspec.convert(given, into, strict=False)  # Amplifier expands to texts
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        name = f"The setting {place.rstrip('`')} is wrong: " if place else ""
        raise InputError(f"{name}{what.rstrip('.')}.") from None


def clean_place(url: str) -> str:
    """Where memories are: the address of a Qdrant server, else this machine. Raises InputError for
    no address.
    """
    place = clean_local(url) or HERE
    if place != HERE:
        clean_base_url(place, "qdrant_url", "http://localhost:6333")
    return place.rstrip("/")


def expanded(path: str, name: str) -> Path:
    """`path`, absolute, in the home of the moment if it begins with `~`; `name` is what errors call
    it. Raises InputError if it has no meaning here.
    """
    home = os.environ.get("HOME")
    if path.startswith("~") and home is not None and not Path(home).is_absolute():
        raise InputError(f"HOME is {home!r:.80}, which is no folder. Set it to your home folder.")
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise InputError(f"{name} is in the home of a user that does not exist.") from None
    except FileNotFoundError:
        raise InputError(f"{name} is in the current folder, which was deleted.") from None


def _folder(root: str) -> str:
    folder = expanded(root, "storage_root")
    if "\0" in root or "${" in root:
        raise InputError("storage_root cannot be a folder, or a variable was not expanded")
    return str(folder)
