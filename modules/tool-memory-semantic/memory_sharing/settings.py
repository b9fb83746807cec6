"""The module's own settings. It takes all others from the memory tools of the session."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from memory_semantic.errors import InputError
from memory_semantic.identity import validate_agent_id
from pydantic import BeforeValidator, Field, ValidationInfo

MODULE = "tool-memory-semantic-sharing"


def _names(value: object, setting: ValidationInfo) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, Iterable):
        raise InputError(f"The setting {setting.field_name} must be a list of agents.")
    names = (name.strip() if isinstance(name, str) else name for name in given)
    try:
        return tuple(dict.fromkeys(validate_agent_id(name) for name in names if name != ""))
    except InputError as error:
        raise InputError(f"The setting {setting.field_name} is wrong. {error}") from None


# The value of a setting that names agents: a list, or a text with commas.
Agents = Annotated[tuple[str, ...], BeforeValidator(_names)]


@dataclass(frozen=True, kw_only=True)
class SharingConfig:
    """Whose stores an agent may use besides its own.

    The descriptions are the rows of the table in docs/sharing.md.
    """

    share_with: Annotated[
        Agents, Field(description="the agents that `memory_share` may copy a memory to")
    ] = ()
    also_search: Annotated[
        Agents, Field(description="the agents whose memories `memory_search` also finds")
    ] = ()
