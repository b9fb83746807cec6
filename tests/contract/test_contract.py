"""What a store promises wherever it is kept: in files on this machine, on a Qdrant server, or in a
dictionary, which shows that the port is enough.

`http` stands in for the server, which answers behind it where `qdrant_real` is given one.
"""

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID
from zlib import crc32

import numpy as np
import pytest
from conftest import Clock, MakeStorage, MakeTools
from dict_place import DictPlace
from memory_semantic import (
    EmbeddingGenerator,
    InputError,
    Memory,
    MemoryStorage,
    Place,
    StorageError,
    ranking,
)
from memory_semantic.files import edge
from memory_semantic.points import EmbeddingModel, pages
from memory_semantic.remembered import point_id, shortened
from memory_semantic.store import Store
from memory_server import points as server_points
from plain_vectors import PlainVectors
from qdrant_client import QdrantClient
from qdrant_client.common.client_warnings import SEEN_MESSAGES
from qdrant_real import URL
from qdrant_server import QdrantServer

T = TypeVar("T")

PLACES = ["dict", "files", "http"]

SEEN_MESSAGES.add("create-local-payload-indexes")  # a warning of local mode

MOMENT = timedelta(microseconds=1)
# Scores differ between places by the rounding of vectors, which the tests work out, and of sums.
SAME = 3e-5


@dataclass
class Home:
    """Where a store is kept: the settings that say so, how vectors are rounded there, and whether
    deleted memories count for how rare a word is.
    """

    config: dict[str, Any]
    rounding: type[np.floating[Any]] = np.float16
    counts_deleted: bool = False
    dictionaries: dict[str, DictPlace] | None = None
    server: QdrantClient | None = None

    def place(self, agent: str) -> Place | None:
        """The one to use; None if the settings name it."""
        if self.dictionaries is None:
            return None
        return self.dictionaries.setdefault(agent, DictPlace(agent))

    def there(self) -> list[str]:
        """What exists: folders of agents, or collections on the server."""
        root = Path(self.config["storage_root"])
        if self.dictionaries is not None:
            return [name for name, each in self.dictionaries.items() if each.points]
        if self.server is None:
            return [path.name for path in root.iterdir()] if root.exists() else []
        return [each.name for each in self.server.get_collections().collections]

    def cosines(self, vector: Sequence[float], others: Sequence[Sequence[float]]) -> np.ndarray:
        """The vectors of length 1, as rounded there."""
        a, b = (np.array(each).astype(self.rounding).astype(float) for each in (vector, others))
        return b @ a


@pytest.fixture(autouse=True)
def no_lingering() -> None:
    """Here, stores linger as they do for everybody."""


@pytest.fixture(params=PLACES)
def home(request: pytest.FixtureRequest, root: Path, no_network: None) -> Iterator[Home]:
    config = {"storage_root": str(root), "embedding_model": "local"}
    if request.param == "files":
        yield Home(config)
        return
    if request.param == "dict":
        yield Home(config, np.float64, dictionaries={})
        return
    with QdrantServer() as running:
        config |= {"qdrant_url": running.url}
        rounding = np.float16 if URL else np.float32
        yield Home(config, rounding, counts_deleted=bool(URL), server=running.client)
    assert not root.exists()


@pytest.fixture
def make(home: Home, clock: Clock) -> MakeStorage:
    """A store in this place, by default of `sam` and with the built-in model."""

    def make(
        agent_id: str = "sam", embeddings: EmbeddingGenerator | None = None, **config: Any
    ) -> MemoryStorage:
        settings = {**home.config, **config}
        place = home.place(agent_id)
        return MemoryStorage(agent_id, settings, embeddings=embeddings, clock=clock, place=place)

    return make


@pytest.fixture
def plain(make: MakeStorage) -> MemoryStorage:
    """The store of `sam` with a model that knows no meaning."""
    return make(embeddings=PlainVectors())


async def write(storage: MemoryStorage, text: str, id: str, key: UUID) -> None:
    """Write a memory past all checks, over the one with this key."""
    [vector] = await storage.generator(None).generate_batch([text])
    memory = Memory(id=id, agent_id="sam", content=text, embedding=vector)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memory, "key", key)
        await storage.run(lambda store: store.put([memory], lambda new, known: new), None)


async def whole(storage: MemoryStorage, **where: Any) -> dict[str, Memory]:
    """All memories by their texts."""
    return {memory.content: memory for memory in await storage.get_recent(1_500, **where)}


def are_the_best(found: list[Memory], scores: Mapping[str, float], limit: int) -> None:
    """Assert that `found` are the best `limit` by the `scores` of all texts that may be found."""
    told = {memory.content: memory.score or 0 for memory in found}
    assert told == pytest.approx({text: scores[text] for text in told}, abs=SAME)
    best = sorted(scores.values(), reverse=True)[:limit]
    assert list(told.values()) == pytest.approx(best, abs=SAME)
    assert list(told.values()) == sorted(told.values(), reverse=True)


async def test_an_empty_place_finds_nothing_and_creates_nothing(
    make: MakeStorage, home: Home
) -> None:
    assert await make().search("anything") == await make().get_recent() == []
    assert await make().count() == await make().delete(["mem-000000000000"]) == 0
    assert await make().get("mem-000000000000") is None
    assert await make().info() is None
    assert await make().check() == []
    assert home.there() == []


async def test_the_same_text_is_one_memory_with_all_tags_and_a_new_time(
    plain: MemoryStorage, clock: Clock
) -> None:
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


async def test_a_thousand_at_once_whose_ids_come_in_their_order(
    plain: MemoryStorage, clock: Clock
) -> None:
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


async def test_the_newest_come_first(plain: MemoryStorage, clock: Clock) -> None:
    moments = random.Random(1).sample([clock.now - MOMENT * i for i in range(1_000)], 300)
    memories = [
        Memory(agent_id="sam", content=f"{i}", timestamp=at) for i, at in enumerate(moments)
    ]
    await plain.restore(memories)
    memories.sort(key=lambda memory: memory.timestamp, reverse=True)
    for limit in (1, 7, 299, 300, 1_500):
        assert await plain.get_recent(limit) == memories[:limit]


async def test_a_search_finds_the_same_best_as_a_full_scan(
    plain: MemoryStorage, home: Home, clock: Clock
) -> None:
    source = random.Random(1)

    def memory(number: int) -> Memory:
        at = clock.now - timedelta(days=source.uniform(0, 30))
        tags = source.sample(["red", "green", "blue"], source.randrange(3))
        return Memory(agent_id="sam", content=f"memory {number}", timestamp=at, tags=tags)

    memories = [memory(i) for i in range(300)]
    await plain.restore(memories)
    vectors = await PlainVectors().generate_batch([each.content for each in memories])
    cases = [
        *((1, None, None), (5, None, None), (20, None, None), (20, 3, None), (20, 10.5, None)),
        *((20, None, ["red"]), (5, None, ["red", "blue"]), (20, 20, ["green"])),
    ]
    for question, (limit, days, tags) in product(("one", "two", "three"), cases):
        cosines = home.cosines(await PlainVectors().generate(question), vectors)
        since = clock.now - timedelta(days=days) if days else None
        scores = {
            memory.content: ranking.score(cosine, memory.timestamp, clock.now)
            for memory, cosine in zip(memories, cosines, strict=True)
            if (not since or memory.timestamp >= since)
            and (not tags or set(tags) & set(memory.tags))
        }
        are_the_best(await plain.search(question, limit, since, tags), scores, limit)


def pieces(text: str) -> set[str]:
    """The pieces of a text in ASCII."""
    found = set[str]()
    for word in re.findall(r"\w+", text.lower()):
        if len(word) < 4 or re.search("[0-9]", word):
            found.add(f"<{word}>")
        found |= {f"<{word}>"[i : i + 4] for i in range(len(word) - 1) if len(word) >= 4}
    return found


def rarities(question: str, texts: Sequence[str], deleted: Sequence[str] = ()) -> dict[str, float]:
    """How rare the question's pieces are among the texts, and among those `deleted` that count."""
    there, held = ([pieces(text) for text in some] for some in (texts, [*texts, *deleted]))
    rarity = {}
    for piece in pieces(question):
        among = held if any(piece in each for each in there) else there
        n = sum(piece in each for each in among)
        rarity[piece] = math.log(1 + (len(among) - n + 0.5) / (n + 0.5))
    return rarity


def overlaps(rarity: Mapping[str, float], texts: Sequence[str]) -> np.ndarray:
    """How much of the question's pieces each text contains, the rare ones counting more."""
    held = [rarity.keys() & pieces(text) for text in texts]
    return np.array([sum(rarity[piece] for piece in each) for each in held]) / sum(rarity.values())


async def test_shared_words_count_as_the_formula_says(
    make: MakeStorage, home: Home, clock: Clock
) -> None:
    subjects = ["pool", "retry", "index", "cache", "queue", "token", "replica", "lock"]
    source = random.Random(5)
    texts = [f"The {' '.join(source.choices(subjects, k=4))} of T-{i}" for i in range(60)]
    storage = make(lexical_weight=0.3)
    await storage.store_many(texts[:40])
    clock.advance(days=10)
    await storage.store_many(texts[40:])
    deleted = [f"A zebra in the queue {i}" for i in range(9)]
    await storage.delete(await storage.store_many(deleted))
    question = "why is the Cache of T-7 a QUEUE, and not a zebra?"
    rarity = rarities(question, texts, deleted if home.counts_deleted else ())
    common = {piece for piece, each in rarity.items() if each < math.log(3)}
    assert pieces("the queue") <= common and not pieces("zebra") & common
    kept = ranking.without_common(question, {crc32(piece.encode()) for piece in common})
    vectors = await EmbeddingGenerator("local").generate_batch([kept, *texts])
    cosines = home.cosines(vectors[0], vectors[1:])
    similarity = np.maximum(0, (cosines + 0.3 * overlaps(rarity, texts) ** 2) / 1.3)
    scores = {text: similarity[i] * (1.2 if i >= 40 else 1) for i, text in enumerate(texts)}
    for limit in (1, 20):
        are_the_best(await storage.search(question, limit), scores, limit)
    recent = {text: scores[text] for text in texts[40:]}
    are_the_best(await storage.search(question, 20, since=clock.now), recent, 20)


async def test_finds_memories_that_share_only_words(
    make: MakeStorage, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (edge, server_points):
        monkeypatch.setattr(module, "CANDIDATES", 20)
    question, notes = "e0502 again", [f"note {i}" for i in range(100)]
    vectors = await PlainVectors().generate_batch([question, *notes])
    cosines = home.cosines(vectors[0], vectors[1:])
    names = [f"E0502 {i}" for i in range(30)]
    of_names = home.cosines(vectors[0], await PlainVectors().generate_batch(names))
    far = int(np.abs(of_names).argmin())
    assert of_names[far] < sorted(cosines)[-20]
    storage = make(embeddings=PlainVectors(), lexical_weight=1)
    await storage.store_many([*notes, names[far]])
    there = [*notes, names[far]]
    overlap = overlaps(rarities(question, there), there)[-1]
    found = {memory.content: memory.score for memory in await storage.search(question, 20)}
    expected = (of_names[far] + overlap**2) / 2 * 1.2
    assert 0 < overlap < 1 and found[names[far]] == pytest.approx(expected, abs=SAME)


async def test_times_and_tags_filter_what_is_found(plain: MemoryStorage, clock: Clock) -> None:
    first = clock.now = clock.now + timedelta(microseconds=123_457)
    await plain.store("one", ["a"])
    clock.now = first + MOMENT
    await plain.store_many([("two", ["b", "c"]), "three"])
    last = clock.now = first + timedelta(days=1)
    await plain.store("four", ["C"])
    expected: list[tuple[dict[str, Any], set[str]]] = [
        ({"since": first}, {"one", "two", "three", "four"}),
        ({"since": first + MOMENT}, {"two", "three", "four"}),
        ({"since": last}, {"four"}),
        ({"since": last + MOMENT}, set()),
        ({"tags": ["c"]}, {"two", "four"}),
        ({"tags": ["a", " B "]}, {"one", "two"}),
        ({"tags": ["d"]}, set()),
        ({"tags": []}, {"one", "two", "three", "four"}),
        ({"tags": ["a", "c"], "since": first + MOMENT}, {"two", "four"}),
    ]
    for where, texts in expected:
        assert set(await whole(plain, **where)) == texts, where
        found = await plain.search("one", 20, **where)
        assert {memory.content for memory in found} == texts, where
    assert set(await whole(plain, until=first - MOMENT)) == set()
    assert set(await whole(plain, until=first)) == {"one"}
    assert set(await whole(plain, since=first + MOMENT, until=last - MOMENT)) == {"two", "three"}
    assert len(await plain.search("one", limit=3)) == len(await plain.get_recent(3)) == 3


async def test_deleted_memories_are_gone_and_can_be_stored_again_as_new(
    plain: MemoryStorage, clock: Clock
) -> None:
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


async def test_the_beginning_of_an_id_is_enough_where_no_other_begins_so(
    plain: MemoryStorage,
) -> None:
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


async def test_restored_memories_keep_their_ids_and_times(
    plain: MemoryStorage, clock: Clock
) -> None:
    taken = await plain.store("one", ["a"])
    before = clock.now - timedelta(days=400, microseconds=1)
    given = [
        Memory(
            id="mem-000000000001", agent_id="alice", content="two", timestamp=before, tags=["b"]
        ),
        Memory(id=taken, agent_id="alice", content="three", timestamp=before),
        Memory(
            id="mem-000000000002", agent_id="alice", content="one", timestamp=before, tags=["b"]
        ),
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
    await write(storage, "not what was stored", ids[3], key=point_id("fact 3"))
    [problem] = await storage.check()
    assert ids[3] in problem and "it is not what was stored" in problem
    for read in (storage.get(ids[3]), storage.search("not what was", 20), storage.get_recent(30)):
        with pytest.raises(StorageError, match="not what was stored"):
            await read


async def test_the_tools_work_in_every_place(make_tools: MakeTools, home: Home) -> None:
    tools = await make_tools(**home.config)
    stored = await tools.call("memory_store", content="We chose PostgreSQL.", tags=["Database"])
    memory_id = stored["memory_id"]
    assert re.fullmatch(r"mem-[0-9a-f]{12}", memory_id)
    told = {"memory_id": memory_id, "status": "stored", "embedding_model": "local"}
    assert stored == {**told, "new_store": True}
    again = await tools.call("memory_store", content="We chose PostgreSQL.")
    assert again["memory_id"] == memory_id and "already known" in again["status"]
    found = await tools.call("memory_search", query="Which database?", tags=["database"])
    read = await tools.call("memory_search", query=memory_id)
    for output, more in ((found, {"score"}), (read, set())):
        [memory] = output["memories"]
        assert memory.keys() == {"id", "content", "timestamp", "tags"} | more
        assert (memory["id"], memory["content"]) == (memory_id, "We chose PostgreSQL.")
        assert memory["tags"] == ["database"]
        at = datetime.fromisoformat(memory["timestamp"]).replace(tzinfo=UTC)
        assert timedelta() < datetime.now(UTC) - at < timedelta(minutes=2)


async def test_reads_back_what_was_written(make: MakeStorage) -> None:
    texts = ["Tea at four, tea at five.", "Café STRASSE", "?!"]
    await make().store_many([(texts[0], ["a"]), (texts[1], ["a", "b"]), texts[2]])
    ids = {text: memory.id for text, memory in (await whole(make())).items()}

    def work(store: Store) -> None:
        points = {p.payload["content"]: p for p in chain(*pages(store.points, vectors=True))}
        assert points.keys() == set(texts)
        for text, point in points.items():
            assert (point.key, point.words) == (point_id(text), ranking.indexed(text))
            assert len(point.vector) == 640
            assert math.hypot(*point.vector) == pytest.approx(1, abs=2e-3)
        for tags, number in (["a"], 2), (["b"], 1), (["a", "b"], 2), (["c"], 0):
            assert store.points.count([("tags", "any", tags)]) == number
        some = store.with_ids([ids["?!"], ids[texts[0]], "mem-ffffffffffff"])
        assert {memory.content for memory in some} == {"?!", texts[0]}
        assert len(store.newest(2)) == 2 and store.count() == 3
        assert store.get([point_id("unknown")]) == store.get([]) == {}
        [known] = store.get([point_id("unknown"), point_id("?!")], vectors=True).values()
        assert (known.content, known.embedding) == ("?!", points["?!"].vector)

    await make().run(work, None)


async def test_a_correction_is_found_in_place_of_what_it_corrects(
    make: MakeStorage, clock: Clock
) -> None:
    storage = make()
    old = await storage.store("The staging server listens on port 8080.")
    clock.advance(days=30)
    [new] = await storage.upsert(["Traefik serves it at 9000 now."], old)
    await storage.store("Sam likes green tea.")
    assert new.replaced == old
    found = await storage.search("Which port does the staging server listen on?", limit=2)
    assert [memory.id for memory in found][0] == new.id and len(found) == 2
    assert old not in [memory.id for memory in found]
    assert {memory.id for memory in await storage.get_recent(replaced=True)} == {old}
    assert len(await storage.get_recent(holding=True)) == 2
    memory = await storage.get(old)
    assert memory and (await storage.replacing(memory)).id == new.id  # type: ignore[union-attr]
    assert await storage.unreplace(old) and not await storage.get_recent(replaced=True)
    found = await storage.search("Which port does the staging server listen on?", limit=3)
    assert found[0].id == old and len(found) == 3
    for port in range(10, 30):  # what holds stands once for all that it replaces
        [new] = await storage.upsert([f"The staging server listens on port 80{port}0."], new.id)
    found = await storage.search("Which port does the staging server listen on?", limit=3)
    assert found[0].id == new.id and len({memory.id for memory in found}) == 3


async def test_a_text_that_is_stored_again_holds_again(make: MakeStorage) -> None:
    storage = make(embeddings=PlainVectors())
    x = await storage.store("x")
    [y] = await storage.upsert(["y"], x)
    await storage.store("x")
    assert not await storage.get_recent(replaced=True)
    await storage.upsert(["x"], y.id)
    assert [memory.id for memory in await storage.get_recent(replaced=True)] == [y.id]
    [again] = await storage.upsert(["y"], x)
    assert (again.id, again.replaced) == (y.id, x)
    assert [memory.id for memory in await storage.get_recent(replaced=True)] == [x]
    [z] = await storage.upsert(["z"], x)  # y, which has replaced it since
    assert z.replaced == y.id
    with pytest.raises(InputError, match="own"):
        await storage.upsert(["z"], z.id)
    with pytest.raises(InputError, match="No memory has it"):
        await storage.upsert(["new"], "mem-000000000000")
    assert await storage.count() == 3


async def test_what_a_forgotten_memory_replaced_holds_again(make: MakeStorage) -> None:
    storage = make(embeddings=PlainVectors())
    x = await storage.store("x")
    [y] = await storage.upsert(["y"], x)
    [z] = await storage.upsert(["z"], y.id)
    assert await storage.delete([y.id]) == 1
    [memory] = await storage.get_recent(replaced=True)
    assert memory.id == x and memory.replaced_by == point_id("z")
    assert await storage.delete([z.id]) == 1
    assert [memory.id for memory in await storage.get_recent(holding=True)] == [x]
    for old in (x, await storage.store("another x")):  # one replaces both, and is said twice
        for _ in range(2):
            [y] = await storage.upsert(["y"], old)
    assert [memory.id for memory in await storage.get_recent(holding=True)] == [y.id]
    linked = await storage.get_recent(replaced=True)
    assert len(linked) == 2 and await storage.delete([y.id]) == 1
    unlinked = await storage.get_recent(holding=True)
    assert len(unlinked) == 2
    for copies in (linked, unlinked):  # one of the same time brings its link back, and takes none
        await storage.restore(copies)
        assert not await storage.get_recent(holding=True)


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
