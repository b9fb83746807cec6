"""Agents on several machines, one store on a Qdrant server: what each of them may rely on."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeStorage, whole
from embeddings_server import EmbeddingsServer
from local_server import DROP
from memory_semantic import Memory, MemoryStorage, StorageError
from memory_semantic.remembered import point_id
from memory_server.points import vector_name
from processes import run
from qdrant_server import COLLECTION, WRITE, QdrantServer, Rule

READ = f"POST /collections/{COLLECTION}/points"
# So unlike that each is the first result for itself.
THINGS = (
    "anchor basket candle desert engine feather garden hammer island jacket "
    "kettle lemon mirror needle orchard pencil quarry ribbon saddle tunnel"
)


@pytest.fixture
def other(make_storage: MakeStorage, qdrant: QdrantServer) -> MemoryStorage:
    """The same store, as another machine sees it."""
    return make_storage(qdrant_url=qdrant.url)


async def tags_of(storage: MemoryStorage) -> dict[str, set[str]]:
    """The tags of each text; no two memories have the same text or id."""
    memories = await storage.get_recent(None)
    assert len({m.content for m in memories}) == len({m.id for m in memories}) == len(memories)
    assert await storage.count() == len(memories)
    return {memory.content: set(memory.tags) for memory in memories}


@pytest.mark.parametrize("later", range(12))
async def test_a_store_that_others_create_at_the_same_moment_is_the_same(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage, later: int
) -> None:
    qdrant.between(lambda: asyncio.run(other.store("theirs")), later=later)
    await storage.store("ours")
    assert qdrant.rules == []  # it happened meanwhile
    assert (await tags_of(storage)).keys() == {"ours", "theirs"} and len(qdrant.created) == 1


async def test_of_a_text_that_two_insert_at_the_same_moment_one_is_kept_whole(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage
) -> None:
    theirs: list[str] = []
    qdrant.between(lambda: theirs.append(asyncio.run(other.store("x", ["theirs"]))), WRITE)
    await storage.store("x", ["ours"])
    assert await tags_of(storage) == {"x": {"theirs"}} and await storage.get(theirs[0])


async def test_what_two_change_in_one_memory_at_the_same_moment_is_kept_of_both(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage
) -> None:
    """But for the same field, which is that of the last."""
    known = await storage.store("x", ["first"])
    qdrant.between(lambda: asyncio.run(other.pin([known])), WRITE)
    await storage.store("x", ["ours"])
    [memory] = await storage.get_recent(pinned=True)
    assert memory.tags == ["first", "ours"]
    rule = await storage.store("y")
    qdrant.between(lambda: asyncio.run(other.pin([rule])), WRITE)
    [new] = await storage.upsert(["z"], rule)
    memories = await whole(storage)
    assert memories["y"].replaced_by == point_id("z") and memories["y"].pinned and new.replaced
    qdrant.between(lambda: asyncio.run(other.store("x", ["theirs"])), WRITE)
    await storage.store("x", ["last"])
    assert (await tags_of(storage))["x"] == {"first", "ours", "last"}


Call = Callable[[MemoryStorage, str], Awaitable[object]]
Deleted = tuple[Call, str, int, set[str]]
COPY = Memory(agent_id="sam", content="x", tags=["ours"])
# A call, at which of its requests somebody else deletes what it writes, and what is left.
DELETED: list[Deleted] = [
    (lambda storage, known: storage.store("x", ["ours"]), WRITE, 0, set()),
    # After its own text, before the link to it.
    (lambda storage, known: storage.upsert(["new"], known), WRITE, 1, {"new"}),
    (lambda storage, known: storage.restore([COPY]), WRITE, 0, set()),
    # After it was known, so that it was not embedded.
    (lambda storage, known: storage.restore([COPY]), READ, 2, set()),
]


@pytest.mark.parametrize("deleted", DELETED)
async def test_what_is_deleted_while_it_is_written_does_not_come_back_and_the_error_says_so(
    qdrant: QdrantServer, storage: MemoryStorage, other: MemoryStorage, deleted: Deleted
) -> None:
    call, only, later, left = deleted
    known = await storage.store("x")
    qdrant.between(lambda: asyncio.run(other.delete([known])), only, later)
    outcome = "again is safe" if only == WRITE else "Nothing was changed"
    with pytest.raises(StorageError, match=f"A memory was deleted while.* {outcome}"):
        await call(storage, known)
    assert (await tags_of(storage)).keys() == left


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


# Each with the number of its requests.
CALLS: dict[str, tuple[int, Call]] = {
    "store": (3, lambda storage, known: storage.store("new", ["ours"])),
    "merge": (3, lambda storage, known: storage.store("known", ["ours"])),
    "search": (2, lambda storage, known: storage.search("known", limit=1)),
    "newest": (2, lambda storage, known: storage.get_recent(1)),
    "delete": (4, lambda storage, known: storage.delete([known])),
}


@pytest.mark.parametrize(
    ("name", "later"), [(name, i) for name, (number, _) in CALLS.items() for i in range(number)]
)
async def test_a_store_that_is_made_anew_with_another_model_while_a_call_runs(
    make_storage: MakeStorage, qdrant: QdrantServer, service: dict[str, Any], name: str, later: int
) -> None:
    """As a person does it, by an export, the end of the collection, and an import. No vector of the
    model before gets into it.
    """
    known = await make_storage(embedding_model="m", **service).store("known", ["first"])
    new = make_storage(embedding_model="n", **service)
    memories = await new.get_recent(None)

    def replace() -> None:
        qdrant.client.delete_collection(COLLECTION)
        asyncio.run(new.restore(memories))

    qdrant.between(replace, later=later)
    storage = make_storage(embedding_model=None, **service)
    assert await CALLS[name][1](storage, known)
    assert qdrant.rules == []  # it happened during the call
    info = await storage.info()
    assert info and info.model.model == "n"
    expected = {"known": {"first"}} if name != "delete" else {}
    expected |= {"store": {"new": {"ours"}}, "merge": {"known": {"first", "ours"}}}.get(name, {})
    assert await tags_of(storage) == expected
    records, _ = qdrant.client.scroll(COLLECTION, limit=10, with_vectors=True)
    for record in records:
        assert record.payload and isinstance(record.vector, dict)
        [vector] = await new.generator(info).generate_batch([record.payload["content"]])
        assert record.vector == {vector_name(info): pytest.approx(vector, abs=1e-3)}


def test_a_forked_child_and_its_parent_can_use_the_store(root: Path, qdrant: QdrantServer) -> None:
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


async def test_machines_that_begin_at_once_have_one_store_with_all_that_was_acknowledged(
    make_storage: MakeStorage, qdrant: QdrantServer, no_waiting: None
) -> None:
    """Whatever the network does."""
    for i in range(200):
        qdrant.rules += [Rule(19), Rule(1, answer=DROP, after=i % 2 == 0)]

    things = THINGS.split()

    async def machine(which: int) -> set[str]:
        source, ours = random.Random(which), make_storage(qdrant_url=qdrant.url)
        acknowledged, own = set[str](), dict[str, str]()
        for number in range(12):
            acknowledged.add(shared := things[source.randrange(8)])
            await ours.store(shared, [f"{which} {number % 5}"])
            text = things[8 + 4 * which + source.randrange(4)]
            if text in own:
                assert await ours.delete([own.pop(text)]) == 1
            else:
                own[text] = await ours.store(text)
            query = source.choice(sorted(acknowledged | own.keys()))
            found = [memory.content for memory in await ours.search(query, 20)]
            assert len(found) == len(set(found)) and found[0] == query, (query, found)
        return acknowledged | own.keys()

    told = await asyncio.gather(*(machine(number) for number in range(3)))
    qdrant.rules.clear()
    assert list(qdrant.created) == [COLLECTION]
    assert (await tags_of(make_storage(qdrant_url=qdrant.url))).keys() == set().union(*told)
