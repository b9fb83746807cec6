"""The one door for maintenance. It works on backends, never on MemoryStorage.

`place` gives the place where a store is kept, with all that can be asked and done there;
`plan_move` takes two places. A store's info says whether an erasure is due: `erasing`.
"""

from ..files.shard import ENGINE
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
