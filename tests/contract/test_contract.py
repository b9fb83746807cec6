"""What a store promises wherever it is kept: in files on this machine, on a Qdrant server, or in a
dictionary, which shows that the port is enough.

`http` stands in for the server, which answers behind it where `qdrant_server` is given one.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, MakeStorage, MakeTools, whole
from dict_place import DictPlace, DictPoints, agree
from memory_semantic import EmbeddingGenerator, InputError, Memory, MemoryStorage, ranking
from memory_semantic.errors import StorageError
from memory_semantic.files import edge
from memory_semantic.points import EmbeddingModel, Point, StoreInfo
from memory_semantic.remembered import point_id, shortened
from memory_server import points as server_points
from plain_vectors import PlainVectors
from qdrant_server import QdrantServer

pytestmark = pytest.mark.lingers

MOMENT = timedelta(microseconds=1)
SAME = 3e-4  # scores differ between places by the rounding of vectors, to 16 bits, and of sums


@pytest.fixture(params=["dict", "files", "http"])
def make(
    request: pytest.FixtureRequest, root: Path, make_storage: MakeStorage
) -> Iterator[MakeStorage]:
    """A store in this place, by default of `sam` and with the built-in model."""
    places: dict[str, DictPlace] = {}

    def in_a_dictionary(agent: str = "sam", *given: Any, **config: Any) -> MemoryStorage:
        place = places.setdefault(agent, DictPlace(agent))
        return make_storage(agent, *given, place=place, **config)

    if request.param != "http":
        yield make_storage if request.param == "files" else in_a_dictionary
        return
    with QdrantServer() as running:
        yield partial(make_storage, qdrant_url=running.url)
    assert not root.exists()


@pytest.fixture
def plain(make: MakeStorage) -> MemoryStorage:
    """The store of `sam` with a model that knows no meaning."""
    return make(embeddings=PlainVectors())


async def test_an_empty_place_finds_and_creates_nothing(make: MakeStorage, root: Path) -> None:
    assert await make().search("anything") == await make().get_recent() == []
    assert await make().count() == await make().delete(["mem-000000000000"]) == 0
    assert await make().get("mem-000000000000") is None
    assert await make().info() is None
    assert await make().check() == []
    assert make().place.agents() == [] and not root.exists()


async def test_a_text_is_one_memory_with_all_its_tags(plain: MemoryStorage, clock: Clock) -> None:
    [new] = await plain.upsert([("x", ["a", "b"])])
    [same] = await plain.upsert([("x", ["b"])])
    clock.advance(microseconds=1)
    [renewed] = await plain.upsert([("x", ["c", "b"])])
    assert new.id == same.id == renewed.id
    assert [each.known for each in (new, same, renewed)] == [False, True, True]
    assert [each.changed for each in (new, same, renewed)] == [True, False, True]
    [memory] = await plain.get_recent()
    assert memory.tags == ["a", "b", "c"] and memory.timestamp == clock.now
    await plain.store("x", [f"a{i}" for i in range(12)])
    before = await whole(plain)
    clock.advance(days=1)
    with pytest.raises(ValueError, match="25"):  # too many in total change nothing
        await plain.store_many(["y", ("x", [f"b{i}" for i in range(10)])])
    assert await whole(plain) == before


async def test_a_thousand_at_once_have_ids_in_order(plain: MemoryStorage, clock: Clock) -> None:
    texts = [f"fact {i}" for i in range(1_000)]
    known = await plain.store("fact 1")
    ids = await plain.store_many(texts)
    assert ids[1] == known and len(set(ids)) == 1_000
    assert await plain.store_many(texts) == ids and await plain.store_many([]) == []
    keys = {point_id(text) for text in texts}
    assert await plain.run(lambda store: store.get(keys).keys(), None) == keys
    clock.advance(seconds=1)
    new = await plain.store_many(["newer", ("fact 1", ["tag"]), ("newer", ["later"])])
    assert new[0] == new[2] not in ids and new[1] == known
    recent = await whole(plain)
    assert {*list(recent)[:2]} == {"newer", "fact 1"} and len(recent) == 1_001
    assert [recent[text].id for text in [*texts, "newer"]] == [*ids, new[0]]
    assert recent["fact 1"].tags == ["tag"] and recent["newer"].tags == ["later"]
    assert len(await plain.get_recent(1_000)) == 1_000
    assert await plain.count() == 1_001
    assert len(await plain.search("fact 7", limit=20)) == 20
    assert (await plain.search("fact 7"))[0].content == "fact 7"


@pytest.mark.parametrize("weight", [0, 0.3, 1])
async def test_all_memories_are_compared(make: MakeStorage, clock: Clock, weight: float) -> None:
    """As the dictionary does it. What its formula gives, test_ranking shows."""
    source, subjects = random.Random(5), ["pool", "retry", "index", "cache", "queue", "lock"]

    def memory(number: int) -> Memory:
        text = f"The {' '.join(source.choices(subjects, k=4))} of T-{number}"
        at = clock.now - timedelta(days=source.uniform(0, 30))
        tags = source.sample(["red", "green", "blue"], source.randrange(3))
        return Memory(agent_id="sam", content=text, timestamp=at, tags=tags)

    model, config = PlainVectors(), {"lexical_weight": weight}
    oracle = MemoryStorage("sam", config, embeddings=model, clock=clock, place=DictPlace())
    storages = [make(embeddings=model, **config), oracle]
    memories = [memory(number) for number in range(300)]
    for storage in storages:
        await storage.restore(memories)
    memories.sort(key=lambda each: each.timestamp, reverse=True)
    for limit in (1, 299, 300, 1_500):
        assert await storages[0].get_recent(limit) == memories[:limit]
    cases = [
        *((1, None, None), (5, None, None), (20, None, None), (20, 3, None), (20, 10.5, None)),
        *((20, None, ["red"]), (5, None, ["red", "blue"]), (20, 20, ["green"])),
    ]
    questions = ("why is the Cache of T-7 a QUEUE, and no zebra?", "lock", "two")
    for question, (limit, days, tags) in product(questions, cases):
        since = clock.now - timedelta(days=days) if days else None
        one, other = [await each.search(question, limit, since, tags) for each in storages]
        agree(one, other, SAME)


async def test_finds_a_memory_that_shares_only_words(
    make: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (edge, server_points):
        monkeypatch.setattr(module, "CANDIDATES", 20)
    question, names = "e0502 again", [f"E0502 {number}" for number in range(30)]
    asked, *vectors = await PlainVectors().generate_batch([question, *names])
    cosines = [abs(ranking.cosine(asked, vector)) for vector in vectors]
    far = names[cosines.index(min(cosines))]
    storage = make(embeddings=PlainVectors(), lexical_weight=1)
    await storage.store_many([*(f"note {number}" for number in range(100)), far])
    assert far in [memory.content for memory in await storage.search(question, 20)]


async def test_times_and_tags_filter_what_is_found(plain: MemoryStorage, clock: Clock) -> None:
    first = clock.now = clock.now + timedelta(microseconds=123_457)
    await plain.store("1", ["a"])
    clock.now = first + MOMENT
    await plain.store_many([("2", ["b", "c"]), "3"])
    last = clock.now = first + timedelta(days=1)
    await plain.store("4", ["C"])
    expected: list[tuple[dict[str, Any], str]] = [
        ({"since": first}, "1234"),
        ({"since": first + MOMENT}, "234"),
        ({"since": last}, "4"),
        ({"since": last + MOMENT}, ""),
        ({"tags": ["c"]}, "24"),
        ({"tags": ["a", " B "]}, "12"),
        ({"tags": ["d"]}, ""),
        ({"tags": []}, "1234"),
        ({"tags": ["a", "c"], "since": first + MOMENT}, "24"),
        ({"until": first - MOMENT}, ""),
        ({"until": first}, "1"),
        ({"since": first + MOMENT, "until": last - MOMENT}, "23"),
    ]
    for where, texts in expected:
        assert set(await whole(plain, **where)) == set(texts), where
        found = await plain.search("1", 20, **where)
        assert {memory.content for memory in found} == set(texts), where
    assert len(await plain.search("1", limit=3)) == len(await plain.get_recent(3)) == 3


async def test_what_is_deleted_can_be_stored_as_new(plain: MemoryStorage, clock: Clock) -> None:
    ids = await plain.store_many([("one", ["old"]), "two", "three"])
    assert await plain.delete([ids[0], ids[2], ids[0], "mem-000000000000"]) == 2
    assert await plain.delete([ids[0], ids[2]]) == await plain.delete([]) == 0
    assert await plain.get(ids[0]) is None
    [left] = await plain.search("one")
    assert [left.id] == [memory.id for memory in await plain.get_recent()] == [ids[1]]
    clock.advance(days=1)
    [again] = await plain.upsert([("one", ["new"])])
    assert not again.known and again.id != ids[0]
    memory = await plain.get(again.id)
    assert memory and memory.tags == ["new"] and memory.timestamp == clock.now
    assert await plain.count() == 2 and await plain.check() == []


async def test_the_beginning_of_an_id_is_enough_if_no_other_has_it(plain: MemoryStorage) -> None:
    ids = ["mem-a3f2b8c1d4e5", "mem-a3f2b8c1d4e6", "mem-a3f2b9000000", "mem-00dd00000000"]
    assert shortened(ids[1:], ids) == {
        id: id[:n] for id, n in zip(ids[1:], (16, 10, 8), strict=True)
    }
    assert shortened(ids[:1], ids[:1]) == {ids[0]: "mem-a3f2"} and shortened([], ids) == {}
    await plain.restore(Memory(agent_id="sam", content=id, id=id) for id in ids)
    for id, begin in shortened(ids, ids).items():
        for form in (begin, begin.removeprefix("mem-").upper()):
            found = await plain.get(form)
            assert found and found.id == id
            assert await plain.with_ids([form, id, ids[0]]) == await plain.with_ids([id, ids[0]])
    before = await plain.get_recent(None)
    for begin in (ids[0][:8], ids[0][:10]):
        both = [ids[3], begin]
        calls = plain.get(begin), plain.unreplace(begin), plain.delete(both), plain.pin(both)
        for call in calls:
            with pytest.raises(InputError, match=f"ids begin with {begin}: .* Nothing was changed"):
                await call
    assert await plain.get_recent(None) == before
    assert await plain.get("mem-ffff") is None and await plain.delete(["mem-ffff"]) == 0
    assert [memory.id for memory in await plain.pin(["00dd"])] == [ids[3]]
    assert [memory.id for memory in await plain.get_recent(pinned=True)] == [ids[3]]
    assert await plain.delete(["mem-00dd", "a3f2b9"]) == 2 and await plain.delete(ids[2:]) == 0
    assert {memory.id for memory in await plain.get_recent()} == set(ids[:2])


async def test_restored_memories_keep_ids_and_times(plain: MemoryStorage, clock: Clock) -> None:
    taken = await plain.store("one", ["a"])
    before = clock.now - timedelta(days=400, microseconds=1)
    of_alice: dict[str, Any] = {"agent_id": "alice", "timestamp": before}
    given = [
        Memory(id="mem-000000000001", content="two", tags=["b"], **of_alice),
        Memory(id=taken, content="three", **of_alice),
        Memory(id="mem-000000000002", content="one", tags=["b"], **of_alice),
    ]
    two, three, one = await plain.restore(given)
    assert two.id == "mem-000000000001" and one.id == taken
    assert three.id not in (taken, "mem-000000000001", "mem-000000000002")
    assert [each.known for each in (two, three, one)] == [False, False, True]
    memories = await whole(plain)
    assert memories["two"].timestamp == memories["three"].timestamp == before
    assert memories["one"].timestamp == clock.now and memories["one"].tags == ["a", "b"]
    assert {memory.agent_id for memory in memories.values()} == {"sam"}
    clock.advance(days=1)
    assert not any(each.changed for each in await plain.restore(given[:1]))


async def test_two_texts_of_one_id_are_two_memories_in_a_new_store_too(
    plain: MemoryStorage,
) -> None:
    id = "mem-aaaaaaaaaaaa"
    one, other = await plain.restore(Memory(agent_id="sam", content=x, id=id) for x in "xy")
    assert one.id == id != other.id and await plain.delete([id]) == 1


async def test_no_way_of_reading_crosses_over(make: MakeStorage) -> None:
    sam, alice = make("sam", PlainVectors()), make("alice", PlainVectors())
    memory_id = await sam.store("shared", ["api"])
    assert await alice.get_recent() == await alice.search("shared") == []
    await alice.store_many(["shared", "tea"])
    assert await alice.get(memory_id) is None and await alice.delete([memory_id]) == 0
    assert await alice.search("shared", tags=["api"]) == []
    assert {memory.agent_id for memory in await alice.search("shared")} == {"alice"}
    assert await sam.count() == 1 and await alice.count() == 2


async def test_a_store_keeps_its_model(make: MakeStorage, clock: Clock) -> None:
    await make(embeddings=PlainVectors()).store("x")
    before = await make().info()
    assert before and before.agent == "sam" and before.created == clock.now
    assert before.model == EmbeddingModel("plain", None, 32) and not before.words
    clock.advance(days=1)
    longer = PlainVectors()
    longer.dimensions = 64
    for other, named in ((make(), "'local'"), (make(embeddings=longer), "64 dimensions")):
        for call in (other.store("y"), other.search("x")):
            with pytest.raises(StorageError, match=rf"'plain'.*{named}.*Nothing was changed"):
                await call
    assert [memory.content for memory in await make().get_recent()] == ["x"]
    assert await make().info() == before
    await make("alice").store("x")
    theirs = await make("alice").info()
    assert theirs and theirs.words and theirs.created == clock.now and theirs.endpoint is None
    assert theirs.model == EmbeddingModel("local", EmbeddingGenerator("local").version, 640)


async def test_the_check_finds_nothing_wrong_and_what_is(make: MakeStorage) -> None:
    storage = make()
    ids = await storage.store_many([(f"fact {i}", [f"tag {i % 7}"]) for i in range(20)])
    assert await storage.check() == []
    [vector] = await storage.generator(None).generate_batch(["not what was stored"])
    wrong = Memory(id=ids[3], agent_id="sam", content="not what was stored", embedding=vector)
    with pytest.MonkeyPatch.context() as patch:  # past all checks, over the one with this key
        patch.setattr(Memory, "key", point_id("fact 3"))
        await storage.run(lambda store: store.put([wrong], lambda new, known: new), None)
    [problem] = await storage.check()
    assert ids[3] in problem and "it is not what was stored" in problem
    for read in (storage.get(ids[3]), storage.search("not what was", 20), storage.get_recent(30)):
        with pytest.raises(StorageError, match="not what was stored"):
            await read


async def test_the_tools_work_in_every_place(make_tools: MakeTools, make: MakeStorage) -> None:
    tools = await make_tools(qdrant_url=make().place.url)
    stored = await tools.call("memory_store", content="We chose PostgreSQL.", tags=["Database"])
    memory_id = stored.pop("memory_id")
    assert stored == {"status": "stored", "embedding_model": "local", "new_store": True}
    again = await tools.call("memory_store", content="We chose PostgreSQL.")
    assert again["memory_id"] == memory_id and "already known" in again["status"]
    found = await tools.call("memory_search", query="Which database?", tags=["database"])
    read = await tools.call("memory_search", query=memory_id)
    for output, more in ((found, {"score"}), (read, set())):
        [memory] = output["memories"]
        assert memory.keys() == {"id", "content", "timestamp", "tags"} | more
        assert (memory["id"], memory["content"]) == (memory_id, "We chose PostgreSQL.")
        at = datetime.fromisoformat(memory["timestamp"]).replace(tzinfo=UTC)
        assert timedelta() < datetime.now(UTC) - at < timedelta(minutes=2)


async def test_a_correction_is_found_in_place_of_the_old(make: MakeStorage, clock: Clock) -> None:
    storage = make()
    old = await storage.store("The staging server listens on port 8080.")
    clock.advance(days=30)
    [new] = await storage.upsert(["Traefik serves it at 9000 now."], old)
    await storage.store("Sam likes green tea.")
    assert new.replaced == old
    question = "Which port does the staging server listen on?"
    found = await storage.search(question, limit=2)
    assert found[0].id == new.id and found[1].id != old
    assert {memory.id for memory in await storage.get_recent(replaced=True)} == {old}
    assert len(await storage.get_recent(holding=True)) == 2
    memory = await storage.get(old)
    assert memory and (await storage.replacing(memory)).id == new.id  # type: ignore[union-attr]
    assert await storage.unreplace(old) and not await storage.get_recent(replaced=True)
    found = await storage.search(question, limit=3)
    assert found[0].id == old and len(found) == 3
    for port in range(10, 30):  # what holds stands once for all that it replaces
        [new] = await storage.upsert([f"The staging server listens on port 80{port}0."], new.id)
    found = await storage.search(question, limit=3)
    assert found[0].id == new.id and len({memory.id for memory in found}) == 3


# What is stored, in this order, and what holds then. `y>x`: y in place of x; `-x`: x is forgotten.
HISTORIES = {
    "x y>x": "y",
    "x y>x x": "x y",  # what is stored again holds again
    "x y>x x x>y": "x",
    "x y>x x>y y>x": "y",
    "x y>x z>x": "z",  # in place of y, which has replaced x since
    "x y>x z>y -y": "z",
    "x y>x z>y -y -z": "x",  # what a forgotten one replaced holds again
    "x w y>x y>w y>w": "y",  # one replaces both, and is said twice
    "x w y>x y>w -y": "w x",
}


@pytest.mark.parametrize("history", HISTORIES)
async def test_what_holds_after_corrections(plain: MemoryStorage, history: str) -> None:
    ids = dict[str, str]()
    for step in history.split():
        text, _, old = step.partition(">")
        if text[0] == "-":
            assert await plain.delete([ids.pop(text[1:])]) == 1
        else:
            [stored] = await plain.upsert([text], ids[old] if old else None)
            assert ids.setdefault(text, stored.id) == stored.id
    holding = await plain.get_recent(holding=True)
    assert sorted(memory.content for memory in holding) == HISTORIES[history].split()
    replaced = await plain.get_recent(replaced=True)
    assert {memory.content for memory in [*holding, *replaced]} == ids.keys()
    # One of the same time brings its link back, and takes none.
    copies = await plain.get_recent(None)
    for memory in replaced:
        await plain.unreplace(memory.id)
    unlinked = await plain.get_recent(None)
    for some in (copies, unlinked):
        await plain.restore(some)
        assert len(await plain.get_recent(replaced=True)) == len(replaced)
    assert await plain.check() == []


async def test_what_cannot_be_corrected(plain: MemoryStorage) -> None:
    with pytest.raises(InputError, match="No memory has it"):
        await plain.upsert(["new"], "mem-000000000000")
    assert await plain.info() is None  # no store was made
    x = await plain.store("x")
    for new, old, words in (
        ("x", x, "own"),
        ("new", "mem-000000000000", "No memory has it"),
    ):
        with pytest.raises(InputError, match=words):
            await plain.upsert([new], old)
    assert await plain.count() == 1


async def test_a_pin_stays_until_it_is_taken_off(make: MakeStorage, clock: Clock) -> None:
    storage = make(embeddings=PlainVectors())
    x, y = await storage.store_many(["x", "y"])
    assert [memory.pinned for memory in await storage.pin([x])] == [False]
    clock.advance(days=1)
    await storage.store("x", ["again"])
    [memory] = await storage.get_recent(pinned=True)
    assert memory.id == x and memory.pinned and memory.tags == ["again"]
    [z] = await storage.upsert(["z"], x, said_by="agent")
    assert (z.refused, z.replaced) == (x, "") and not await storage.get_recent(replaced=True)
    [z] = await storage.upsert(["z"], x)
    assert z.replaced == x
    [rule] = await storage.get_recent(pinned=True, holding=True)
    assert rule.id == z.id
    clock.advance(days=1)
    await storage.upsert(["x"], said_by="agent")  # it was replaced: no rule if it is said again
    assert await storage.get_recent(pinned=True, holding=True) == [rule]
    await storage.pin([x, z.id], pinned=False)
    assert not await storage.get_recent(pinned=True) and await storage.get(y)


async def test_what_expires_holds_until_then(make: MakeStorage, clock: Clock) -> None:
    storage, other = make(embeddings=PlainVectors()), make("other", PlainVectors())
    with pytest.raises(InputError, match="a time in the future"):
        await storage.upsert(["x"], expires=clock.now)
    end = clock.now + timedelta(days=2)
    [stored] = await storage.upsert(["x"], expires=end)
    await storage.store("y")
    clock.advance(days=1)
    assert len(await storage.get_recent(holding=True)) == 2 == len(await storage.search("x"))
    await other.restore(await storage.get_recent(None))
    clock.advance(days=1)
    for place in (storage, other):
        assert [memory.content for memory in await place.search("x")] == ["y"]
        assert [memory.content for memory in await place.get_recent(holding=True)] == ["y"]
        [memory] = await place.get_recent(expired=True)
        assert memory.content == "x" and memory.expires == end
    assert await storage.get(stored.id)
    await storage.store("x")
    [x, _] = await storage.get_recent(holding=True)
    assert x.id == stored.id and x.expires is None
    await other.restore([x])  # it was said later
    assert len(await other.get_recent(holding=True)) == 2
    # What the user said and has expired, an agent says again, or something else in its place.
    soon = clock.now + timedelta(hours=1)
    for old, new in (("z", "z"), ("u", "v")):
        [said] = await storage.upsert([old], said_by="user", pin=True, expires=soon)
        clock.advance(hours=2)
        replaces = said.id if old != new else None
        [again] = await storage.upsert([new], replaces, said_by="agent")
        memory = await storage.get(again.id)
        assert not again.refused and memory and not (memory.expires or memory.pinned)
        soon = clock.now + timedelta(hours=1)


class Careless(DictPoints):
    """Points whose index finds all, whatever is asked for, as after a kill it may find too much."""

    def _those(self, where: object) -> list[Point]:
        return list(self.points.values())


@pytest.fixture
def careless(make_storage: MakeStorage, clock: Clock) -> MemoryStorage:
    """The store of `sam` over such points, with a model that knows no meaning."""
    info = StoreInfo(agent="sam", embedding=EmbeddingModel("plain", None, 32), created=clock.now)
    return make_storage(embeddings=PlainVectors(), place=DictPlace(points=Careless(info)))


async def test_what_is_found_is_checked_once_more(careless: MemoryStorage, clock: Clock) -> None:
    async def recent(limit: int | None = None, **where: Any) -> list[str]:
        return [memory.content for memory in await careless.get_recent(limit, **where)]

    at, first = clock.now, await careless.store("first", ["a"])
    clock.advance(days=1)
    await careless.upsert(["second"], pin=True, expires=clock.now + timedelta(hours=1))
    found_by: list[tuple[dict[str, Any], str]] = [
        ({"tags": ["a"]}, "first"),
        ({"until": at}, "first"),
        ({"since": clock.now}, "second"),
    ]
    for where, text in found_by:
        assert await recent(**where) == await recent(1, **where) == [text], where
        assert [found.content for found in await careless.search("first", **where)] == [text]
    assert await recent(pinned=True) == ["second"]
    clock.advance(minutes=-1)
    await careless.upsert(["third"], first)
    assert await recent(replaced=True) == ["first"]
    assert await recent(holding=True) == ["second", "third"]
    clock.advance(hours=2)
    assert await recent(expired=True) == ["second"]
    assert await recent(1, holding=True) == ["third"]  # though the newest has expired


async def test_what_holds_is_as_similar_as_what_it_replaced(careless: MemoryStorage) -> None:
    old = await careless.store("x")
    [new] = await careless.upsert(["y"], old)
    [found] = await careless.search("x", limit=1)
    assert found.id == new.id and found.similarity == pytest.approx(1)
