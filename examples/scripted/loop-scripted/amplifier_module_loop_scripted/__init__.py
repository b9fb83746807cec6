"""The smallest orchestrator: asks the provider and runs its tool calls until it answers.

The calls of one turn run at the same time, as in Amplifier's own orchestrators.
"""

import asyncio
from typing import Any

from amplifier_core.message_models import ChatRequest, Message, ToolCall, ToolSpec

__amplifier_module_type__ = "orchestrator"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount("orchestrator", ScriptedLoop())


class ScriptedLoop:
    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: Any,
        coordinator: Any = None,
    ) -> str:
        async def call(tool_call: ToolCall) -> None:
            about = {"tool_name": tool_call.name, "tool_input": tool_call.arguments}
            await hooks.emit("tool:pre", about)
            result = await tools[tool_call.name].execute(tool_call.arguments)
            await hooks.emit("tool:post", {**about, "result": result.model_dump()})
            content = result.get_serialized_output()
            await context.add_message(
                {"role": "tool", "content": content, "tool_call_id": tool_call.id}
            )

        # As Amplifier's own do it: what a hook puts in is stored before the prompt.
        result = await hooks.emit("prompt:submit", {"prompt": prompt})
        if coordinator:
            result = await coordinator.process_hook_result(result, "prompt:submit", "orchestrator")
            if result.action == "deny":
                return f"Operation denied: {result.reason}"
        await context.add_message({"role": "user", "content": prompt})
        [provider] = providers.values()
        specs = [
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.input_schema)
            for tool in tools.values()
        ]
        while True:
            result = await hooks.emit("provider:request", {"provider": provider.name})
            messages = [Message(**message) for message in await context.get_messages_for_request()]
            if result.action == "inject_context" and result.ephemeral:  # in this request alone
                role, content = result.context_injection_role, result.context_injection
                messages.append(Message(role=role, content=content))
            response = await provider.complete(ChatRequest(messages=messages, tools=specs))
            text = "".join(block.text for block in response.content)
            await context.add_message({"role": "assistant", "content": text})
            if not response.tool_calls:
                about = {"orchestrator": "loop-scripted", "turn_count": 1, "status": "success"}
                await hooks.emit("orchestrator:complete", about)
                return text
            await asyncio.gather(*map(call, response.tool_calls))
