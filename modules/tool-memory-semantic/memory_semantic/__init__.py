"""Semantic memory for agents: store a text today, find it by meaning in a later session.

Most classes are loaded at first use, so that mounting the Amplifier module imports neither the
vector engine nor an embedding model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import AgentMemoryError, EmbeddingError, InputError, StorageError

if TYPE_CHECKING:
    from .embeddings.generator import EmbeddingGenerator
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
    "EmbeddingGenerator": "embeddings.generator",
    "Memory": "memory",
    "MemoryStorage": "storage",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
