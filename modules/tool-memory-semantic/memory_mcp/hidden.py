"""Two tools that are not listed: the hooks of a client call them; a model's call does nothing."""

import logging
import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from memory_hooks.recall import MAX_SECONDS, recalled
from memory_hooks.receipts import Receipts
from memory_hooks.settings import CaptureConfig

from .host import MAX_PROMPT_CHARS, Host, asked_to_store, working_folder
from .loop import Call, Fields, fields
from .sessions import ClientSession

logger = logging.getLogger(__name__)

# What Claude Code calls the entries at which a user types the prompts.
_ATTENDED = ("cli", "claude-desktop", "claude-vscode")
# What Codex says of a turn that a user began, unlike `codex exec` and a sub-agent.
_OF_USER = {"turn_trigger": "user", "thread_source": "user"}
_TURN = "x-codex-turn-metadata"
# What the clients say of a call by a model.
_OF_MODEL = ("claudecode/toolUseId", "callId", _TURN)
# How many prompts count as what the user typed.
MAX_PROMPTS = 50
# In these, Claude Code tells what sub-agents and other sessions say. It is to say, too, what a
# prompt's source is; this version leaves it out.
_OTHERS = re.compile(
    r"<(?:task-notification|channel|teammate-message|cross-session-message|agent-message)\b"
)
_TYPED = ("", "user")
# How a skill is called in both.
_SKILL = re.compile(r"\s*[/$](?:agent-memory:)?([A-Za-z_][\w:-]*)\s+")


class Hooks:
    """What the hooks of one client tell and are told. What the user typed stays in this process.
    `config` has the settings of the memory tools, `named` the options that name the store.
    """

    def __init__(self, config: Fields, named: str) -> None:
        self._config, self._agent = config, config["agent_identity"]
        self._named = named
        self._attended = os.environ.get("CLAUDE_CODE_ENTRYPOINT") in _ATTENDED
        self._typed = deque[str](maxlen=MAX_PROMPTS)
        self._receipts, self._skill = Receipts(), ""
        self._session, self._read = "", set[str]()  # the last one, and the ids that tools told it
        self.tools = {"before_prompt": self._before_prompt, "receipt": self._receipt}

    def by_user(self, call: Call) -> bool:
        """Whether a user began the turn in which a model makes this call."""
        if _TURN in call.meta:
            return _OF_USER.items() <= fields(call.meta[_TURN]).items()
        return self._attended

    def words(self, call: Call) -> Sequence[str]:
        """What the user typed, if a user began the turn of this call; else nothing."""
        return list(self._typed) if self.by_user(call) else ()

    def note(self, output: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        """Note what a tool answered to its model."""
        self._receipts.note(output, arguments, self._named, told=self._skill == "remember")
        found = [output, *output.get("memories", ())]
        ids = (each.get("memory_id") or each.get("id") for each in found)
        self._read.update(str(id) for id in ids if id)

    async def tell(self, name: str, call: Call) -> Fields:
        """What the hook is told that calls the tool of this `name`, if no model does."""
        return {} if call.meta.keys() & set(_OF_MODEL) else await self.tools[name](call)

    async def _before_prompt(self, call: Call) -> Fields:
        given = call.arguments
        prompt, key = (str(given.get(name) or "") for name in ("prompt", "session"))
        prompt, thread = prompt[-MAX_PROMPT_CHARS:], call.meta.get("threadId")
        # A sub-agent of Codex has its parent's session, and is told by it what to do.
        if thread not in (None, key):
            return {}
        if key != self._session:  # such as after /clear
            self._typed.clear()
            self._receipts.new.clear()
        skill = _SKILL.match(prompt)
        self._skill = skill[1] if skill else ""
        by_others = given.get("source", "") not in _TYPED or _OTHERS.search(prompt)
        may_be_typed = (self._attended or thread is not None) and not by_others
        if may_be_typed:
            self._typed.append(prompt[skill.end() :] if skill else prompt)
        text = ""
        try:
            text = await self._new(prompt, key, working_folder(given.get("cwd")))
        except Exception as error:  # the prompt goes on
            logger.warning("Recall failed: %s", type(error).__name__)
        few = len(self._receipts.new) < CaptureConfig().max_per_session
        if may_be_typed and few and not skill:
            text += asked_to_store(self._config, prompt)
        told = {"hookEventName": "UserPromptSubmit", "additionalContext": text}
        return {"hookSpecificOutput": told} if text else {}

    async def _new(self, prompt: str, key: str, folder: str | None) -> str:
        """What the session of this key is told that it was not shown yet."""
        session = ClientSession(self._config, self._agent, key)
        read, self._read = self._read, set()
        if key == self._session and session.shown:  # before the first block, nothing was shown
            session.show(read)
        self._session = key
        host, shown = Host(folder), session.shown
        block = await recalled(
            host, self._config, prompt, shown, of_tools=False, seconds=MAX_SECONDS
        )
        session.show(block.memories if block else ())
        session.save()
        return block.body() if block else ""

    async def _receipt(self, call: Call) -> Fields:
        lines = self._receipts.take()
        return {"systemMessage": "\n".join(lines)} if lines else {}
