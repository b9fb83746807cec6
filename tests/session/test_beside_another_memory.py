"""Another memory bundle in the same session.

The other one is a stand-in with the form of Amplifier's official bundle: a tool `memory`, and a
hook that shows the model all of its MEMORY.md with every request.
"""

from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession, HookResult, ToolResult
from conversation import RULE, converse, each_loop, store
from memory_hooks import capture, recall
from memory_semantic import MemoryStorage, estimate_tokens

DECISION = "We chose PostgreSQL for the users table."
LINES = "\n".join(f"- [m-{number:03}] Never use tabs in YAML, {number}." for number in range(200))


class TheirTool:
    name = "memory"
    description = "Saves what the human said to MEMORY.md."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}  # noqa: RUF012

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output="saved m-201 in MEMORY.md")


def theirs(root: Path) -> Any:
    """What adds that bundle to a session."""

    async def show(event: str, data: dict[str, Any]) -> HookResult:
        block = f'<system-reminder source="theirs">\n{(root / "MEMORY.md").read_text()}\n'
        return HookResult(
            action="inject_context",
            context_injection=f"{block}</system-reminder>",
            context_injection_role="system",
            ephemeral=True,
        )

    async def mount(session: AmplifierSession) -> None:
        coordinator = session.coordinator
        coordinator.hooks.register("provider:request", show, priority=5, name="theirs")
        await coordinator.mount("tools", TheirTool(), name=TheirTool.name)

    return mount


@each_loop
async def test_both_work_in_one_session_and_each_keeps_to_its_budget(
    memory: dict[str, Any], sam: MemoryStorage, root: Path, loop: str
) -> None:
    root.mkdir()
    (root / "MEMORY.md").write_text(LINES)
    await sam.store_many([DECISION, *(f"Fact {n} about databases. {'x ' * 99}" for n in range(60))])
    save = [{"tool": "memory", "arguments": {"operation": "save"}}]
    both = [*save, *store("Never use tabs in YAML, 7.")]
    hooks = {recall.NAME: {}, capture.NAME: {}}
    asked = ("What did we decide about databases?", RULE)
    talk = await converse(
        "", memory, theirs(root), *asked, turns=[both, "PostgreSQL."], hooks=hooks, loop=loop
    )
    first, *later = talk.recalled
    assert DECISION in first and estimate_tokens(first) <= 2_000
    assert all(estimate_tokens(each) <= 500 for each in later)
    assert not any("YAML" in each for each in talk.recalled)
    requests = talk.asked()
    assert len(requests) == 3
    for request in requests:
        contents = [content for _, content in request]
        assert sum("YAML, 199" in content for content in contents) == 1
        assert sum(DECISION in content for content in contents) == 1
    kept = {each.content: each.said_by for each in await sam.get_recent(100)}
    assert kept[RULE] == "user" and kept["Never use tabs in YAML, 7."] == "agent"
    assert (root / "MEMORY.md").read_text() == LINES
