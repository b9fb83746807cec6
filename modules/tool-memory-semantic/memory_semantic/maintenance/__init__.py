"""The one door for whoever keeps stores in order. It works on backends, never on MemoryStorage.

Whether an erasure is due, the info of a store on this machine tells: its `erasing`.
"""

from .copy import copy, lacking, memories_in, missing, remove
from .damaged import readable
from .examine import examine, renew_ids, traces
from .on_server import restore
from .rebuild import erase, give_up, rebuild, repair, unembedded
from .salvage import Salvaged, salvage

__all__ = [
    "Salvaged",
    "copy",
    "erase",
    "examine",
    "give_up",
    "lacking",
    "memories_in",
    "missing",
    "readable",
    "rebuild",
    "remove",
    "renew_ids",
    "repair",
    "restore",
    "salvage",
    "traces",
    "unembedded",
]
