"""A stand-in for Amplifier's own tool for skills, which is in no registry. It knows the skills of a
folder once it is mounted or told of a source; what a name such as `@agent-memory:folder` stands for
it learns at the first request to a model, which is too late here.
"""

from pathlib import Path
from typing import Any

import yaml
from amplifier_core import ToolResult

__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    tool = SkillsTool()
    for source in (config or {}).get("skills") or []:
        tool.add(Path(source))
    await coordinator.mount("tools", tool, name=tool.name)
    coordinator.register_capability("skills_discovery", tool)


class SkillsTool:
    name = "load_skill"
    description = "Load a skill."
    input_schema = {"type": "object", "properties": {}}  # noqa: RUF012

    def __init__(self) -> None:
        self._skills: dict[str, tuple[dict[str, Any], str]] = {}

    def add(self, folder: Path) -> None:
        for file in folder.glob("*/SKILL.md"):
            _, header, body = file.read_text().split("---\n", 2)
            about = yaml.safe_load(header)
            self._skills.setdefault(about["name"], (about, body))

    def get_shortcuts(self) -> dict[str, Any]:
        """The commands, which the app asks for once, before the first prompt."""
        return {name: about for name, (about, _) in self._skills.items() if about["user-invocable"]}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        if source := input.get("source"):
            self.add(Path(source))
            return ToolResult(output=source)
        if input.get("skill_name") not in self._skills:
            return ToolResult(success=False, error={"message": "There is no such skill."})
        _, body = self._skills[input["skill_name"]]
        return ToolResult(output=body.replace("$ARGUMENTS", input["arguments"]))
