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
)
from .identity import configured_agent, overruled, validate_agent_id
from .plaintext import one_line, plain
from .resources import readable_size, shortage

if TYPE_CHECKING:
    from . import exchange, times
    from .arguments import read_arguments
    from .backend import Backend, Finding, ShowProgress
    from .config import core_settings
    from .embeddings.generator import EmbeddingGenerator
    from .masking import mask, mask_all
    from .memory import Memory, timestamp_text
    from .settings import StorageConfig
    from .storage import MemoryStorage
    from .store import Store, Stored, StoreInfo, memory_of
    from .tokens import estimate_tokens
    from .usage import Search
    from .waiting import Waiting

__all__ = [
    "AgentMemoryError",
    "Backend",
    "DamagedStoreError",
    "EmbeddingError",
    "EmbeddingGenerator",
    "Finding",
    "InputError",
    "Memory",
    "MemoryStorage",
    "RefusedTextError",
    "Search",
    "ShowProgress",
    "StorageConfig",
    "StorageError",
    "Store",
    "StoreInfo",
    "Stored",
    "Waiting",
    "configured_agent",
    "core_settings",
    "counted",
    "estimate_tokens",
    "exchange",
    "limits",
    "mask",
    "mask_all",
    "memory_of",
    "one_line",
    "overruled",
    "plain",
    "read_arguments",
    "readable_size",
    "shortage",
    "times",
    "timestamp_text",
    "validate_agent_id",
]

_HOMES = {
    "Backend": "backend",
    "EmbeddingGenerator": "embeddings.generator",
    "Finding": "backend",
    "Memory": "memory",
    "MemoryStorage": "storage",
    "Search": "usage",
    "ShowProgress": "backend",
    "StorageConfig": "settings",
    "Store": "store",
    "StoreInfo": "store",
    "Stored": "store",
    "Waiting": "waiting",
    "core_settings": "config",
    "estimate_tokens": "tokens",
    "exchange": "exchange",
    "mask": "masking",
    "mask_all": "masking",
    "memory_of": "store",
    "read_arguments": "arguments",
    "times": "times",
    "timestamp_text": "memory",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_HOMES[name]}", __name__)
    return module if name == _HOMES[name] else getattr(module, name)
