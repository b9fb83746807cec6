"""What a store promises whatever happens to what it is built on."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, MakeStorage
from dict_place import DictPlace, DictPoints
from memory_semantic import MemoryStorage, StoreInfo
from memory_semantic.points import EmbeddingModel, Point
from plain_vectors import PlainVectors

pytestmark = pytest.mark.lingers


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


async def test_a_copy_that_is_restored_while_the_store_is_open_counts(
    storage: MemoryStorage, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 30)
    await storage.store("x")
    await storage.close()
    shutil.copytree(root / "sam", tmp_path / "copy")
    await storage.store_many(["y", "z"])
    (root / "sam").rename(tmp_path / "away")
    (tmp_path / "copy").rename(root / "sam")
    assert await storage.count() == 1
    await storage.close()
