"""The settings, all from the environment, and what the daemon says when something fails."""

import logging
import os
import traceback
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

BUNDLE_TOKENS = 65_000  # the specification's
MIN_BUNDLE_TOKENS = 500  # less has room for the headings only
BODY_BYTES = 16 << 20  # of one HTTP request: a text of 10 MB, escaped
CLIENTS_TOKEN = "MEMORY_DAEMON_TOKEN"  # which clients read, on the same machine
_PREFIX = "MEMORY_DAEMON_"
UNCHANGED = "Nothing was recorded or changed."
log = logging.getLogger(__name__)


class Refused(Exception):
    """A sentence for the caller: what is wrong, what was and was not changed, what to do."""


def explained(error: ValidationError) -> str:
    """The first few problems, without the values, which may be private."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    lines = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:5])
    return "; ".join(line.removeprefix(": ") for line in lines) + "."


def failed(what: str, error: Exception) -> str:
    """A sentence for the caller. The log gets the places where `what` failed, and not the words of
    the error, which may be something recorded.
    """
    places = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed: %s\n%s", what, type(error).__name__, places)
    return f"The daemon failed ({type(error).__name__}); its log says where."


class Settings(BaseSettings):
    """How the daemon runs, from variables named MEMORY_DAEMON_…. Raises Refused if one is invalid.

    Without a `dsn` it runs an embedded PostgreSQL under `home`.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True)

    dsn: str = ""
    # PostgreSQL refuses to run as root, and the user it runs as instead cannot enter root's home.
    home: Path = Path("~/.amplifier/memory-daemon" if os.geteuid() else "/var/lib/memory-daemon")
    tokens: Path = Path("tokens.json")  # in `home`
    host: str = "127.0.0.1"
    port: int = Field(8765, ge=0, le=65_535)
    allowed_hosts: str = ""  # names by which other machines reach it, separated by spaces
    embedding_model: str = "static"  # or "none": then everything is found by words
    page: Literal["local", "everywhere", "off"] = "local"  # for which browsers
    retention_days: int | None = Field(None, ge=1, le=36_500)

    def __init__(self, **given: Any) -> None:
        # A variable that is misspelt would silently start another database.
        known = {f"{_PREFIX}{name}".upper() for name in type(self).model_fields} | {CLIENTS_TOKEN}
        for name in os.environ:
            if name.upper().startswith(_PREFIX) and name.upper() not in known:
                [near] = get_close_matches(name.upper(), known, 1, 0)
                raise Refused(f"There is no setting {name}. Did you mean {near}?")
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise Refused(f"A MEMORY_DAEMON_… setting is invalid. {explained(error)}") from None
        self.home = self.home.expanduser().absolute()
        self.tokens = self.home / self.tokens.expanduser()
        if self.host not in ("127.0.0.1", "localhost", "::1") and not self.allowed_hosts:
            raise Refused(
                f"MEMORY_DAEMON_HOST is {self.host}: other machines can connect. Set "
                "MEMORY_DAEMON_ALLOWED_HOSTS to the names by which they do."
            )
