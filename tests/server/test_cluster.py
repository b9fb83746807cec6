"""Three real Qdrant nodes, of which one is killed and comes back: nothing acknowledged is lost."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from load import load, storage_on, together
from memory_semantic import StorageError
from memory_server import connection
from qdrant_node import QdrantNode
from qdrant_real import program

pytestmark = [pytest.mark.qdrant, pytest.mark.timeout(900)]

COPIES = 3
HEALING_SECONDS = 120.0


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[QdrantNode]]:
    with ExitStack() as stack:
        stack.callback(connection.connect.cache_clear)
        started: list[QdrantNode] = []
        for number in range(COPIES):
            first = started[0].peer if started else ""
            # A copy that missed something is replaced by one of the others, as a whole.
            whole = {"storage__shard_transfer_method": "snapshot"}
            node = QdrantNode(program(), tmp_path / f"node-{number}", first, **whole)
            started.append(stack.enter_context(node))
        peers = [COPIES] * COPIES
        until(lambda: [len(asked(node, "/cluster")["peers"]) for node in started], peers)
        yield started


def asked(node: QdrantNode, path: str) -> Any:
    return httpx.get(f"{node.url}{path}", timeout=5).json()["result"]


def until(found: Any, expected: object) -> None:
    """Wait until `found` returns what is expected."""
    seen: object = None
    end = time.monotonic() + HEALING_SECONDS
    while time.monotonic() < end:
        try:
            seen = found()
        except (httpx.HTTPError, LookupError) as error:
            seen = repr(error)
        if seen == expected:
            return
        time.sleep(0.2)
    raise AssertionError(f"not healed: {seen}")


async def heal(nodes: list[QdrantNode]) -> None:
    """Wait until every node sees all copies, and all active."""

    def states(node: QdrantNode) -> list[str]:
        there = asked(node, "/collections/agent-memory.sam/cluster")
        found = [each["state"] for each in there["local_shards"] + there["remote_shards"]]
        return [*found, *("Transfer" for _ in there["shard_transfers"])]

    wanted = [["Active"] * COPIES] * len(nodes)
    await asyncio.to_thread(until, lambda: [states(node) for node in nodes], wanted)


@pytest.mark.parametrize("failing", [0, 2])  # the first may be the one through which writes go
async def test_a_node_that_is_killed_and_comes_back_loses_nothing(
    nodes: list[QdrantNode], failing: int
) -> None:
    await storage_on(nodes[0].url, qdrant_replicas=COPIES).store("first")
    await heal(nodes)
    async with load([storage_on(node.url) for node in nodes * 2]) as told:
        await asyncio.sleep(5)
        before = [len(each.stored) for each in told]
        await asyncio.to_thread(nodes[failing].stop, signal.SIGKILL)
        await asyncio.sleep(25)
        others = [i for i in range(len(told)) if i % len(nodes) != failing]
        assert all(len(told[i].stored) > before[i] for i in others)  # they went on
        await asyncio.to_thread(nodes[failing].start)
        await asyncio.sleep(5)
    await heal(nodes)
    for node in nodes:
        await together(told).check(storage_on(node.url))


async def test_with_one_node_of_three_nothing_is_acknowledged_and_all_is_found(
    nodes: list[QdrantNode],
) -> None:
    config = {"qdrant_replicas": COPIES, "qdrant_timeout": 2}
    storage = storage_on(nodes[0].url, **config)
    await storage.store("first")
    await heal(nodes)
    for node in nodes[1:]:
        node.stop(signal.SIGKILL)
    with pytest.raises(StorageError, match="in 3 tries"):
        await storage.store("second")
    assert "first" in [memory.content for memory in await storage.search("first")]
    for node in nodes[1:]:
        await asyncio.to_thread(node.start)
    await heal(nodes)
    await storage.store("second")
    for node in nodes:
        there = await storage_on(node.url, **config).get_recent(5)
        assert {memory.content for memory in there} == {"first", "second"}
