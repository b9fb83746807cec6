"""Two tools that are not listed: hooks of the program can call them, and models cannot."""

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from memory_hooks.block import reminder
from memory_hooks.recall import MAX_SECONDS, recalled
from memory_hooks.receipts import Receipts

from .host import Host, project
from .loop import Call, Fields
from .sessions import MAX_PROMPT_CHARS, MAX_PROMPTS, folder_of, said, session_of

logger = logging.getLogger(__name__)

# What Claude Code calls the entries through which a human types the prompts.
_BY_A_HUMAN = ("cli", "claude-desktop", "claude-vscode")
# What Codex says of a turn that a human began, unlike `codex exec` and a sub-agent's.
_OF_A_HUMAN = {"turn_trigger": "user", "thread_source": "user"}


class Hooks:
    """What the hooks of one client hear and are told. What the human typed stays in this process.
    `config` has the settings of the memory tools.
    """

    def __init__(self, config: Fields) -> None:
        self._config = config
        self._folder = folder_of(config, config["agent_identity"] or "")
        self._attended = os.environ.get("CLAUDE_CODE_ENTRYPOINT", "cli") in _BY_A_HUMAN
        self._heard = list[str]()
        self._session, self._read = "", set[str]()  # the last one, and the ids that tools told it
        self._receipts = Receipts()

    def words(self, call: Call) -> list[str]:
        """What the human typed who may vouch for this call of a model."""
        turn = call.meta.get("x-codex-turn-metadata", _OF_A_HUMAN)
        if not self._attended or not _OF_A_HUMAN.items() <= turn.items():
            return []
        with suppress(OSError):
            return [*said(self._folder), *self._heard]
        return self._heard

    def note(self, output: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """Note what a tool of the model answered to the arguments `given`."""
        self._receipts.note(output, given)
        found = [output, *output.get("memories", ())]
        self._read.update(str(each.get("memory_id") or each.get("id") or "") for each in found)

    async def tell(self, name: str, call: Call, given: Mapping[str, Any]) -> Fields:
        """What the hook is told that calls the tool of this `name`."""
        if name == "before_prompt":
            return await self._before_prompt(call, given)
        lines = self._receipts.take()
        return {"systemMessage": "\n".join(lines)} if lines else {}

    async def _before_prompt(self, call: Call, given: Mapping[str, Any]) -> Fields:
        prompt, key = (str(given.get(name) or "") for name in ("prompt", "session"))
        if call.meta.get("threadId", key) != key:  # a sub-agent of Codex, told by its parent
            return {}
        if self._attended and len(prompt) <= MAX_PROMPT_CHARS:
            self._heard = [*self._heard, prompt][-MAX_PROMPTS:]
        text = ""
        try:
            async with asyncio.timeout(MAX_SECONDS):
                text = await self._new(prompt, key, project(given.get("cwd")))
        except Exception as error:  # the prompt goes on
            logger.warning("Recall failed: %s", type(error).__name__)
        text += reminder(prompt) if self._attended else ""
        told = {"hookEventName": "UserPromptSubmit", "additionalContext": text}
        return {"hookSpecificOutput": told} if text else {}

    async def _new(self, prompt: str, key: str, folder: str | None) -> str:
        """What the session of this key is told that it was not shown yet."""
        session = session_of(self._folder, key)
        read, self._read = self._read, set()
        session.show(read if key == self._session else ())
        self._session = key
        host, shown = Host(folder), session.shown
        block = await recalled(host, self._config, prompt, shown, of_tools=False)
        session.show(block.memories if block else ())
        session.save()
        return block.body() if block else ""
