"""Which settings a bundle's `config` may have; a misspelt one is refused."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from .errors import UNCHANGED, InputError
from .settings import StorageConfig

# How similar a setting must be to be suggested for an unknown name: `max_query_results` for
# `max_results`, but not `qdrant_api_key` for `openai_api_key`.
_NEAR = 0.75


def core_settings(config: Mapping[str, Any] | None, own: Collection[str] = ()) -> dict[str, Any]:
    """The settings in `config`, without a module's `own`. Raises InputError for an unknown name: a
    misspelt setting would have no effect, and nobody would know.
    """
    known = {*StorageConfig.model_fields, *own}
    given = {str(name): value for name, value in (config or {}).items()}
    if not given.keys() <= known:
        from memory_server.settings import ServerConfig  # otherwise needed only with a server

        known |= ServerConfig.model_fields.keys()
    wrong = []
    for name in (each for each in given if each not in known):
        near = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=_NEAR)
        hint = f"Did you mean {near[0]!r}?" if near else "The module's README lists all settings."
        wrong.append(f"There is no setting {name!r:.60}. {hint}")
    if wrong:
        raise InputError(f"{' '.join(wrong)} {UNCHANGED}")
    return {name: value for name, value in given.items() if name not in own}
