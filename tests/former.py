"""Memories as versions before 1.3 stored them, with the line ends and tag characters of a text."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from memory_semantic import MemoryStorage
from memory_semantic.store import Stored


async def store_as_before(storage: MemoryStorage, items: Sequence[Any]) -> list[Stored]:
    """`upsert` without normalizing the texts."""
    with patch("memory_semantic.check.normal", str.strip):
        return await storage.upsert(items)
