"""Capture: after a turn, whatever the human said that is worth keeping becomes a memory.

It runs in the background on the session's own event loop; a turn waits for it only to show at its
end what is remembered. What cannot be stored now, or before the session ends, waits on disk.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Collection
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any

from amplifier_core import HookResult
from memory_semantic import Waiting
from memory_semantic.errors import AgentMemoryError, InputError
from memory_semantic.identity import origin
from memory_semantic.limits import CAPTURED
from memory_semantic.masking import mask
from memory_semantic.memory import MEMORY_ID, Speaker
from memory_semantic.speaker import SKILL_PROMPT
from memory_semantic.workers import run_blocking

from . import extract
from .cues import Found, found, withheld
from .display import quoted, show
from .pause import Pause
from .settings import CaptureConfig, read
from .wording import mostly_in, same_statement

NAME = "hooks-memory-semantic-capture"
# Each event with the fields that it carries, never a text.
EVENTS = {
    "memory:captured": "`agent_id`, `count`, `memory_ids`",
    "memory:capture_failed": "`kind` of the error",
}
PRIORITY = 900  # after hooks that a person waits for

# How many turns a model reads at once: what was said is mostly withdrawn within this many, if ever.
LLM_TURNS = 5
# How long a turn waits at its end, to show what was captured: 60 to 90 ms, or 500 at a service.
SHOW_SECONDS = 1.0
# How long the end of a session waits for what is pending; the rest waits on disk.
DRAIN_SECONDS = 5.0
# What `memory_store` answers, in each form in which loops pass it on.
_STORED = re.compile(rf"memory_id\W+({MEMORY_ID.pattern})")
_REPLACED = re.compile(rf"replaced\W+({MEMORY_ID.pattern})")
# What a person can do with what sounds like a rule; the model then has `memory_store` and `pin`.
_OFFER = "; a rule for every conversation? Say so, or: agent-memory pin {}"
# How many of the nearest memories are compared, to find the same statement in other words.
NEAREST = 5


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
        self._pause = Pause("It took too long.")
        self._lines: list[tuple[str, str | None]] = []  # for `show`: a line, and `logged`

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
        """Note what the model itself stores, to show it as well; the answer of a skill does."""
        result = str(data.get("result"))
        if data.get("tool_name") == "memory_store" and (stored := _STORED.search(result)):
            text = str((data.get("tool_input") or {}).get("content"))
            self._stored.append(text)
            by_skill = any(SKILL_PROMPT in words for words in self._words)
            if "already known" not in result and not by_skill:
                replaced = _REPLACED.search(result)
                instead = f" in place of {replaced[1]}" if replaced else ""
                self._lines.append((_line(stored[1], mask(text)[0], instead), None))
        return HookResult()

    async def on_complete(self, event: str, data: dict[str, Any]) -> HookResult:
        """End the turn, and show what is captured at once; the rest is shown with a later one."""
        wait = not (self._tasks or self._reads)  # nobody waits twice for one that is slow
        await self._end_turn(complete=True)
        if wait and self._tasks:
            await asyncio.wait(self._tasks, timeout=SHOW_SECONDS)
        self._tell()
        return HookResult()

    async def on_end(self, event: str, data: dict[str, Any]) -> HookResult:
        """End the session."""
        await self.drain()
        return HookResult()

    async def drain(self) -> None:
        """Store what is pending; when time is up, it waits on disk."""
        await self._end_turn(last=True)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=DRAIN_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
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
            messages = await self._coordinator.get("context").get_messages() if complete else []
            self._turns.append((extract.turn(words, extract.last_reply(messages)), stored))
        elif words:
            self._start(self._by_cues, words, stored)
        if self._turns and (last or len(self._turns) >= LLM_TURNS):
            turns, self._turns = self._turns, []
            self._start(self._by_model, turns)

    # After a turn, in the background; one task at a time works on the store.

    def _start(self, work: Callable[..., Awaitable[None]], *what: Any) -> None:
        async def run() -> None:
            try:
                await work(*what)
            except (Exception, asyncio.CancelledError) as error:
                if why := self._pause.why(await self._failed(error)):
                    self._warn(f"What was said may not have been captured. {why}")

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _by_cues(self, words: list[str], stored: list[str]) -> None:
        said = found(*words)
        if withheld(*words):
            self._warn("A sentence with a credential was not captured.")
        new = [each for each in said if not mostly_in(each.text, stored)]
        new = new if len(stored) < len(said) else []  # else the model stored all, in its own words
        with nullcontext() if new else suppress(InputError):  # with no agent, nothing waits, either
            await self._keep(new, "user")

    async def _by_model(self, turns: list[tuple[extract.Turn, list[str]]]) -> None:
        settings, _ = await self._read()
        async with asyncio.timeout(settings.llm_timeout):
            said = await extract.extract(
                self._coordinator, [turn for turn, _ in turns], settings.model_role
            )
        stored = [text for _, texts in turns for text in texts]
        await self._keep([each for each in said if not mostly_in(each.text, stored)], "agent")

    async def _keep(self, said: list[Found], by: Speaker) -> None:
        items: list[Any] = [
            (each.text, [CAPTURED, each.kind], origin(self._coordinator, NAME))
            for each in said
            if not mask(each.text)[1]
        ]
        settings, storage = await self._read()
        why = ""
        items = items[: max(settings.max_per_session - self._count, 0)]
        self._count += len(items)
        try:
            async with self._one_at_a_time:
                if not self._pause.on:
                    return await self._store(storage, items, by)
        except (Exception, asyncio.CancelledError) as error:
            why = self._pause.failed(await self._failed(error))
        if items:
            await self._let_wait(storage, items, by, why)
        elif why:
            self._warn(f"What was captured before still waits to be stored. {why}")

    async def _store(self, storage: Any, items: list[Any], by: Speaker) -> None:
        if waited := await Waiting(storage).store():
            await self._remembered(storage, {each.id: each.content for each in waited})
        for number, (text, _, told) in enumerate(items):
            near = await storage.search(text, NEAREST, phrases=False)
            known = next((one.content for one in near if same_statement(one.content, text)), None)
            if known:  # it is renewed, and keeps its tags
                items[number] = (known, [CAPTURED], told)
        if items:
            stored = await storage.upsert(items, said_by=by)
            texts = {its.id: text for its, (text, *_) in zip(stored, items, strict=True)}
            rules = {its.id for its, item in zip(stored, items, strict=True) if "rule" in item[1]}
            await self._remembered(storage, texts, rules)

    async def _remembered(
        self, storage: Any, texts: dict[str, str], rules: Collection[str] = ()
    ) -> None:
        """Tell what is remembered, by its id. That one of the `rules` holds in each conversation is
        for the person to decide: what sounds like one may be a role to play once.
        """
        self._pause.succeeded()
        about = {"agent_id": storage.agent_id, "count": len(texts), "memory_ids": [*texts]}
        await self._coordinator.hooks.emit("memory:captured", about)
        for memory_id, text in texts.items():
            offer = _OFFER.format(memory_id) if memory_id in rules else ""
            self._lines.append((_line(memory_id, text, more=offer), None))

    async def _let_wait(self, storage: Any, items: list[Any], by: Speaker, why: str) -> None:
        became = f"Waiting to be stored (undo: agent-memory forget --tag {CAPTURED})"
        try:
            await run_blocking(lambda: Waiting(storage).add(items, by))
        except AgentMemoryError as error:
            became, why = "Not stored, and lost", why and f"{why} {error}"
        texts = ", ".join(quoted(text) for text, *_ in items)
        self._lines.append((f"{became}: {texts} {why}".rstrip(), why and f"{became}. {why}"))

    async def _read(self) -> tuple[CaptureConfig, Any]:
        # Loading the engine takes a third of a second, which would block the event loop.
        await run_blocking(lambda: import_module("memory_semantic.storage"))
        return read(self._coordinator, self._config, CaptureConfig)

    async def _failed(self, error: BaseException) -> BaseException:
        # A task is cancelled only when the session has ended, and time is up.
        error = TimeoutError() if isinstance(error, asyncio.CancelledError) else error
        await self._coordinator.hooks.emit("memory:capture_failed", {"kind": type(error).__name__})
        return error

    def _warn(self, line: str) -> None:
        self._lines.append((line, line))

    def _tell(self) -> None:
        """Show the pending lines. Never called between turns: the person may be typing then."""
        while self._lines:
            line, logged = self._lines.pop(0)
            show(self._coordinator, line, NAME, logged=logged)


def _line(memory_id: str, text: str, instead: str = "", more: str = "") -> str:
    undo = f"undo: agent-memory forget {memory_id}{more}"
    return f"Remembered {memory_id}{instead}: {quoted(text)} ({undo})"
