"""A question that needs several look-ups costs the conversation only the answer."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_memory_semantic import mount
from conftest import MakeStorage, MakeTools
from memory_semantic import estimate_tokens
from scripted import MEMORY_MODULE, REPOSITORY, scripted_session

AGENT = REPOSITORY / "agents/memory-retrieval.md"


def parts() -> tuple[dict[str, Any], str]:
    """What the agent's file says about it, and its instructions."""
    _, header, body = AGENT.read_text().split("---\n", 2)
    return yaml.safe_load(header), body


@pytest.mark.parametrize(
    ("values", "tools"),
    [
        ([True, "true", "True", 1, "1", " TRUE "], {"memory_search"}),
        ([False, "false", "False", 0, "0", None, "", "  "], {"memory_search", "memory_store"}),
        (["yes please", "${READ_ONLY}", 2, [True]], {"memory_search"}),
    ],
    ids=["only the search", "both tools", "a mistake, which is reported at the call"],
)
async def test_read_only_leaves_the_tools_that_it_allows(
    make_tools: MakeTools, root: Path, values: list[Any], tools: set[str]
) -> None:
    for value in values:
        coordinator = MockCoordinator()
        await mount(coordinator, {"read_only": value})
        assert set(coordinator.mount_points["tools"]) == tools, value
        called = await make_tools(read_only=value)
        if "yes please" in values:
            assert "read_only" in await called.refused("memory_search", query="anything")
        else:
            assert (await called.call("memory_search", query="anything"))["memories"] == []
    assert not root.exists()


async def test_the_agent_as_its_file_configures_it_searches_the_store_of_its_parent(
    make_storage: MakeStorage, root: Path
) -> None:
    await make_storage().store_many(["We chose PostgreSQL.", "PostgreSQL was moved to version 17."])
    parent = {"agent_identity": "sam", "storage_root": str(root), "embedding_model": "local"}
    header, _ = parts()
    [tool] = header["tools"]
    assert tool["module"] == MEMORY_MODULE.name and "source" not in tool
    searches = [
        [{"tool": "memory_search", "arguments": {"query": q}}] for q in ("PostgreSQL", "17")
    ]
    merged = {**parent, **tool["config"]}  # as Amplifier merges an agent's config into its parent's
    answer = "PostgreSQL 17 (mem-000000000000)."
    async with scripted_session([*searches, answer], merged, parent_id="parent") as child:
        assert await child.execute("Everything about PostgreSQL?") == answer
        requests = child.coordinator.get("providers")["scripted"].requests
    assert [spec.name for spec in requests[0].tools] == ["memory_search"]
    assert "We chose PostgreSQL." in str(requests[-1].messages)


def test_the_agent_has_what_amplifier_asks_of_one() -> None:
    header, body = parts()
    assert header["meta"]["name"] == AGENT.stem and header["agents"] == "none"
    assert "200 words" in body and "memory_search" in body and "memory_store" not in body
    behavior = yaml.safe_load((REPOSITORY / "behaviors/memory-retrieval.yaml").read_text())
    assert behavior["agents"]["include"] == [f"agent-memory:{AGENT.stem}"]


def test_the_agent_costs_a_session_little() -> None:
    """What every request of the main agent carries: that the agent exists, and when to use it."""
    header, _ = parts()
    awareness = (REPOSITORY / "context/memory-retrieval-awareness.md").read_text()
    assert estimate_tokens(header["meta"]["description"] + awareness) < 200
