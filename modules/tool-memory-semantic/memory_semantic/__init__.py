"""Semantic memory for agents: store a text today, find it by meaning in a later session.

The classes are loaded at first use, so that mounting the Amplifier module imports neither the
vector engine nor an embedding model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embeddings.generator import EmbeddingGenerator
    from .errors import AgentMemoryError, EmbeddingError, InputError, StorageError
    from .memory import Memory
    from .storage import MemoryStorage

__all__ = [
    "AgentMemoryError",
    "EmbeddingError",
    "EmbeddingGenerator",
    "InputError",
    "Memory",
    "MemoryStorage",
    "StorageError",
]

_HOMES = {
    "AgentMemoryError": "errors",
    "EmbeddingError": "errors",
    "EmbeddingGenerator": "embeddings.generator",
    "InputError": "errors",
    "Memory": "memory",
    "MemoryStorage": "storage",
    "StorageError": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
