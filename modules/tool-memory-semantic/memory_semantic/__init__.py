"""Semantic memory for agents: store a text today, find it by meaning in a later session.

Most names are loaded at first use, so that mounting the Amplifier module imports neither the vector
engine nor an embedding model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import limits
from .errors import (
    AgentMemoryError,
    DamagedStoreError,
    EmbeddingError,
    InputError,
    RefusedTextError,
    StorageError,
    counted,
    readable_size,
    shortage,
)
from .identity import configured_agent, overruled, validate_agent_id
from .plaintext import one_line, plain

if TYPE_CHECKING:
    from . import exchange, glance, times, upkeep
    from .check import clean_ids
    from .embeddings.generator import EmbeddingGenerator
    from .findings import Finding, ShowProgress
    from .masking import mask, mask_all
    from .memory import Memory
    from .merging import Stored
    from .place import Place
    from .points import StoreInfo
    from .remembered import timestamp_text
    from .settings import StorageConfig, core_settings
    from .storage import MemoryStorage
    from .store import Store
    from .tokens import estimate_tokens
    from .tools import read_arguments
    from .usage import Search

__all__ = [
    "AgentMemoryError",
    "DamagedStoreError",
    "EmbeddingError",
    "EmbeddingGenerator",
    "Finding",
    "InputError",
    "Memory",
    "MemoryStorage",
    "Place",
    "RefusedTextError",
    "Search",
    "ShowProgress",
    "StorageConfig",
    "StorageError",
    "Store",
    "StoreInfo",
    "Stored",
    "clean_ids",
    "configured_agent",
    "core_settings",
    "counted",
    "estimate_tokens",
    "exchange",
    "glance",
    "limits",
    "mask",
    "mask_all",
    "one_line",
    "overruled",
    "plain",
    "read_arguments",
    "readable_size",
    "shortage",
    "times",
    "timestamp_text",
    "upkeep",
    "validate_agent_id",
]

# The module of each name that is loaded at first use, or the name is that module.
_LATER = {
    "check": ["clean_ids"],
    "embeddings.generator": ["EmbeddingGenerator"],
    "exchange": ["exchange"],
    "glance": ["glance"],
    "findings": ["Finding", "ShowProgress"],
    "masking": ["mask", "mask_all"],
    "memory": ["Memory"],
    "merging": ["Stored"],
    "place": ["Place"],
    "points": ["StoreInfo"],
    "remembered": ["timestamp_text"],
    "settings": ["StorageConfig", "core_settings"],
    "storage": ["MemoryStorage"],
    "store": ["Store"],
    "times": ["times"],
    "tokens": ["estimate_tokens"],
    "tools": ["read_arguments"],
    "upkeep": ["upkeep"],
    "usage": ["Search"],
}


def __getattr__(name: str) -> Any:
    for home, names in _LATER.items():
        if name in names:
            module = import_module(f".{home}", __name__)
            return module if name == home else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
