"""Turns worth keeping, for the tests of capture."""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import conversation
from amplifier_core import AmplifierSession
from memory_hooks import capture
from memory_semantic import MemoryStorage

DECISION = "We decided to keep users in PostgreSQL because of JSONB."
RULE = "From now on, never deploy on Fridays."

converse = partial(conversation.converse, capture.NAME)


def emit(event: str, **data: Any) -> Callable[[AmplifierSession], Any]:
    return lambda session: session.coordinator.hooks.emit(event, data)


async def until_stored(storage: MemoryStorage) -> None:
    async with asyncio.timeout(50):
        while not await storage.count():
            await asyncio.sleep(0.02)


def remembered(line: str) -> str:
    """The text in a line about a memory, which also says its id and how to undo it."""
    found = re.fullmatch(
        r'Remembered (mem-\w{12}): "(.*)" \(undo: agent-memory forget (mem-\w{12})(; .*)?\)', line
    )
    assert found and found[1] == found[3], line
    return found[2]


async def kept(storage: MemoryStorage) -> list[str]:
    return sorted(each.content for each in await storage.get_recent(100))


def store(content: str, **more: Any) -> list[dict[str, Any]]:
    return [{"tool": "memory_store", "arguments": {"content": content, **more}}]
