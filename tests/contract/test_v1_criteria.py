"""The functional and reliability criteria of the V1 design, section 10, under their own names.

Its four performance criteria are measured by `benchmarks/run.py`.
"""

import asyncio
from pathlib import Path

import pytest
from conftest import Clock, MakeStorage, Tools
from embeddings_server import EmbeddingsServer, error
from memory_semantic import MemoryStorage
from processes import run


async def test_store_memories(tools: Tools) -> None:
    output = await tools.call("memory_store", content="test content")
    assert output["memory_id"].startswith("mem-")


async def test_search_semantically(tools: Tools) -> None:
    for content in ("PostgreSQL migration", "The logo is blue", "Standup is at ten"):
        await tools.call("memory_store", content=content)
    output = await tools.call("memory_search", query="what about databases?")
    assert output["memories"][0]["content"] == "PostgreSQL migration"


async def test_agent_isolation(make_storage: MakeStorage) -> None:
    await make_storage("sam").store("test content")
    assert await make_storage("alice").search("test content") == []


async def test_persistence(root: Path) -> None:
    run(root, "asyncio.run(storage().store('test content'))")
    output = run(root, "print(asyncio.run(storage().search('test content'))[0].content)")
    assert output == "test content\n"


async def test_recency_boost(make_storage: MakeStorage, clock: Clock) -> None:
    storage = make_storage()
    await storage.store("The deploy script needs Python 3.11 on Linux")
    clock.advance(days=30)
    await storage.store("The deploy script needs Python 3.12 on Linux")
    newer, older = await storage.search("Which Python does the deploy script need?")
    assert "3.12" in newer.content and newer.timestamp > older.timestamp


async def test_no_data_loss(make_storage: MakeStorage) -> None:
    storage = make_storage()
    contents = [f"Decision {i}: the service {i * 7} owns table {i * 13}" for i in range(100)]
    await storage.store_many(contents)
    for content in contents:
        assert content in {memory.content for memory in await storage.search(content)}


async def test_embedding_failure(
    server: EmbeddingsServer, make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    storage = make_storage(embedding_model="text-embedding-3-small", base_url=server.base_url)
    server.script += [error(503), error(429, retry_after="0.1")]
    assert await storage.store("test content")
    assert len(server.requests) == 3


async def test_invalid_agent_id() -> None:
    for agent_id in ("../alice", "..", "/etc/passwd", "a/b"):
        with pytest.raises(ValueError):
            MemoryStorage(agent_id)


async def test_concurrent_queries(make_storage: MakeStorage) -> None:
    storage = make_storage()
    await storage.store_many([f"fact {i}" for i in range(20)])
    results = await asyncio.gather(*(storage.search(f"fact {i}") for i in range(10)))
    assert all(len(memories) == 5 for memories in results)
