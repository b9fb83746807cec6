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
from memory_semantic.speaker import humans, is_remember, states

from .display import show
from .receipts import Receipts
from .reminder import REMINDER as ASKED
from .settings import CaptureConfig, agent_of, read_own

NAME = "hooks-memory-semantic-capture"
PRIORITY = 900  # after recall: the last message before the prompt

# By the first 17 characters, Amplifier recognises that no human wrote it.
REMINDER = f"<system-reminder>{ASKED}</system-reminder>"


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
        self._receipts = Receipts()
        self._by_skill = False  # whether /remember shows what is stored

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
        if output.get("memory_id"):
            named = ""
            with suppress(InputError):  # the tool is another module's
                named = f" --agent {agent_of(self._coordinator, self._config)}"
            self._receipts.note(output, data.get("tool_input") or {}, named, told=self._by_skill)
        return HookResult()

    async def on_end(self, event: str, data: dict[str, Any]) -> HookResult:
        """Show what was stored in the turn that ends."""
        for line in self._receipts.take():
            show(self._coordinator, line, NAME)
        return HookResult()

    def _may_remind(self) -> bool:
        room = self._coordinator.injection_size_limit
        fits = room is None or len(REMINDER) <= room  # else the kernel would end the turn
        can_store = bool(self._coordinator.get("tools", "memory_store"))
        may = fits and can_store and humans(self._coordinator)
        return may and len(self._receipts.new) < self._most

    @cached_property
    def _most(self) -> int:
        """How many memories a session may store before the reminders stop."""
        try:
            return read_own(self._coordinator, self._config, CaptureConfig)[0].max_per_session
        except InputError as error:
            line = f"In this session, the model is not asked to store what you say. {error}"
            show(self._coordinator, line, NAME, warning=True)
            return 0


def _output(result: Any) -> Mapping[str, Any]:
    """What the tool answered; some loops pass its result on as a text. Empty if it failed."""
    output = result.get("output") if isinstance(result, Mapping) else result
    with suppress(Exception):  # it says what failed
        output = literal_eval(output) if isinstance(output, str) else output
    return output if isinstance(output, Mapping) else {}
