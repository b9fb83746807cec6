"""Scripted sessions with the memory tools and hooks. Kernel, engine, embedding model and hooks are
real; a script plays the model.
"""

import json
import sys
from ast import literal_eval
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession
from memory_hooks.capture import NAME as CAPTURE
from memory_hooks.recall import NAME as RECALL
from memory_semantic import MemoryStorage
from memory_semantic.identity import project_of
from page import Row

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from scripted import LOOPS, scripted_session

__all__ = ["LOOPS"]

AGENT = "holds"
PROJECTS = ("shop", "site", "pipeline")


@asynccontextmanager
async def session(
    root: str, loop: str, turns: list[Any], project: str = "shop", **options: Any
) -> AsyncIterator[AmplifierSession]:
    """A session in the folder of `project` with the memory tools and both hooks."""
    memory = {"agent_identity": AGENT, "storage_root": root, "embedding_model": "local"}
    hooks: dict[str, Row] = {RECALL: {}, CAPTURE: {}}
    async with scripted_session(turns, memory, hooks=hooks, loop=loop, **options) as opened:
        opened.coordinator.register_capability("session.working_dir", str(Path(root, project)))
        yield opened


def storage(root: str) -> MemoryStorage:
    """The store of the sessions below this folder."""
    return MemoryStorage(AGENT, {"storage_root": root, "embedding_model": "local"})


def call(row: Row, **more: Any) -> list[Row]:
    """The call with which a careful model stores what `row` says."""
    given = {name: row[name] for name in ("content", "quote", "pin", "everywhere") if name in row}
    return [{"tool": "memory_store", "arguments": given | more}]


def requests_of(opened: AmplifierSession) -> list[Any]:
    """What the model was asked."""
    return opened.coordinator.get("providers")["scripted"].requests


def texts_of(request: Any) -> list[str]:
    """What stands in the messages of a request."""
    contents = (message.content for message in request.messages)
    return [
        each if isinstance(each, str) else "".join(getattr(block, "text", "") for block in each)
        for each in contents
    ]


async def answers(opened: AmplifierSession) -> list[Row]:
    """What the tools answered, one after the other, as the model reads it."""
    messages = await opened.coordinator.get("context").get_messages()
    texts = [each["content"] for each in messages if each["role"] == "tool"]
    return [_read(text) if text.startswith("{") else {} for text in texts]


def _read(text: str) -> Row:
    try:
        answer = json.loads(text)
    except ValueError:  # loop-basic shows the model Python's form
        answer = literal_eval(text)
    return answer.get("output", answer)  # loop-streaming also says that it succeeded


async def projects(root: str, *names: str) -> dict[str, dict[str, str]]:
    """What a memory that is stored in each of these projects, or in none (""), says of it."""
    found: dict[str, dict[str, str]] = {"": {}}
    for name in filter(None, names):
        async with session(root, "loop-scripted", [], name) as opened:
            found[name] = project_of(opened.coordinator)
    return found
