"""How many requests a call makes, and what they ask: the agent waits for each of them."""

import pytest
from conftest import MakeStorage
from memory_semantic import MemoryStorage
from memory_semantic.remembered import point_id
from memory_server.points import vector_name
from qdrant_server import COLLECTION, QdrantServer

HERE = f"/collections/{COLLECTION}"
INFO, READ, WRITE = ("GET", HERE), ("POST", f"{HERE}/points"), ("POST", f"{HERE}/points/batch")
QUERY = ("POST", f"{HERE}/points/query/batch")


@pytest.fixture
async def storage(make_storage: MakeStorage, qdrant: QdrantServer) -> MemoryStorage:
    storage = make_storage(qdrant_url=qdrant.url)
    await storage.store_many([f"the meeting of team {number} is at noon" for number in range(30)])
    qdrant.requests.clear()
    return storage


async def test_a_store_of_one_memory_is_three_requests(
    storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    for text in ("new", "the meeting of team 3 is at noon"):
        await storage.store(text, ["tag"])
        assert qdrant.requests == [INFO, READ, WRITE]
        qdrant.requests.clear()


async def test_a_search_is_four_requests_and_three_without_words(
    make_storage: MakeStorage, storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    assert len(await storage.search("team 7")) == 5
    assert qdrant.requests == [INFO, QUERY, QUERY, READ]  # the last compares the results
    qdrant.requests.clear()
    without = make_storage(qdrant_url=qdrant.url, lexical_weight=0)
    assert len(await without.search("team 7")) == 5
    assert qdrant.requests == [INFO, QUERY, READ]


async def test_a_point_without_a_vector_is_in_no_answer(
    make_storage: MakeStorage, qdrant: QdrantServer
) -> None:
    storage = make_storage(qdrant_url=qdrant.url, lexical_weight=1)
    await storage.store_many(["red fox", "red dog", "cat"])
    info = await storage.info()
    assert info
    qdrant.client.delete_vectors(COLLECTION, [vector_name(info)], [str(point_id("red fox"))])
    assert [memory.content for memory in await storage.search("red fox", 1)] == ["red dog"]
