"""A stand-in for Amplifier's own tool for skills, which is in no registry: it notes what folders it
is told of. What a name such as `@agent-memory:folder` in its config stands for, the real one learns
at the first request to a model, which is too late for the commands of the app.
"""

from typing import Any

from amplifier_core import ToolResult

__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount("tools", SkillsTool(), name=SkillsTool.name)


class SkillsTool:
    name = "load_skill"
    description = "Load a skill."
    input_schema = {"type": "object", "properties": {}}  # noqa: RUF012

    def __init__(self) -> None:
        self.sources: list[str] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.sources.append(input.get("source", ""))
        return ToolResult(output="Noted.")
