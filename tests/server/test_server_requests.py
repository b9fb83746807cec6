"""How many requests a call makes, and what they ask: the agent waits for each of them."""

from typing import Any

import pytest
from conftest import Clock, MakeStorage
from memory_semantic import MemoryStorage, ranking
from memory_semantic.errors import ReplacedStoreError, StorageError
from memory_semantic.memory import Memory
from memory_semantic.merging import merge
from memory_semantic.points import EmbeddingModel, Question, StoreInfo
from memory_semantic.store import Store
from memory_server.place import ServerPlace
from memory_server.points import vector_name
from qdrant_server import QdrantServer

HERE = "/collections/agent-memory.sam"
INFO, READ, WRITE = ("GET", HERE), ("POST", f"{HERE}/points"), ("POST", f"{HERE}/points/batch")
QUERY, SCROLL = ("POST", f"{HERE}/points/query/batch"), ("POST", f"{HERE}/points/scroll")
COUNT = ("POST", f"{HERE}/points/count")


@pytest.fixture
async def storage(make_storage: MakeStorage, qdrant: QdrantServer) -> MemoryStorage:
    storage = make_storage(qdrant_url=qdrant.url)
    await storage.store_many([f"the meeting of team {number} is at noon" for number in range(30)])
    qdrant.clear()
    return storage


async def test_a_store_of_one_memory_is_three_requests(
    storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    for text in ("new", "the meeting of team 3 is at noon"):
        await storage.store(text, ["tag"])
        assert qdrant.requests == [INFO, READ, WRITE]
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


async def test_a_search_that_finds_little_makes_one_more_request(
    make_storage: MakeStorage, qdrant: QdrantServer
) -> None:
    storage = make_storage(qdrant_url=qdrant.url)
    await storage.store("the meeting is at noon")
    qdrant.clear()
    await storage.search("meeting")
    assert qdrant.requests == [INFO, QUERY, QUERY, SCROLL]


async def test_other_calls(storage: MemoryStorage, qdrant: QdrantServer) -> None:
    [memory] = await storage.get_recent(1)
    assert await storage.get(memory.id) and await storage.count() == 30
    assert qdrant.requests == [INFO, SCROLL, INFO, SCROLL, INFO, COUNT]
    qdrant.clear()
    assert await storage.delete([memory.id]) == 1
    assert qdrant.requests == [INFO, SCROLL, SCROLL, WRITE]


INFO_OF_SAM: dict[str, Any] = {"agent": "sam", "created": Clock().now}
NORTH, EAST = EmbeddingModel("north", None, 2), EmbeddingModel("east", None, 2)
TEXTS = {"red fox": [1.0, 0.0], "red dog": [0.6, 0.8], "cat": [0.0, 1.0], "…": [-1.0, 0.0]}


def memories(clock: Clock) -> list[Memory]:
    return [
        Memory(agent_id="sam", content=text, embedding=vector, timestamp=clock())
        for text, vector in TEXTS.items()
    ]


@pytest.fixture
async def place(qdrant: QdrantServer, clock: Clock) -> ServerPlace:
    place = ServerPlace("sam", qdrant.url)
    create = StoreInfo(embedding=NORTH, words=1, **INFO_OF_SAM)
    await place.run(lambda store: store.put(memories(clock), merge), create=create)
    return place


async def test_a_point_without_a_vector_is_in_no_answer(
    place: ServerPlace, qdrant: QdrantServer
) -> None:
    [fox, *_] = memories(Clock())
    info = await place.info()
    assert info
    qdrant.client.delete_vectors(HERE.rpartition("/")[2], [vector_name(info)], [fox.key.hex])
    words = ranking.indexed("red fox")

    def work(store: Store) -> list[Memory]:
        question = Question([1.0, 0.0], words, 50, sum(store.rarities(words)))
        return store.nearest([question], 10)[0]

    assert [memory.content for memory in await place.run(work) or []] == ["red dog", "cat", "…"]


async def test_another_model_than_the_call_expects_is_an_error(place: ServerPlace) -> None:
    other = StoreInfo(embedding=EAST, **INFO_OF_SAM)
    with pytest.raises(ReplacedStoreError):
        await place.run(lambda store: store.count(), create=other)
    info = await place.info()
    assert info and info.model == NORTH and info.memories == 4
    assert await place.run(lambda store: store.count(), expect=info) == 4


async def test_what_was_deleted_meanwhile_keeps_no_vector(place: ServerPlace, clock: Clock) -> None:
    [fox, *_] = memories(clock)
    known = await place.run(lambda store: store.get([fox.key], vectors=True))
    assert known and known[fox.key].embedding == pytest.approx(fox.embedding, abs=1e-3)
    await place.run(lambda store: store.forget(list(known.values())))
    fox.embedding = []
    with pytest.raises(StorageError, match=r"deleted while.*Nothing was changed"):
        await place.run(lambda store: store.put([fox], merge))
