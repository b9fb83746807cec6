"""Agents on several machines, one store on a Qdrant server: nothing is lost, nothing doubled."""

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer, vector_of
from memory_semantic import MemoryStorage, StorageError
from memory_semantic.memory import point_id
from memory_server.info import ServerInfo
from processes import finish, release, run, start
from qdrant_server import DROP, QdrantServer, Rule

ALIAS = "agent-memory.sam"
COLLECTION = f"{ALIAS}.memories"
UPSERT = f"PUT /collections/{ALIAS}/points"
READ = f"POST /collections/{ALIAS}/points"


@pytest.fixture
def make(make_storage: MakeStorage, qdrant: QdrantServer) -> Callable[[], MemoryStorage]:
    """The store of `sam` on the server, as another machine sees it each time."""
    return lambda: make_storage(qdrant_url=qdrant.url)


@pytest.fixture
def storage(make: Callable[[], MemoryStorage]) -> MemoryStorage:
    return make()


@pytest.fixture
def other(make: Callable[[], MemoryStorage]) -> MemoryStorage:
    return make()


async def tags_of(storage: MemoryStorage) -> dict[str, set[str]]:
    """The tags of each text; no two memories have the same text or id."""
    memories = await storage.get_recent(10_000)
    assert len({m.content for m in memories}) == len({m.id for m in memories}) == len(memories)
    assert await storage.count() == len(memories)
    return {memory.content: set(memory.tags) for memory in memories}


def before(qdrant: QdrantServer, request_number: int, hook: Callable[[], object]) -> None:
    """Call `hook` once, just before the next such request."""
    if request_number:
        qdrant.rules.append(Rule(request_number))
    qdrant.between(hook)


async def test_what_cannot_be_merged_after_all_says_that_some_may_be_stored(
    storage: MemoryStorage, other: MemoryStorage, qdrant: QdrantServer
) -> None:
    theirs = [f"theirs {number}" for number in range(15)]
    qdrant.between(lambda: asyncio.run(other.store("contested", theirs)), UPSERT)
    ours = [f"ours {number}" for number in range(15)]
    with pytest.raises(ValueError, match="may or may not have been stored"):
        await storage.store_many(["first", ("contested", ours)])
    assert await tags_of(storage) == {"first": set(), "contested": set(theirs)}


# A worker loads all it needs, says so, and waits for the others.
READY = """
import memory_server.connection
memory_server.connection._seconds_to_wait = lambda state: 0
name, url = arguments[:2]
ours = storage(qdrant_url=url)
asyncio.run(storage("nobody", qdrant_url=url).search("x"))
asyncio.run(ours.generator(None).generate("x"))
print("ready", flush=True)
sys.stdin.readline()
"""


def at_once(root: Path, script: str, number: int, *arguments: Any) -> list[Any]:
    """What each of several processes that began at the same moment printed as JSON."""
    processes = [start(root, READY + script, f"p{i}", *arguments) for i in range(number)]
    release(processes)
    return [json.loads(finish(process)) for process in processes]


@pytest.mark.parametrize("request_number", range(16))
async def test_a_store_that_others_create_at_the_same_moment_is_the_same(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage, request_number: int
) -> None:
    before(qdrant, request_number, lambda: asyncio.run(other.store("theirs")))
    await storage.store("ours")
    expected = {"ours"} if qdrant.rules else {"ours", "theirs"}  # it needs fewer requests
    qdrant.rules.clear()
    assert (await tags_of(storage)).keys() == expected and len(qdrant.created) == 1


@pytest.mark.parametrize("known", [False, True])
async def test_a_text_that_others_store_at_the_same_moment_has_the_id_of_the_first_and_all_tags(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage, known: bool
) -> None:
    await storage.store("y")
    first = [await storage.store("x", ["first"])] if known else []
    theirs: list[str] = []
    qdrant.between(lambda: theirs.append(asyncio.run(other.store("x", ["theirs"]))), UPSERT)
    [stored] = await storage.upsert([("x", ["ours"])])
    assert [stored.id] == theirs == (first or theirs) and stored.known and stored.changed
    assert await tags_of(storage) == {
        "x": {"ours", "theirs", *(["first"] if known else [])},
        "y": set(),
    }


@pytest.mark.parametrize("merged", [False, True])
async def test_a_stored_text_survives_a_delete_at_the_same_moment(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage, merged: bool
) -> None:
    memory_id = await storage.store("x", ["first"])

    def delete() -> None:
        assert asyncio.run(other.delete([memory_id])) == 1
        if merged:
            asyncio.run(other.store("x", ["anew"]))

    qdrant.between(delete, UPSERT)
    memory = await storage.get(await storage.store("x", ["ours"]))
    assert memory is not None and {"ours", *(["anew"] if merged else [])} <= set(memory.tags)
    assert len(await tags_of(storage)) == 1


async def test_a_write_is_retried_until_others_let_it_through_or_it_is_safe_to_repeat(
    qdrant: QdrantServer, storage: MemoryStorage
) -> None:
    await storage.store("x")
    key = point_id("x").hex

    def change() -> None:
        qdrant.client.set_payload(ALIAS, {"revision": os.urandom(4).hex()}, [key])

    qdrant.rules.append(Rule(19, UPSERT, before=change))
    await storage.store("x", ["ours"])
    qdrant.rules.append(Rule(100, UPSERT, before=change))
    with pytest.raises(StorageError, match=r"Others keep changing .* storing it again is safe"):
        await storage.store("x", ["again"])
    qdrant.rules.clear()
    await storage.store("x", ["again"])
    assert await tags_of(storage) == {"x": {"ours", "again"}}


async def test_a_batch_that_others_partly_change_is_stored_in_order(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage
) -> None:
    ids = await storage.store_many([(f"known {i}", ["first"]) for i in range(4)])

    async def change() -> None:
        await other.store_many([(f"{text}", ["theirs"]) for text in ("known 0", "new 0")])
        await other.delete([ids[1]])

    qdrant.between(lambda: asyncio.run(change()), UPSERT)
    texts = ["new 0", "known 0", "new 1", "known 1", "known 2", "new 0", "known 3"]
    batch = [(text, ["first"] if text == "known 3" else ["ours"]) for text in texts]
    stored = await storage.upsert(batch)
    found = {memory.content: memory.id for memory in await storage.get_recent(20)}
    assert [each.id for each in stored] == [found[text] for text in texts]
    assert [each.known for each in stored][:3] == [True, True, False]
    assert await tags_of(storage) == {
        **{"new 0": {"theirs", "ours"}, "new 1": {"ours"}, "known 0": {"first", "theirs", "ours"}},
        **{"known 1": {"first", "ours"}, "known 2": {"first", "ours"}, "known 3": {"first"}},
    }


async def test_a_memory_deleted_by_two_is_gone(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage
) -> None:
    ids = await storage.store_many(["a", "b", "c"])
    qdrant.between(lambda: asyncio.run(other.delete(ids[:2])), "points/delete")
    await storage.delete(ids[1:])
    assert await storage.count() == 0
    assert await storage.delete(ids) == 0
    ids = await storage.store_many([f"fact {i}" for i in range(30)])
    await asyncio.gather(storage.delete(ids), other.delete(ids[::-1]))
    assert await storage.count() == 0


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_text_stored_again_while_its_memory_is_deleted_is_another_memory(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage, deleted: bool
) -> None:
    [old] = await storage.store_many(["x"])
    theirs: list[str] = []

    async def anew() -> None:
        assert await other.delete([old]) == int(not deleted)
        theirs.append(await other.store("x", ["theirs"]))

    qdrant.rules += [Rule(1, "points/scroll")] * 2  # for the memory, and what it replaced
    if deleted:
        qdrant.rules.append(Rule(1, "points/delete"))
    qdrant.between(lambda: asyncio.run(anew()), "/points")
    await storage.delete([old])
    assert theirs != [old]
    assert await storage.get(theirs[0]) and await tags_of(storage) == {"x": {"theirs"}}


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_memory_that_others_bring_back_while_it_is_deleted_is_deleted_again(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage, times: int
) -> None:
    doomed = await storage.store("x")
    memories = await storage.get_recent()

    def bring_back(times: int) -> None:
        asyncio.run(other.restore(memories))
        once_deleted(times - 1)

    def once_deleted(times: int) -> None:
        if times:
            qdrant.rules.append(Rule(1, "points/delete"))
            qdrant.between(lambda: bring_back(times), READ)

    qdrant.rules += [Rule(1, "points/scroll")] * 2  # for the memory, and what it replaced
    once_deleted(times)
    if times < 3:
        assert await storage.delete([doomed]) == 1
    else:
        with pytest.raises(StorageError, match=r"restored while.*deleting it again is safe"):
            await storage.delete([doomed])
    assert await storage.count() == times // 3


def unit(vector: list[float]) -> list[float]:
    return [number / math.hypot(*vector) for number in vector]


@pytest.fixture
def service(
    server: EmbeddingsServer, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """A service with several models of the same dimensions, each with vectors of its own."""
    vectors = server.vectors

    def of_model(request: dict[str, Any]) -> Any:
        texts = [f"{request['model']}: {text}" for text in request["input"]]
        return vectors({**request, "input": texts})

    monkeypatch.setattr(server, "vectors", of_model)
    return {"qdrant_url": qdrant.url, "base_url": server.base_url}


async def replacement(qdrant: QdrantServer, new: MemoryStorage) -> Callable[[], object]:
    """What makes the store anew with the model of `new`: as a person does, by an export, the end of
    the collection, and an import.
    """
    memories = await new.get_recent(None)

    def replace() -> None:
        qdrant.client.delete_collection(COLLECTION)
        asyncio.run(new.restore(memories))

    return replace


# Each with the number of its requests.
CALLS: dict[str, tuple[int, Callable[[MemoryStorage, str], Awaitable[object]]]] = {
    "store": (4, lambda storage, known: storage.store("new", ["ours"])),
    "merge": (4, lambda storage, known: storage.store("known", ["ours"])),
    "search": (2, lambda storage, known: storage.search("known", limit=1)),
    "newest": (2, lambda storage, known: storage.get_recent(1)),
    "count": (2, lambda storage, known: storage.count()),
    "get": (2, lambda storage, known: storage.get(known)),
    "delete": (5, lambda storage, known: storage.delete([known])),
}


@pytest.mark.parametrize(
    ("name", "request_number"),
    [(name, number) for name, (requests, _) in CALLS.items() for number in range(requests)],
)
async def test_a_store_that_is_made_anew_with_another_model_while_a_call_runs(
    make_storage: MakeStorage,
    qdrant: QdrantServer,
    service: dict[str, Any],
    name: str,
    request_number: int,
) -> None:
    """No vector of the model before gets into it."""
    known = await make_storage(embedding_model="m", **service).store("known", ["first"])
    new = make_storage(embedding_model="n", **service)
    before(qdrant, request_number, await replacement(qdrant, new))
    storage = make_storage(embedding_model=None, **service)
    answer = await CALLS[name][1](storage, known)
    assert qdrant.rules == []  # it happened during the call
    assert answer if name != "delete" else answer == 1
    info = await storage.info()
    assert isinstance(info, ServerInfo) and info.model.model == "n"
    expected = {"known": {"first"}} if name != "delete" else {}
    expected |= {"store": {"new": {"ours"}}, "merge": {"known": {"first", "ours"}}}.get(name, {})
    assert await tags_of(storage) == expected
    records, _ = qdrant.client.scroll(ALIAS, limit=10, with_vectors=True)
    for record in records:
        assert record.payload and isinstance(record.vector, dict)
        vector = unit(vector_of(f"n: {record.payload['content']}", 1536))
        assert record.vector == {info.vector: pytest.approx(vector, abs=1e-3)}


async def test_a_machine_with_the_old_model_in_its_settings_gets_an_error(
    make_storage: MakeStorage, qdrant: QdrantServer, service: dict[str, Any]
) -> None:
    storage = make_storage(embedding_model="m", **service)
    await storage.store("known")
    new = make_storage(embedding_model="n", **service)
    qdrant.between(await replacement(qdrant, new), UPSERT)
    with pytest.raises(StorageError, match=r"made with the embedding model 'n'.*Nothing was ch"):
        await storage.store("new")
    assert await storage.count() == 1 and await storage.get_recent(1)


def test_a_forked_child_can_use_the_store_and_so_can_its_parent(
    root: Path, qdrant: QdrantServer
) -> None:
    script = """
ours = storage(qdrant_url=arguments[0])
asyncio.run(ours.store("before"))
child = os.fork()
for i in range(3):
    name = "parent" if child else "child"
    asyncio.run(ours.store(f"{name} {i}"))
    assert asyncio.run(ours.search(f"{name} {i}", limit=1))[0].content == f"{name} {i}"
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(asyncio.run(ours.count()))
"""
    assert run(root, script, qdrant.url) == "7\n"


SOAK = """
import random
source = random.Random(name)
async def main():
    [stored] = await ours.upsert([("nothing", [name])])
    tags, mine = {"nothing": [stored.id, [name]]}, {}
    for i in range(arguments[2]):
        match source.randrange(4):
            case 0 | 1:
                text, tag = f"shared {source.randrange(8)}", f"{name} {i % 5}"
                [stored] = await ours.upsert([(text, [tag])])
                tags.setdefault(text, [stored.id, []])[1].append(tag)
            case 2:
                text = f"{name} {source.randrange(4)}"
                if text in mine:
                    assert await ours.delete([mine.pop(text)]) == 1
                else:
                    mine[text] = await ours.store(text)
            case 3:
                query = source.choice([*tags, *mine, "nothing"])
                found = [memory.content for memory in await ours.search(query, 20)]
                assert len(found) == len(set(found))
                assert query == "nothing" or found[0] == query, (query, found)
    print(json.dumps([tags, mine]))
asyncio.run(main())
"""


async def test_machines_that_begin_at_once_have_one_store_with_all_that_was_acknowledged(
    root: Path, qdrant: QdrantServer, storage: MemoryStorage
) -> None:
    """Whatever the network does. It takes seconds until three processes have loaded the client."""
    for i in range(200):
        qdrant.rules += [Rule(19), Rule(1, answer=DROP, after=i % 2 == 0)]
    answers = await asyncio.to_thread(at_once, root, SOAK, 3, qdrant.url, 20)
    assert qdrant.rules
    qdrant.rules.clear()
    assert list(qdrant.created) == [COLLECTION]
    assert [alias.alias_name for alias in qdrant.client.get_aliases().aliases] == [ALIAS]
    ids: dict[str, str] = {}
    expected: dict[str, set[str]] = {}
    for tags, mine in answers:
        for text, (memory_id, given) in tags.items():
            assert ids.setdefault(text, memory_id) == memory_id
            expected.setdefault(text, set()).update(given)
        ids |= mine
        expected |= {text: set() for text in mine}
    assert await tags_of(storage) == expected
    for text, memory_id in ids.items():
        memory = await storage.get(memory_id)
        assert memory is not None and memory.content == text
