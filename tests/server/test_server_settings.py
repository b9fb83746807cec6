"""The settings of a store on a server, and how many requests a call makes: an agent waits."""

from pathlib import Path

import pytest
from conftest import MakeStorage
from memory_semantic import MemoryStorage, StorageError
from memory_semantic.remembered import point_id
from memory_server.points import vector_name
from qdrant_server import COLLECTION, KEY, QdrantServer

HERE = f"/collections/{COLLECTION}"


@pytest.mark.usefixtures("no_waiting")
async def test_the_environment_names_the_server_if_the_settings_do_not(
    make_storage: MakeStorage, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", f" {qdrant.url} ")
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_API_KEY", f" {KEY}\n")
    with pytest.raises(StorageError):
        await make_storage(qdrant_url="http://127.0.0.1:9").store("elsewhere")
    assert qdrant.requests == []
    await make_storage().store("x")
    await make_storage(qdrant_url="").store("y")
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_API_KEY", "another")
    with pytest.raises(StorageError, match="AGENT_MEMORY_QDRANT_API_KEY"):
        await make_storage().count()
    assert await make_storage(qdrant_api_key=KEY).count() == 2


async def test_local_is_this_machine_and_so_is_nothing_whatever_other_programs_read(
    make_storage: MakeStorage, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.setenv("QDRANT_URL", qdrant.url)  # as mcp-server-qdrant reads it
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    for setting, environment in (
        *((spelling, qdrant.url) for spelling in ("local", "Local", "LOCAL", " local ")),
        *(("", spelling) for spelling in ("local", " LOCAL ", "")),
    ):
        monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", environment)
        await make_storage(qdrant_url=setting).store(f"{setting}, {environment}")
    assert await make_storage().count() == 7
    assert (root / "sam" / "qdrant.db").exists() and qdrant.requests == []


async def test_a_store_on_this_machine_is_not_ignored_and_what_an_interrupted_creation_left_is_none(
    make_storage: MakeStorage, storage: MemoryStorage, root: Path
) -> None:
    await make_storage("alice").store("here")
    with pytest.raises(StorageError, match=r"Nothing was changed.*agent-memory export"):
        await make_storage("alice", qdrant_url=storage.place.url).store("y")
    (root / "sam/qdrant.db").mkdir(mode=0o700, parents=True)
    assert await storage.search("x") == []
    assert await storage.store("x") and await storage.count() == 1


async def test_a_key_for_the_collection_alone_is_enough_for_an_agent(
    storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    memory_id = await storage.store("known")
    qdrant.requests.clear()
    await storage.store_many(["known", "new"])
    await storage.search("which word is not known?", tags=["x"])
    assert await storage.get(memory_id) and await storage.get_recent(5) and await storage.count()
    assert await storage.delete([memory_id]) == 1
    assert await storage.run(lambda store: len(list(store.scan(vectors=True))), 0) == 1
    for method, path in qdrant.requests:
        assert path.startswith(f"{HERE}/points") or (method, path) == ("GET", HERE)


async def test_a_store_is_created_as_the_settings_say(
    make_storage: MakeStorage, qdrant: QdrantServer
) -> None:
    config = {"qdrant_replicas": "5", "qdrant_prefix": "team_7"}
    await make_storage(qdrant_url=qdrant.url, **config).store("x")
    [(name, made)] = qdrant.created.items()
    assert name == "team_7.sam"
    assert (made["replication_factor"], made["write_consistency_factor"]) == (5, 3)
    assert made["shard_number"] == 1  # in which all words are counted together
    [vector] = made["vectors"].values()
    assert (vector["datatype"], vector["on_disk"], vector["size"]) == ("float16", True, 640)
    assert made["hnsw_config"] == {"m": 0}  # no graph: a search compares all


async def test_a_store_is_three_requests_and_a_search_four_or_three_without_words(
    make_storage: MakeStorage, storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    info, read, write = ("GET", HERE), ("POST", f"{HERE}/points"), ("POST", f"{HERE}/points/batch")
    query = ("POST", f"{HERE}/points/query/batch")
    await storage.store_many([f"the meeting of team {number} is at noon" for number in range(30)])
    for text in ("new", "the meeting of team 3 is at noon"):
        qdrant.requests.clear()
        await storage.store(text, ["tag"])
        assert qdrant.requests == [info, read, write]
    qdrant.requests.clear()
    assert len(await storage.search("team 7")) == 5
    assert qdrant.requests == [info, query, query, read]  # the last compares the results
    qdrant.requests.clear()
    without = make_storage(qdrant_url=qdrant.url, lexical_weight=0)
    assert len(await without.search("team 7")) == 5
    assert qdrant.requests == [info, query, read]


async def test_a_point_without_a_vector_is_in_no_answer(
    make_storage: MakeStorage, qdrant: QdrantServer
) -> None:
    storage = make_storage(qdrant_url=qdrant.url, lexical_weight=1)
    await storage.store_many(["red fox", "red dog", "cat"])
    info = await storage.info()
    assert info
    qdrant.client.delete_vectors(COLLECTION, [vector_name(info)], [str(point_id("red fox"))])
    assert [memory.content for memory in await storage.search("red fox", 1)] == ["red dog"]
