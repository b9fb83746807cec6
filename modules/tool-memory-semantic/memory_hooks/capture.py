"""Capture: before a turn in which the user states something, the model is asked to store what will
last, and what is stored is shown to the person. Nothing is stored here: the model decides, because
only it has read the conversation.
"""

from ast import literal_eval
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from amplifier_core import HookResult
from memory_semantic.errors import InputError
from memory_semantic.masking import mask
from memory_semantic.speaker import humans, is_remember, states

from .display import quoted, show
from .settings import CaptureConfig, read_own

NAME = "hooks-memory-semantic-capture"
PRIORITY = 900  # after recall: the last message before the prompt

# At most 45 tokens; always the same, so that each request begins with the one before. By the first
# 17 characters, Amplifier recognises that no human wrote it.
REMINDER = (
    "<system-reminder>If the user now states a lasting decision, preference, rule, correction or "
    "fact, store it this turn (memory_store with `quote`). Else ignore this.</system-reminder>"
)
# Whose words a memory rests on, if `memory_store` names others than the agent.
_WHOSE = {"user": "said by you", "tool": "said by a page or tool"}


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Let the session of `coordinator` capture. Opens and contacts nothing."""
    capture = Capture(coordinator, config or {})
    handlers = {
        "prompt:submit": capture.on_prompt,
        "tool:post": capture.on_tool,
        "orchestrator:complete": capture.on_end,
        "session:end": capture.on_end,
    }
    undo = [
        coordinator.hooks.register(event, handler, priority=PRIORITY, name=f"{NAME}:{event}")
        for event, handler in handlers.items()
    ]
    return lambda: [each() for each in undo]


class Capture:
    """The capture of one session. It shows nothing between turns: the person may be typing then."""

    def __init__(self, coordinator: Any, config: Mapping[str, Any]) -> None:
        self._coordinator = coordinator
        self._config = config
        self._new: set[str] = set()  # ids of what this session stored, and nobody had before
        self._by_skill = False  # whether /remember shows it
        self._lines: dict[str, str] = {}  # not shown yet, by memory

    async def on_prompt(self, event: str, data: dict[str, Any]) -> HookResult:
        """Put the reminder before a prompt in which its human states something."""
        await self.on_end(event, data)  # for a turn that broke off
        said = data.get("prompt")
        prompt = said if isinstance(said, str) else ""
        self._by_skill = is_remember(prompt)
        if data.get("parent_id") or not states(prompt) or not self._may_remind():
            return HookResult()
        return HookResult(
            action="inject_context", context_injection=REMINDER, context_injection_role="user"
        )

    async def on_tool(self, event: str, data: dict[str, Any]) -> HookResult:
        """Note what is stored; the answer of a skill shows it by itself."""
        output = _output(data.get("result")) if data.get("tool_name") == "memory_store" else {}
        memory_id, status = str(output.get("memory_id", "")), str(output.get("status"))
        pinned, replaced = ". Pinned" in status, output.get("replaced")
        if memory_id and not status.startswith("already known"):
            self._new.add(memory_id)
        elif not (pinned or replaced):
            return HookResult()
        undo = f"unreplace {replaced}" if replaced else f"unpin {memory_id}"
        undo = f"forget {memory_id}" if memory_id in self._new else undo
        if not self._by_skill:  # the same text again, with what it replaces, is one line
            self._lines[memory_id] = _line(output, data.get("tool_input") or {}, undo)
        return HookResult()

    async def on_end(self, event: str, data: dict[str, Any]) -> HookResult:
        """Show what was stored in the turn that ends."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            show(self._coordinator, line, NAME)
        return HookResult()

    def _may_remind(self) -> bool:
        room = self._coordinator.injection_size_limit
        fits = room is None or len(REMINDER) <= room  # else the kernel would end the turn
        can_store = bool(self._coordinator.get("tools", "memory_store"))
        return fits and can_store and humans(self._coordinator) and len(self._new) < self._most

    @cached_property
    def _most(self) -> int:
        """How many memories a session may store before the reminders stop."""
        try:
            return read_own(self._coordinator, self._config, CaptureConfig)[0].max_per_session
        except InputError as error:
            line = f"In this session, the model is not asked to store what you say. {error}"
            show(self._coordinator, line, NAME, logged=line)
            return 0


def _output(result: Any) -> Mapping[str, Any]:
    """What the tool answered; some loops pass its result on as a text. Empty if it failed."""
    output = result.get("output") if isinstance(result, Mapping) else result
    with suppress(Exception):  # it says what failed
        output = literal_eval(output) if isinstance(output, str) else output
    return output if isinstance(output, Mapping) else {}


def _line(output: Mapping[str, Any], given: Mapping[str, Any], undo: str) -> str:
    """What the person reads of a memory that was stored with the arguments `given`."""
    quote = output.get("quoted")
    shown = (given.get("content"), given.get("quote") if quote is True else quote)
    text, words = (mask(str(each or ""))[0] for each in shown)
    instead = f" in place of {output['replaced']}" if output.get("replaced") else ""
    whose = _WHOSE.get(str(output.get("said_by")), "noted by the agent")
    whose += f": {quoted(words)}" if words else ""
    what = f"Remembered {output['memory_id']}{instead}: {quoted(text)}"
    return f"{what} ({whose}; undo: agent-memory {undo})"
