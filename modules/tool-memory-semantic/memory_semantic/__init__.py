"""Semantic memory for agents: store a text today, find it by meaning in a later session.

Most names are loaded at first use, so that mounting the Amplifier module imports neither the vector
engine nor an embedding model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import limits
from .errors import AgentMemoryError, DamagedStoreError, EmbeddingError, InputError, StorageError
from .identity import configured_agent, validate_agent_id
from .plaintext import plain
from .resources import shortage_of

if TYPE_CHECKING:
    from .embeddings.generator import EmbeddingGenerator
    from .memory import Memory, timestamp_text
    from .settings import StorageConfig, core_settings
    from .storage import MemoryStorage
    from .store import Store, Stored, StoreInfo, memory_of
    from .usage import UsageStats

__all__ = [
    "AgentMemoryError",
    "DamagedStoreError",
    "EmbeddingError",
    "EmbeddingGenerator",
    "InputError",
    "Memory",
    "MemoryStorage",
    "StorageConfig",
    "StorageError",
    "Store",
    "StoreInfo",
    "Stored",
    "UsageStats",
    "configured_agent",
    "core_settings",
    "limits",
    "memory_of",
    "plain",
    "shortage_of",
    "timestamp_text",
    "validate_agent_id",
]

_HOMES = {
    "EmbeddingGenerator": "embeddings.generator",
    "Memory": "memory",
    "MemoryStorage": "storage",
    "StorageConfig": "settings",
    "Store": "store",
    "StoreInfo": "store",
    "Stored": "store",
    "UsageStats": "usage",
    "core_settings": "settings",
    "memory_of": "store",
    "timestamp_text": "memory",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
