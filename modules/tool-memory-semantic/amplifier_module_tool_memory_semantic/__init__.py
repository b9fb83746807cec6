"""The package in which Amplifier's kernel looks for the module; the code is `memory_semantic`."""

from pathlib import Path
from typing import Any

from memory_semantic.identity import module_config
from memory_semantic.tools import mount

__amplifier_module_type__ = "tool"
__all__ = ["mount", "on_session_ready"]

# The folder of our skills, for all clients, and how behaviors/agent-memory.yaml names it.
_SKILLS = Path(__file__).resolve().parents[1] / "agent_memory/plugins/agent-memory/skills"
_NAMED = "@agent-memory:modules/tool-memory-semantic/agent_memory/plugins/agent-memory/skills"


async def on_session_ready(coordinator: Any) -> None:
    """Tell Amplifier's tool for skills where ours are, if the session is to have them. It looks up
    a bundle's name only at the first request to a model, when the app has read the commands.
    """
    load_skill = coordinator.get("tools").get("load_skill")
    if load_skill and _NAMED in (module_config(coordinator, "tool-skills").get("skills") or ()):
        await load_skill.execute({"source": str(_SKILLS)})
