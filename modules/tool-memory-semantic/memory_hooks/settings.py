"""The settings of a hook in this package: those of the memory tools, and its own.

A hook uses the same store as the tools of its session. Their settings are in the session's mount
plan; the hook's `config` may repeat them, and then wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from memory_semantic.identity import SETTINGS, TOOL_MODULE, module_config, resolve_agent_id
from memory_semantic.limits import PIN_BUDGET
from pydantic import Field

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage

Own = TypeVar("Own")


@dataclass(kw_only=True)
class RecallConfig:
    """What is recalled, and how much of it.

    The descriptions are the rows of the table in docs/recall.md.
    """

    token_budget: Annotated[
        int, Field(ge=0, description="tokens for the first prompt of a conversation; 0 for nothing")
    ] = 2_000
    pin_budget: Annotated[
        int, Field(ge=0, description="tokens of these for rules, where not everything fits")
    ] = PIN_BUDGET
    prompt_token_budget: Annotated[
        int, Field(ge=0, description="tokens for each later prompt; 0 for nothing")
    ] = 500
    min_cosine: Annotated[
        float | None, Field(ge=0, description="the cosine from which a memory is close")
    ] = None


@dataclass(kw_only=True)
class CaptureConfig:
    """When the reminders stop.

    The descriptions are the rows of the table in docs/capture.md.
    """

    max_per_session: Annotated[
        int,
        Field(
            ge=0, description="how many memories a session stores before reminders stop; 0 for none"
        ),
    ] = 20


def read_own(
    coordinator: Any, config: Mapping[str, Any], own: type[Own]
) -> tuple[Own, dict[str, Any]]:
    """The hook's own settings, as the dataclass `own`, and those of the store.

    To be called at first use, not when mounting: a mistake in the settings must not keep the module
    from loading. Raises InputError for an invalid value or an unknown setting.
    """
    from memory_semantic.settings import core_settings, parsed

    names = [field.name for field in fields(own)]  # type: ignore[arg-type]
    named = _named(coordinator, config)
    memory = core_settings(named, own=[*names, *SETTINGS])
    return parsed({name: named[name] for name in names if name in named}, own), memory


def read(
    coordinator: Any, config: Mapping[str, Any], own: type[Own]
) -> tuple[Own, "MemoryStorage"]:
    """The hook's own settings, and the store of the session's agent, whose identity may come late.
    Creates and contacts nothing. Raises InputError also for a session without an agent_identity.
    """
    from memory_semantic import MemoryStorage

    of_hook, memory = read_own(coordinator, config, own)
    return of_hook, MemoryStorage(agent_of(coordinator, config), memory)


def agent_of(coordinator: Any, config: Mapping[str, Any]) -> str:
    """The session's agent. Raises InputError if it has none."""
    return resolve_agent_id(coordinator, _named(coordinator, config))


def _named(coordinator: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    return {**module_config(coordinator, TOOL_MODULE), **config}
