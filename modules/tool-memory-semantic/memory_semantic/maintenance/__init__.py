"""The one door for whoever keeps stores in order. It works on backends, never on MemoryStorage.

`place` answers what there is to know and to do where a store is kept, whatever keeps it;
`plan_move` begins with two places. Whether an erasure is due, the info of a store tells: `erasing`.

What is behind a name is loaded at its first use: most commands need `place` alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..files.shard import ENGINE

if TYPE_CHECKING:
    from .findings import Finding, Repair, ShowProgress
    from .move import Move, plan_move
    from .places import Forgotten, Place, place

__all__ = [
    "ENGINE",
    "Finding",
    "Forgotten",
    "Move",
    "Place",
    "Repair",
    "ShowProgress",
    "place",
    "plan_move",
]

_HOMES = {
    "Finding": "findings",
    "Forgotten": "places",
    "Move": "move",
    "Place": "places",
    "Repair": "findings",
    "ShowProgress": "findings",
    "place": "places",
    "plan_move": "move",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
