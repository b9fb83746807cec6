"""A session with a memory hook, and everything that can be observed of it."""

import json
import re
import time
from ast import literal_eval
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from amplifier_core import AmplifierSession, HookResult, ToolResult
from memory_hooks import recall
from memory_semantic.identity import project_of
from scripted import scripted_session

# Turns worth keeping.
DECISION = "We decided to keep users in PostgreSQL because of JSONB."
RULE = "From now on, never deploy on Fridays."

OF_TOOLS = ("memory:stored", "memory:searched", "memory:shared")

Config = dict[str, Any]  # of the memory tools
loop = "loop-scripted"  # in which a session runs, unless it names another


@dataclass
class Conversation:
    """Its messages, those from the hook, requests to the model, events of the hooks and of the
    memory tools, results of tools, what the person was shown, and how long each prompt took.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    of_tools: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def show_message(self, message: str, *args: Any, **kwargs: Any) -> None:
        self.shown.append(message)

    def asked(self) -> list[list[tuple[str, str]]]:
        """The roles and contents of each request."""
        requests = [[m.model_dump(mode="json") for m in each.messages] for each in self.requests]
        return [[(m["role"], json.dumps(m["content"])) for m in each] for each in requests]


async def converse(
    hook: str,
    memory: Config | None,
    *prompts: str | Callable[[AmplifierSession], Any],
    turns: list[Any] | None = None,
    after: list[dict[str, Any]] | None = None,
    settings: dict[str, Any] | None = None,
    display: bool = True,
    **options: Any,
) -> Conversation:
    """A conversation with these prompts; a function among them is called with the session. It
    continues `after` earlier messages, with or without a `display` for the person.
    """
    talk = Conversation()

    async def record(event: str, data: dict[str, Any]) -> HookResult:
        if event == "tool:post":
            talk.results.append(_whole(data["result"]))
        else:
            (talk.of_tools if event in OF_TOOLS else talk.events).append((event, data))
        return HookResult()

    options = {"hooks": {hook: settings or {}}, "loop": loop, **options}
    async with scripted_session(turns or [], memory, **options) as s:
        s.coordinator.display_system = talk if display else None
        for event in (*recall.EVENTS, *OF_TOOLS, "tool:post"):
            s.coordinator.hooks.register(event, record, name=event)
        context = s.coordinator.get("context")
        for message in after or []:
            await context.add_message(message)
        for prompt in prompts:
            started = time.perf_counter()
            await (s.execute(prompt) if isinstance(prompt, str) else prompt(s))
            talk.seconds.append(time.perf_counter() - started)
        talk.messages = await context.get_messages()
        talk.requests = s.coordinator.get("providers")["scripted"].requests
    for message in talk.messages:
        if (message.get("metadata") or {}).get("hook_name") == recall.NAME:
            talk.recalled.append(message["content"])
    return talk


def _whole(result: Any) -> dict[str, Any]:
    """The result of a tool, of which loop-basic passes on only what the model reads."""
    if not isinstance(result, str):
        return result
    if (message := result.removeprefix("Error: ")) != result:
        return {"success": False, "error": {"message": message}}
    return {"success": True, "output": literal_eval(result) if result[:1] == "{" else result}


async def chat(memory: Config, *prompts: Any, **options: Any) -> Conversation:
    """A conversation with the memory tools, and without hooks unless some are named."""
    options.setdefault("hooks", {})
    return await converse("", memory, *prompts, **options)


def emit(event: str, **data: Any) -> Callable[[AmplifierSession], Any]:
    return lambda session: session.coordinator.hooks.emit(event, data)


def remembered(line: str) -> str:
    """The text in a line about a memory, which also says its id, whose words it is and the undo."""
    found = re.fullmatch(
        r'Remembered (mem-\w{12}): "(.*?)" \((?:.*; )?'
        r"undo: agent-memory forget (mem-\w{12}) --agent \w+\)",
        line,
    )
    assert found and found[1] == found[3], line
    return found[2]


def project(folder: Path | None) -> dict[str, str]:
    """The metadata of what is stored in a session there, or in the current folder."""
    return project_of(SimpleNamespace(get_capability=lambda _: folder and str(folder)))


def call(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """A turn in which the model calls a tool."""
    return [{"tool": tool, "arguments": arguments}]


def store(content: str, **more: Any) -> list[dict[str, Any]]:
    return call("memory_store", content=content, **more)


def search(query: str, **more: Any) -> list[dict[str, Any]]:
    return call("memory_search", query=query, **more)


@dataclass
class OtherTool:
    """A tool that answers with what `does` makes of the model's arguments."""

    name: str
    does: Callable[[dict[str, Any]], Awaitable[ToolResult]]
    description: str = "A tool of somebody else's"
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """The tool's answer."""
        return await self.does(input)


def gives(name: str, answer: Any, mounted: str = "") -> Callable[[AmplifierSession], Any]:
    """Gives the session a tool that always answers this, under its own name or another."""

    async def does(_: dict[str, Any]) -> ToolResult:
        return ToolResult(output=answer)

    tool = OtherTool(name, does)
    return lambda session: session.coordinator.mount("tools", tool, name=mounted or name)
