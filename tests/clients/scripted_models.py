"""Endpoints of models on this machine, as the clients ask them. A script plays the model, as in
examples/scripted.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from local_server import Answer, LocalServer

STORE = "memory_store"


@dataclass
class Call:
    """A call of a tool. `tool` is the name that the client offers, or its end; one that is not
    offered is called all the same, beside `memory_store`.
    """

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


class Request:
    """What a client sent to a model."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        # The offered tools by name: what the client says of each, and the namespace it is in.
        self.tools: dict[str, tuple[dict[str, Any], str | None]] = {}
        for each in body.get("tools") or []:
            namespace = each["name"] if each.get("type") == "namespace" else None
            inside = each.get("functionDeclarations") or (namespace and each["tools"])
            for tool in inside or [each.get("function") or each]:
                self.tools[tool.get("name") or tool["type"]] = (tool, namespace)

    @property
    def said(self) -> str:
        """Every text of the conversation, results of tools included; not the tools."""
        return "\n".join(text for _, text in self.texts())

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text with the role that says it."""

        def walk(part: Any, role: str) -> Iterator[tuple[str, str]]:
            if isinstance(part, str):
                yield role, part
            elif isinstance(part, list):
                for each in part:
                    yield from walk(each, role)
            elif isinstance(part, dict):
                for each in part.values():
                    yield from walk(each, part.get("role") or role)

        for key in ("system", "messages", "instructions", "input", "contents"):
            yield from walk(self.body.get(key), key)

    def roles(self, text: str) -> set[str]:
        """Who says this."""
        return {role for role, each in self.texts() if text in each}

    def id_of(self, content: str) -> str:
        """The id that this memory was last shown with."""
        lines = re.findall(rf"^(\w+) .*{re.escape(content)}$", self.said, re.MULTILINE)
        return f"mem-{lines[-1] if lines else None}"


# The names of an answer's events and what they hold; a name as below is none.
Events = list[tuple[str, Any]]
WHOLE, PLAIN = "", "data"  # the whole answer; an event without a name
Turn = str | Call | Callable[[Request], Call]


class ScriptedModel(LocalServer):
    """Answers each request that offers tools with the next turn, and any other, such as the one for
    a title, with a word. Past the last turn it says "Done."
    """

    def __init__(self, turns: list[Turn]) -> None:
        self.requests: list[Request] = []
        self._turns, self._lock = iter(turns), Lock()
        super().__init__()

    def respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        if method != "POST":
            return 200, {}, b'{"data": [], "models": []}'
        events = self.answer(target, json.loads(body or "{}"))
        if events[0][0] == WHOLE:
            return 200, {}, json.dumps(events[0][1]).encode()
        text = ""
        for name, data in events:
            text += f"event: {name}\n" if name != PLAIN else ""
            text += f"data: {json.dumps(data)}\n\n"
        return 200, {"content-type": "text/event-stream"}, text.encode()

    def _turn(self, body: dict[str, Any]) -> tuple[str | Call, str | None]:
        """What is answered, and the namespace of the tool that it calls."""
        request = Request(body)
        if not request.tools:
            return "Title", None
        with self._lock:
            self.requests.append(request)
            turn = next(self._turns, "Done.")
        if callable(turn):
            turn = turn(request)
        if isinstance(turn, str):
            return turn, None
        store = next((name for name in request.tools if name.endswith(STORE)), STORE)
        beside = store.removesuffix(STORE) + turn.tool
        name = next((each for each in request.tools if each.endswith(turn.tool)), beside)
        _, namespace = request.tools.get(store, ({}, None))
        return Call(name, turn.arguments), namespace

    def answer(self, path: str, body: dict[str, Any]) -> Events:
        """What this endpoint answers."""
        if "count_tokens" in path:
            return [(WHOLE, {"input_tokens": 10})]
        turn, namespace = self._turn(body)
        if "/messages" in path:
            return _messages(turn, body)
        if "/responses" in path:
            return _responses(turn, namespace)
        if "/chat/completions" in path:
            return _completions(turn)
        return _contents(turn, "alt=sse" in path)


def _messages(turn: str | Call, body: dict[str, Any]) -> Events:
    """An answer as Anthropic's endpoint streams it."""
    if isinstance(turn, Call):
        call = {"type": "tool_use", "id": f"toolu_{id(turn)}", "name": turn.tool}
        block, stop = {**call, "input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    else:
        block, stop = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": turn}
    message = {"id": f"msg_{id(turn)}", "type": "message", "role": "assistant", "content": []}
    message |= {"model": body.get("model", "x"), "stop_reason": None, "stop_sequence": None}
    events = [
        {"type": "message_start", "message": message | {"usage": _USED}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": _USED},
        {"type": "message_stop"},
    ]
    if not body.get("stream"):
        content = [{"type": "text", "text": str(turn)}]
        return [(WHOLE, message | {"content": content, "stop_reason": stop, "usage": _USED})]
    return [(each["type"], each) for each in events]


def _responses(turn: str | Call, namespace: str | None) -> Events:
    """An answer as OpenAI's endpoint streams it."""
    if isinstance(turn, Call):
        item = {"type": "function_call", "id": f"fc_{id(turn)}", "call_id": f"call_{id(turn)}"}
        item |= {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        item |= {"namespace": namespace} if namespace else {}
    else:
        text = [{"type": "output_text", "text": turn, "annotations": []}]
        item = {"type": "message", "id": f"m_{id(turn)}", "role": "assistant", "content": text}
    item["status"] = "completed"
    used = {**_USED, "total_tokens": 2}
    done = {"id": f"resp_{id(turn)}", "output": [item], "usage": used}
    events = [
        {"type": "response.created", "response": {"id": done["id"]}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return [(each["type"], each) for each in events]


def _completions(turn: str | Call) -> Events:
    """An answer as OpenAI's older endpoint streams it."""
    message: dict[str, Any] = {"role": "assistant", "content": turn}
    if isinstance(turn, Call):
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        call = {"index": 0, "id": f"call_{id(turn)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    chunk = {"id": f"c_{id(turn)}", "object": "chat.completion.chunk", "created": 1, "model": "x"}
    chunk["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    reason = "tool_calls" if isinstance(turn, Call) else "stop"
    steps = [{"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": reason}]
    return [(PLAIN, {**chunk, "choices": [{"index": 0, **each}]}) for each in steps]


def _contents(turn: str | Call, streams: bool) -> Events:
    """An answer as Gemini's endpoint gives it."""
    part: dict[str, Any] = {"text": turn}
    if isinstance(turn, Call):
        part = {"functionCall": {"name": turn.tool, "args": turn.arguments}}
    answer = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    used = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [(PLAIN if streams else WHOLE, {"candidates": [answer], "usageMetadata": used})]


_USED = {"input_tokens": 1, "output_tokens": 1}


serving = ScriptedModel  # a model at an address of this machine, during a `with` block
