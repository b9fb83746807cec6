"""How many requests a call makes, and what they ask: the agent waits for each of them."""

from typing import Any

import pytest
from conftest import Clock, MakeStorage
from memory_semantic import MemoryStorage, ranking
from memory_semantic.errors import ReplacedStoreError, StorageError
from memory_semantic.memory import Memory
from memory_semantic.merging import merge
from memory_semantic.store import EmbeddingModel, Question, Store, StoreInfo, Where
from memory_server.backend import ServerBackend
from qdrant_server import QdrantServer

ALIAS = "/collections/agent-memory.sam"
INFO, READ, WRITE = ("GET", ALIAS), ("POST", f"{ALIAS}/points"), ("PUT", f"{ALIAS}/points")
QUERY, SCROLL = ("POST", f"{ALIAS}/points/query/batch"), ("POST", f"{ALIAS}/points/scroll")
COUNT, DELETE = ("POST", f"{ALIAS}/points/count"), ("POST", f"{ALIAS}/points/delete")


@pytest.fixture
async def storage(make_storage: MakeStorage, qdrant: QdrantServer) -> MemoryStorage:
    storage = make_storage(qdrant_url=qdrant.url)
    await storage.store_many([f"the meeting of team {number} is at noon" for number in range(30)])
    qdrant.clear()
    return storage


async def test_a_store_of_one_memory_is_four_requests(
    storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    for text in ("new", "the meeting of team 3 is at noon"):
        await storage.store(text, ["tag"])
        assert qdrant.requests == [INFO, READ, WRITE, READ]
        qdrant.clear()


# To an unheard-of question many are equally near, and all of those are asked for.
@pytest.mark.parametrize(
    ("query", "equals"), [("team 7", []), ("meeting of a wholly unheard-of zeppelin", [QUERY])]
)
async def test_a_search_is_three_requests_and_two_without_words(
    make_storage: MakeStorage,
    storage: MemoryStorage,
    qdrant: QdrantServer,
    query: str,
    equals: list[tuple[str, str]],
) -> None:
    assert len(await storage.search(query)) == 5
    assert qdrant.requests == [INFO, QUERY, QUERY]
    qdrant.clear()
    assert len(await make_storage(qdrant_url=qdrant.url, lexical_weight=0).search(query)) == 5
    assert qdrant.requests == [INFO, QUERY, *equals]


async def test_a_search_that_finds_little_and_a_store_in_a_cluster_make_more_requests(
    make_storage: MakeStorage, qdrant: QdrantServer
) -> None:
    storage = make_storage(qdrant_url=qdrant.url, qdrant_replicas=3)
    await storage.store("the meeting is at noon")
    qdrant.clear()
    await storage.search("meeting")
    assert qdrant.requests == [INFO, QUERY, QUERY, SCROLL]
    qdrant.clear()
    await storage.store("new")
    assert qdrant.requests == [INFO, READ, READ, WRITE, READ]


async def test_other_calls(storage: MemoryStorage, qdrant: QdrantServer) -> None:
    [memory] = await storage.get_recent(1)
    assert await storage.get(memory.id) and await storage.count() == 30
    assert qdrant.requests == [INFO, SCROLL, INFO, SCROLL, INFO, COUNT]
    qdrant.clear()
    assert await storage.delete([memory.id]) == 1
    assert qdrant.requests == [INFO, SCROLL, SCROLL, DELETE, SCROLL]


INFO_OF_SAM: dict[str, Any] = {"agent": "sam", "created": Clock().now}
NORTH, EAST = EmbeddingModel("north", None, 2), EmbeddingModel("east", None, 2)
TEXTS = {"red fox": [1.0, 0.0], "red dog": [0.6, 0.8], "cat": [0.0, 1.0], "…": [-1.0, 0.0]}


def memories(clock: Clock) -> list[Memory]:
    return [
        Memory(agent_id="sam", content=text, embedding=vector, timestamp=clock())
        for text, vector in TEXTS.items()
    ]


@pytest.fixture
async def backend(qdrant: QdrantServer, clock: Clock) -> ServerBackend:
    backend = ServerBackend("sam", qdrant.url)
    create = StoreInfo(embedding=NORTH, words=1, **INFO_OF_SAM)
    await backend.run(lambda store: store.update(memories(clock), merge), create=create)
    return backend


async def test_a_point_without_a_vector_is_in_no_answer(
    backend: ServerBackend, qdrant: QdrantServer
) -> None:
    [fox, *_] = memories(Clock())
    info = await backend.info()
    assert info
    qdrant.client.delete_vectors(ALIAS.rpartition("/")[2], [info.vector], [fox.key.hex])
    words = ranking.indexed("red fox")

    def work(store: Store) -> list[Memory]:
        question = Question([1.0, 0.0], words, 50, sum(store.rarities(words)))
        return store.nearest([(question, Where())], 10)[0]

    assert [memory.content for memory in await backend.run(work) or []] == ["red dog", "cat", "…"]


async def test_another_model_than_the_call_expects_is_an_error(backend: ServerBackend) -> None:
    other = StoreInfo(embedding=EAST, **INFO_OF_SAM)
    with pytest.raises(ReplacedStoreError):
        await backend.run(lambda store: store.count(), create=other)
    info = await backend.info()
    assert info and info.model == NORTH and info.memories == 4
    assert await backend.run(lambda store: store.count(), expect=info) == 4


async def test_what_was_deleted_meanwhile_keeps_no_vector(
    backend: ServerBackend, clock: Clock
) -> None:
    [fox, *_] = memories(clock)
    known = await backend.run(lambda store: store.get([fox.key]))
    assert known and known[fox.key].embedding == pytest.approx(fox.embedding, abs=1e-3)
    await backend.run(lambda store: store.delete(list(known.values())))
    fox.embedding = []
    with pytest.raises(StorageError, match=r"deleted while.*Nothing was changed"):
        await backend.run(lambda store: store.update([fox], merge))
