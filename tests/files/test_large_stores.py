"""A large store opens fast: most of it is in an immutable segment, and answers as any other."""

import errno
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import Clock
from memory_semantic import Memory, MemoryStorage
from memory_semantic.files import points
from memory_semantic.files.edge import Shard
from plain_vectors import PlainVectors
from store_files import copy_sparse, traces

QUESTIONS = [f"colour {number} of the {number}th door" for number in (7, 70, 700)]


@pytest.fixture
def storage(root: Path, clock: Clock) -> MemoryStorage:
    config = {"storage_root": str(root), "lexical_weight": 1.0}
    return MemoryStorage("sam", config, embeddings=PlainVectors(), clock=clock)


async def fill(storage: MemoryStorage, clock: Clock, number: int) -> None:
    for start in range(0, number, 1000):
        memories = [
            Memory(
                content=f"{n} is the door of colour {n % 1000}.",
                timestamp=clock() - timedelta(hours=1 + n),
                tags=[f"floor {n % 10}"],
                agent_id="sam",
            )
            for n in range(start, min(number, start + 1000))
        ]
        await storage.restore(memories)
    await storage.close()


def immutable(storage: MemoryStorage) -> list[Path]:
    [path] = storage.folder.shards
    return list(path.glob("segments/*/vector_storage/matrix.dat"))


async def answers(storage: MemoryStorage, clock: Clock) -> list[list[tuple[str, float | None]]]:
    since, until = clock() - timedelta(days=9), clock() - timedelta(days=2)
    found = [await storage.get_recent(50), await storage.get_recent(50, tags=["floor 3"])]
    for question in QUESTIONS:
        found.append(await storage.search(question, 20))
        found.append(await storage.search(question, 20, tags=["floor 0"]))
        found.append(await storage.search(question, 20, since=since, until=until))
    return [[(memory.content, memory.score) for memory in each] for each in found]


async def test_it_answers_as_a_small_one_and_what_is_forgotten_is_gone(
    storage: MemoryStorage,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries = []

    def fail(_: Shard) -> None:
        tries.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Shard, "optimize", fail)
    await fill(storage, clock, 10_001)
    await storage.store("9 is the door of colour 9.", ["painted"])
    assert len(tries) == 1  # it costs no call anything, and is not tried again
    assert caplog.text.count("was not made anew") == 1 and not immutable(storage)
    before = await answers(storage, clock)
    monkeypatch.undo()
    new = await storage.store("Nobody may know where the key is.")
    [memory] = await storage.with_ids([new])
    await storage.delete([new])
    assert immutable(storage) and not traces(storage.folder.path, [memory])
    assert await answers(storage, clock) == before
    clock.advance(seconds=1)
    await storage.store("9000 is the door of colour 0.", ["painted"])
    new = await storage.store("Nobody may know where the key is.")
    [memory] = await storage.search("9000 is the door", 1, tags=["painted"], since=clock())
    assert memory.tags == ["floor 0", "painted"] and memory.timestamp == clock()
    [memory] = await storage.search("Nobody may know", 1)
    assert memory.id == new and new in [m.id for m in await storage.get_recent(2)]
    await storage.delete([new])
    assert immutable(storage) and not traces(storage.folder.path, [memory])
    assert await storage.count() == 10_001 and await storage.check() == []


async def test_one_that_has_grown_is_made_anew_and_so_is_one_that_a_kill_left_two_versions_in(
    storage: MemoryStorage, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("memory_semantic.files.points.LARGE", 100)
    monkeypatch.setattr(points, "LARGE", 100)
    monkeypatch.setattr(points, "_GROWN", 50)
    await fill(storage, clock, 99)
    assert not immutable(storage)
    await fill(storage, clock, 100)
    [large] = immutable(storage)
    await fill(storage, clock, 149)
    assert immutable(storage) == [large]
    segment = large.parents[1]
    copy_sparse(segment, tmp_path / "before")
    await storage.store(known := "7 is the door of colour 7.", ["painted"])
    await storage.close()
    shutil.rmtree(segment)  # a kill inside the flush leaves it as it was: it is flushed last
    copy_sparse(tmp_path / "before", segment)
    assert [m.content for m in await storage.search(known, 1)] == [known]
    await storage.close()
    assert immutable(storage) != [large] and await storage.count() == 149
    [memory] = await storage.search(known, 1)
    assert memory.tags == ["floor 7", "painted"] and await storage.check() == []
