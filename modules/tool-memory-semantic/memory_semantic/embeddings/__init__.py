"""Texts into vectors, by the built-in model or by a service that speaks OpenAI's protocol."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .generator import EmbeddingGenerator

__all__ = ["EmbeddingGenerator"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .generator import EmbeddingGenerator

    return EmbeddingGenerator
