"""A model that follows a script: `turns` in its config is a list of turns, each a text or a list of
tool calls `{"tool": name, "arguments": {…}}`. After the last one it says "Done.".
"""

from itertools import count
from typing import Any

from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from amplifier_core.models import ProviderInfo

__amplifier_module_type__ = "provider"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount("providers", ScriptedProvider(config or {}), name="scripted")


class ScriptedProvider:
    name = "scripted"

    def __init__(self, config: dict[str, Any]) -> None:
        self._turns = iter(config.get("turns", []))
        self._numbers = count(1)
        self.requests: list[ChatRequest] = []

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="scripted", display_name="Scripted")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        turn = next(self._turns, "Done.")
        calls = [
            ToolCall(
                id=f"call-{next(self._numbers)}", name=call["tool"], arguments=call["arguments"]
            )
            for call in ([] if isinstance(turn, str) else turn)
        ]
        text = turn if isinstance(turn, str) else "I am looking it up."
        return ChatResponse(content=[TextBlock(text=text)], tool_calls=calls or None)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []
