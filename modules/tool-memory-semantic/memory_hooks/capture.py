"""Capture: after a turn, whatever the human said that is worth keeping becomes a memory.

It runs in the background on the session's own event loop, so no turn waits for it. What is pending
when the session ends is stored within seconds or given up: nothing outlives the loop.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from textwrap import shorten
from typing import Any, Literal

from amplifier_core import HookResult
from memory_semantic.errors import AgentMemoryError
from memory_semantic.identity import origin
from memory_semantic.limits import CAPTURED
from memory_semantic.masking import mask
from memory_semantic.memory import MEMORY_ID
from memory_semantic.workers import run_blocking

from . import extract
from .cues import Found, found
from .display import show
from .human_words import human_words
from .settings import CaptureConfig, read
from .wording import mostly_in, same_statement

logger = logging.getLogger(__name__)

NAME = "hooks-memory-semantic-capture"
# Each event with the fields that it carries, never a text.
EVENTS = {
    "memory:captured": "`agent_id`, `count`, `memory_ids`",
    "memory:capture_failed": "`kind` of the error",
}
PRIORITY = 900  # after hooks that a person waits for

# How many turns a model reads at once: what was said is mostly withdrawn within this many, if ever.
LLM_TURNS = 5
# How long the end of a session waits for what is pending; the rest is given up.
DRAIN_SECONDS = 5.0
# How many of the nearest memories are compared, to find the same statement in other words.
NEAREST = 5
# How much of a captured text the line for the person shows.
SHOWN_CHARS = 80


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Let the session of `coordinator` capture. Opens and contacts nothing."""
    capture = Capture(coordinator, config or {})
    handlers = {
        "prompt:submit": capture.on_prompt,
        "orchestrator:steering_injected": capture.on_steering,
        "tool:post": capture.on_tool,
        "orchestrator:complete": capture.on_complete,
        "session:end": capture.on_end,
    }
    for event, handler in handlers.items():
        coordinator.hooks.register(event, handler, priority=PRIORITY, name=f"{NAME}:{event}")
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    return capture.drain


class Capture:
    """The capture of one session: the words of the current turn, and the work on those of earlier
    ones. Nothing is captured from sub-agents or from sessions that a program drives.
    """

    def __init__(self, coordinator: Any, config: dict[str, Any]) -> None:
        self._coordinator = coordinator
        self._config = config
        self._reads = str(config.get("extract")).strip() == "llm"
        self._words: list[str] = []
        self._stored: list[str] = []  # what the model itself stored in the turn
        self._turns: list[tuple[extract.Turn, list[str]]] = []  # turns that no model has read yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._count = 0
        self._warned = False
        self._lines: list[tuple[str, Literal["info", "warning"]]] = []  # for the person

    async def on_prompt(self, event: str, data: dict[str, Any]) -> HookResult:
        """Begin a turn, after ending one that broke off."""
        self._tell()
        await self._end_turn()
        goal = (self._coordinator.session_state or {}).get("goal") or {}
        if not goal.get("turns_used"):  # else the evaluator of a goal speaks
            self._hear(data, "prompt")
        return HookResult()

    async def on_steering(self, event: str, data: dict[str, Any]) -> HookResult:
        """Add words that are typed while the turn runs."""
        self._hear(data, "content")
        return HookResult()

    async def on_tool(self, event: str, data: dict[str, Any]) -> HookResult:
        """Note what the model itself stores."""
        if data.get("tool_name") == "memory_store" and MEMORY_ID.search(str(data.get("result"))):
            self._stored.append(str((data.get("tool_input") or {}).get("content")))
        return HookResult()

    async def on_complete(self, event: str, data: dict[str, Any]) -> HookResult:
        """End the turn; the rest happens in the background."""
        self._tell()
        await self._end_turn(complete=True)
        return HookResult()

    async def on_end(self, event: str, data: dict[str, Any]) -> HookResult:
        """End the session."""
        await self.drain()
        return HookResult()

    async def drain(self) -> None:
        """Store what is pending, or give it up with one warning when time is up."""
        await self._end_turn(last=True)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=DRAIN_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.gather(*late, return_exceptions=True)
                await self._failed(TimeoutError())
        self._tell()

    # During a turn.

    def _hear(self, data: dict[str, Any], key: str) -> None:
        origin = os.environ.get("AMPLIFIER_SESSION_ORIGIN", "").strip().lower()
        said = data.get(key)
        if not data.get("parent_id") and origin in ("", "human") and isinstance(said, str):
            self._words.append(said)

    async def _end_turn(self, *, complete: bool = False, last: bool = False) -> None:
        words, stored = self._words, self._stored
        self._words, self._stored = [], []
        if words and self._reads:
            reply = await self._reply() if complete else ""
            self._turns.append((extract.turn(words, reply), stored))
        elif words:
            self._start(self._by_cues, words, stored)
        if self._turns and (last or len(self._turns) >= LLM_TURNS):
            turns, self._turns = self._turns, []
            self._start(self._by_model, turns)

    async def _reply(self) -> str:
        for message in reversed(await self._coordinator.get("context").get_messages()):
            if message.get("role") == "user":
                break
            if message.get("role") == "assistant":
                content = message.get("content") or ""
                if isinstance(content, str):
                    return content
                return "\n".join(str(part.get("text") or "") for part in content)
        return ""

    # After a turn, in the background, one task at a time.

    def _start(self, work: Callable[..., Awaitable[None]], *what: Any) -> None:
        async def run() -> None:
            try:
                async with self._one_at_a_time:
                    await work(*what)
            except Exception as error:
                await self._failed(error)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _by_cues(self, words: list[str], stored: list[str]) -> None:
        said = found("\n\n".join(map(human_words, words)))
        if len(stored) < len(said):  # else the model stored all of it, in its own words
            await self._keep([each for each in said if not mostly_in(each.text, stored)])

    async def _by_model(self, turns: list[tuple[extract.Turn, list[str]]]) -> None:
        settings, _ = await self._read()
        async with asyncio.timeout(settings.llm_timeout):
            said = await extract.extract(
                self._coordinator, [turn for turn, _ in turns], settings.model_role
            )
        stored = [text for _, texts in turns for text in texts]
        await self._keep([each for each in said if not mostly_in(each.text, stored)])

    async def _keep(self, said: list[Found]) -> None:
        said = [each for each in said if not mask(each.text)[1]]
        if not said:
            return
        settings, storage = await self._read()
        items = []
        for each in said[: max(settings.max_per_session - self._count, 0)]:
            near = await storage.search(each.text, NEAREST)
            known = next((one for one in near if same_statement(one.content, each.text)), None)
            told = origin(self._coordinator, NAME, kind=each.kind)
            # A known statement is renewed, and keeps its tags.
            text, tags = (
                (known.content, [CAPTURED]) if known else (each.text, [CAPTURED, each.kind])
            )
            items.append((text, tags, told))
        if not items:
            return
        ids = [stored.id for stored in await storage.upsert(items)]
        self._count += len(ids)
        about = {"agent_id": storage.agent_id, "count": len(ids), "memory_ids": ids}
        await self._coordinator.hooks.emit("memory:captured", about)
        shown = (f'"{shorten(text, SHOWN_CHARS, placeholder="…")}"' for text, *_ in items)
        self._lines.append((f"Remembered: {', '.join(shown)}", "info"))

    async def _read(self) -> tuple[CaptureConfig, Any]:
        # Loading the engine takes a third of a second, which would block the event loop.
        await run_blocking(lambda _: import_module("memory_semantic.storage"))
        return read(self._coordinator, self._config, CaptureConfig)

    async def _failed(self, error: Exception) -> None:
        """Report the failure: by an event each time, to the person once."""
        await self._coordinator.hooks.emit("memory:capture_failed", {"kind": type(error).__name__})
        if self._warned:
            return
        self._warned = True
        why = f"It failed unexpectedly ({type(error).__name__})."  # its text may quote the turn
        if isinstance(error, TimeoutError):
            why = "It took too long."
        elif isinstance(error, AgentMemoryError):
            why = str(error)
        self._lines.append((f"What was said may not have been captured. {why}", "warning"))

    def _tell(self) -> None:
        """Show the pending lines. Never called between turns: the person may be typing then."""
        lines, self._lines = self._lines, []
        for line, level in lines:
            if not show(self._coordinator, line, level, source=NAME) and level == "warning":
                logger.warning("%s", line)
