"""The one door for whoever keeps stores in order. It works on backends, never on MemoryStorage.

`place` answers what there is to know and to do where a store is kept, whatever keeps it;
`plan_move` begins with two places. Whether an erasure is due, the info of a store tells: `erasing`.
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
