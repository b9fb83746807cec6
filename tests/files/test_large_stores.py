"""A large store opens fast: most of it is in an immutable segment, and answers as any other."""

import errno
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import Clock, MakeStorage
from memory_semantic import Memory, MemoryStorage
from memory_semantic.files import edge, points
from memory_semantic.files.edge import Shard
from plain_vectors import PlainVectors
from store_files import copy_sparse, traces


@pytest.fixture
def storage(make_storage: MakeStorage) -> MemoryStorage:
    return make_storage("sam", PlainVectors(), lexical_weight=1.0)


async def fill(storage: MemoryStorage, clock: Clock, number: int) -> None:
    def door(n: int) -> Memory:
        time, text = clock() - timedelta(hours=n + 1), f"{n} is the door of colour {n % 1000}."
        return Memory(content=text, agent_id="sam", tags=[f"floor {n % 10}"], timestamp=time)

    for start in range(0, number, 1000):
        await storage.restore(map(door, range(start, min(start + 1000, number))))
    await storage.close()


def immutable(storage: MemoryStorage) -> list[Path]:
    [path] = storage.folder.shards
    return [path.parents[1] for path in path.glob("segments/*/vector_storage/matrix.dat")]


async def answers(storage: MemoryStorage, clock: Clock) -> list[list[tuple[str, float | None]]]:
    found = [await storage.get_recent(50), await storage.get_recent(50, tags=["floor 3"])]
    for question in ("colour 7 of the 7th door", "70", "is colour 700 of any door?"):
        found.append(await storage.search(question, 20))
        found.append(await storage.search(question, 20, tags=["floor 0"]))
        found.append(await storage.search(question, 20, until=clock() - timedelta(days=9)))
    return [[(memory.content, memory.score) for memory in each] for each in found]


@pytest.mark.slow
async def test_it_answers_as_a_small_one_and_what_is_forgotten_is_gone(
    storage: MemoryStorage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Shard) -> None:
        tries.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    tries = []
    monkeypatch.setattr(Shard, "optimize", fail)
    await fill(storage, clock, 10_001)
    await storage.store("9 is the door of colour 9.", ["painted"])
    assert len(tries) == 1 and not immutable(storage)  # no call fails, and it is not tried again
    before = await answers(storage, clock)
    monkeypatch.undo()
    await storage.delete([await storage.store("Nobody may know this.")])
    assert immutable(storage) and await answers(storage, clock) == before
    clock.advance(seconds=1)
    await storage.store("9000 is the door of colour 0.", ["painted"])
    new = await storage.store("Nobody may know where the key is.")
    [memory] = await storage.search("9000 is the door", 1, tags=["painted"], since=clock())
    assert memory.tags == ["floor 0", "painted"] and memory.timestamp == clock()
    [memory] = await storage.search("Nobody may know", 1)
    await storage.delete([new])
    assert immutable(storage) and not traces(storage.folder.path, [memory])
    assert await storage.count() == 10_001 and await storage.check() == []


async def test_it_is_made_anew_when_it_has_grown_or_a_kill_has_left_two_versions_of_a_text(
    storage: MemoryStorage, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(edge, "LARGE", 100)
    monkeypatch.setattr(points, "_GROWN", 50)
    for number, shard in ((99, "shard-1"), (100, "shard-2"), (149, "shard-2"), (150, "shard-3")):
        await fill(storage, clock, number)
        assert storage.folder.shards[0].name == shard
    [large] = immutable(storage)
    copy_sparse(large, tmp_path / "before")
    await storage.store(known := "7 is the door of colour 7.", ["painted"])
    await storage.close()
    shutil.rmtree(large)  # a kill inside the flush leaves it as it was: it is flushed last
    copy_sparse(tmp_path / "before", large)
    [memory] = await storage.search(known, 1)
    await storage.store("A door was painted.")
    await storage.close()
    assert immutable(storage) != [large] and await storage.count() == 151
    assert memory.tags == ["floor 7", "painted"] and await storage.check() == []


async def test_many_that_have_expired_are_no_damage(
    storage: MemoryStorage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (edge, points):
        monkeypatch.setattr(room, "CANDIDATES", 10)
    expired = clock() - timedelta(days=1)
    doors = [Memory(content=f"{n} doors", agent_id="sam", expires=expired) for n in range(58)]
    await storage.restore([*doors, Memory(content="a window", agent_id="sam")])
    assert len(await storage.search("a window", 5)) == 1
