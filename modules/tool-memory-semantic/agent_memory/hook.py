"""What `agent-memory hook` answers to a program that runs hooks, such as Claude Code or Gemini CLI.

The program writes an event on standard input. When a session starts, its model reads what is
remembered; before a prompt, where no server can tell it, what is new or bears on the prompt.
Whatever fails, the program goes on. What a start needs is loaded in a moment: neither the engine
nor click.
"""

import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any

from memory_hooks.block import Block, reminder
from memory_hooks.held import Held
from memory_mcp.host import MAX_BYTES, Host, project
from memory_mcp.sessions import folder_of, session_of
from memory_semantic import AgentMemoryError, glance, limits

from . import settings as amplifier

START, PROMPT, END = "start", "prompt", "end"
# What the programs call the events; Cursor's begin with a small letter.
EVENTS = {
    **{"SessionStart": START, "sessionStart": START},
    **{"UserPromptSubmit": PROMPT, "BeforeAgent": PROMPT, "beforeSubmitPrompt": PROMPT},
    **{"SessionEnd": END, "sessionEnd": END},
}
# How long a program may wait, in seconds.
MAX_SECONDS = 2
# Gemini CLI puts what the hook told at the start before the first prompt.
_TOLD = re.compile(r"<hook_context>.*?</hook_context>", re.DOTALL)


def main() -> None:
    """Answer the hook, and end the process: with 0, as another code could stop the prompt."""
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not spoil the answer
    timer = threading.Timer(MAX_SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()
    try:
        given = json.load(sys.stdin)
        if text := _text(given, EVENTS.get(given.get("hook_event_name"))):
            os.write(out, json.dumps(_told(given["hook_event_name"], text)).encode())
    except BaseException as error:
        why = error if isinstance(error, AgentMemoryError) else type(error).__name__
        print(f"agent-memory hook: {why}", file=sys.stderr)
    os._exit(0)


def _told(event: str, text: str) -> dict[str, Any]:
    """`text` for the model, as the program takes it."""
    if "COPILOT_PROJECT_DIR" in os.environ:
        return {"additionalContext": text}
    if event[0].islower():
        go_on = {"continue": True} if EVENTS[event] == PROMPT else {}
        return {"additional_context": text, **go_on}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _text(given: Mapping[str, Any], event: str | None) -> str:
    """What the model is to read now."""
    if event is None or given.get("agent_id"):  # a sub-agent's
        return ""
    config, agent = _settings()
    key = given.get("session_id") or given.get("conversation_id")
    session = session_of(folder_of(config, agent), str(key))
    if event == END:
        session.end()
        return ""
    if event == START:
        resumed = given.get("source") == "resume" and "GEMINI_SESSION_ID" not in os.environ
        # Copilot CLI runs both hooks at once, so that the one before the prompt tells all.
        if resumed or "COPILOT_PROJECT_DIR" in os.environ:
            return ""  # the conversation shows it already
        session.shown = set()
    prompt = _TOLD.sub("", str(given.get("prompt") or ""))
    block = _block(Host(project(given.get("cwd"))), config, agent, event, prompt, session.shown)
    text = block.body() if block else ""
    if block:
        session.show(block.memories)
    if event == PROMPT and _attended(given):
        session.hear(prompt)
        text += reminder(prompt)
    session.save()
    return text


def _settings() -> tuple[dict[str, Any], str]:
    """The settings of the memory, and whose it is."""
    settings = amplifier.load(None) if amplifier.any_names_us() else amplifier.Settings()
    if named := settings.named_agent():
        return settings.config, named[0]
    return settings.config, amplifier.default_agent(glance.agents(glance.root_of(settings.config)))


def _block(
    host: Host, config: dict[str, Any], agent: str, event: str, prompt: str, shown: set[str]
) -> Block | None:
    memories = None
    if glance.is_here(config):
        memories = glance.memories(glance.root_of(config), agent)
    if memories is not None:
        masked = config.get("mask_secrets") is not False
        known = Held(memories, len(memories), host.project_id, shown, masked=masked, of_tools=False)

        def empty() -> Block:
            return Block(inf, MAX_BYTES, known.is_here, known.line_of)

        block = known.go_on(empty) if shown else known.begin(empty, limits.PIN_BUDGET)
        if event == START or known.all_in(block):
            return block
    if event == START:
        return None  # a large store, or one on a server: the first prompt brings it
    import asyncio

    from memory_hooks.recall import recalled

    config = {**config, "agent_identity": agent}
    return asyncio.run(recalled(host, config, prompt, shown, of_tools=False))


def _attended(given: Mapping[str, Any]) -> bool:
    """Whether a human typed the prompt: in a window, or at a terminal, and not a model in a shell
    of Claude Code.
    """
    if "CLAUDECODE" in os.environ or "cursor_version" in given:
        return "CLAUDECODE" not in os.environ
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False
