"""What `agent-memory hook` answers to a client that runs hooks, such as Claude Code or Gemini CLI.

The client writes an event on standard input. When a session starts, its model reads what is
remembered; before a prompt, where no server can tell it, what is new or bears on the prompt. If
anything fails, the client carries on. A start imports neither the engine nor click.
"""

import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from memory_hooks.block import Block
from memory_hooks.held import Held
from memory_mcp.host import MAX_BYTES, MAX_PROMPT_CHARS, Host, asked_to_store, working_folder
from memory_mcp.sessions import ClientSession
from memory_semantic import AgentMemoryError, glance, limits

from . import settings as amplifier

# What the clients call a start, and what comes before a prompt; Cursor's have a small letter.
STARTS = ("SessionStart", "sessionStart")
PROMPTS = ("UserPromptSubmit", "BeforeAgent", "beforeSubmitPrompt")
# How long a client may wait, in seconds; what share of that a search may take, and its thread.
MAX_SECONDS, SEARCH, THREAD = 2, 0.7, 0.8
# What a start may take of a context. By estimate, 9,000 bytes of English are some 2,500 tokens.
MAX_TOKENS = 3_000
# Gemini CLI puts what the start told before the first prompt.
_TOLD = re.compile(r"<hook_context>.*?</hook_context>", re.DOTALL)


def main() -> None:
    """Answer the hook, and end the process: with 0, as another code could stop the prompt."""
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not spoil the answer
    timer = threading.Timer(MAX_SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()
    try:
        if told := answer(json.load(sys.stdin.buffer)):
            os.write(out, json.dumps(told).encode())
    except BaseException as error:
        why = error if isinstance(error, AgentMemoryError) else type(error).__name__
        print(f"agent-memory hook: {why}", file=sys.stderr)
    os._exit(0)


def answer(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the model is to read after this event, as its client takes it."""
    event = str(given.get("hook_event_name") or given.get("hookEventName"))  # as VS Code says
    text = _text(given, event) if event in (*STARTS, *PROMPTS) else ""
    if not text:
        return None
    if "COPILOT_PROJECT_DIR" in os.environ:
        return {"additionalContext": text}
    if event[0].islower():
        return {"additional_context": text} | ({"continue": True} if event in PROMPTS else {})
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _text(given: Mapping[str, Any], event: str) -> str:
    """What the model is to read now."""
    if given.get("agent_id"):  # a sub-agent's
        return ""
    if event in STARTS:
        resumed = given.get("source") == "resume" and "GEMINI_SESSION_ID" not in os.environ
        # Copilot CLI runs both hooks at once, so that the one before the prompt tells all.
        if resumed or "COPILOT_PROJECT_DIR" in os.environ:
            return ""  # the conversation shows it already
    named = (given.get(name) for name in ("session_id", "sessionId", "conversation_id"))
    folder = given.get("cwd") or next(iter(given.get("workspace_roots") or ()), None)
    with suppress(OSError):
        os.chdir(str(folder))
    settings = amplifier.load(None)
    if event in STARTS and not (glance.is_here(settings.config) or settings.named_agent()):
        return ""  # to ask the server whose it is would take too long
    agent, _ = settings.agent()
    session = ClientSession(settings.config, agent, str(next(filter(None, named), "")))
    if event in STARTS:
        session.shown = set()
    typed = _TOLD.sub("", str(given.get("prompt") or ""))[-MAX_PROMPT_CHARS:]
    prompt = "" if event in STARTS else typed
    block = _block(Host(working_folder(folder)), settings.config, agent, prompt, session.shown)
    session.show(block.memories if block else ())
    told = block.body() if block else ""
    told += "" if event in STARTS else asked_to_store(settings.config, prompt)
    session.save()  # as late as can be: if time is up before, nothing counts as shown
    return told


def _block(
    host: Host, config: dict[str, Any], agent: str, prompt: str, shown: set[str]
) -> Block | None:
    """What is to be shown; at a start, without a prompt, only what a glance shows."""
    here = glance.is_here(config)
    memories, block = glance.memories(glance.root_of(config), agent) if here else None, None
    if memories is not None:
        masked = config.get("mask_secrets") is not False
        known = Held(memories, host.project_id, shown, masked=masked, of_tools=False)
        block = Block(MAX_TOKENS, MAX_BYTES, known.is_here, known.line_of)
        block = known.go_on(block) if shown else known.begin(block, limits.PIN_BUDGET)
        if not prompt or known.all_in(block):
            return block
    if not prompt:
        return None  # a large store: what comes before the prompt brings it
    import asyncio

    from memory_hooks.recall import recalled

    config = {**config, "agent_identity": agent}
    found, failed, seconds = [block], list[Exception](), MAX_SECONDS * SEARCH

    def search() -> None:
        asked = recalled(host, config, prompt, shown, of_tools=False, seconds=seconds)
        try:
            found.append(asyncio.run(asked))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=search, daemon=True)
    thread.start()
    thread.join(MAX_SECONDS * THREAD)
    if failed and not (block and block.memories):  # else what a glance shows is told
        raise failed[0]
    return found[-1]
