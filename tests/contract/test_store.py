"""What a store promises whatever happens to what it is built on."""

import asyncio
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, MakeStorage
from dict_place import DictPlace, DictPoints
from memory_semantic import MemoryStorage, StorageError, StoreInfo
from memory_semantic.files.folder import AgentFolder
from memory_semantic.points import EmbeddingModel, Point
from plain_vectors import PlainVectors


@pytest.fixture(autouse=True)
def no_lingering() -> None:
    """Here, stores linger as they do for everybody."""


class Careless(DictPoints):
    """Points whose index finds all, whatever is asked for."""

    def _those(self, where: object) -> list[Point]:
        return list(self.points.values())


@pytest.fixture(params=[DictPoints, Careless])
def plain(request: pytest.FixtureRequest, root: Path, clock: Clock) -> MemoryStorage:
    """The store of `sam` in a dictionary, with a model that knows no meaning."""
    model = EmbeddingModel("plain", None, 32)
    points = request.param(StoreInfo(agent="sam", embedding=model, created=clock.now))
    settings, place = {"storage_root": str(root)}, DictPlace(points=points)
    return MemoryStorage("sam", settings, embeddings=PlainVectors(), clock=clock, place=place)


async def texts(storage: MemoryStorage, limit: int | None = None, **where: Any) -> list[str]:
    return [memory.content for memory in await storage.get_recent(limit, **where)]


async def test_what_is_found_is_compared_with_every_condition_once_more(
    plain: MemoryStorage, clock: Clock
) -> None:
    """After a kill, an index may differ from what it indexes."""
    at, first = clock.now, await plain.store("first", ["a"])
    clock.advance(days=1)
    await plain.upsert(["second"], pin=True, expires=clock.now + timedelta(hours=1))
    found_by: list[tuple[dict[str, Any], str]] = [
        ({"tags": ["a"]}, "first"),
        ({"until": at}, "first"),
        ({"since": clock.now}, "second"),
    ]
    for where, text in found_by:
        assert await texts(plain, **where) == await texts(plain, 1, **where) == [text], where
        assert [found.content for found in await plain.search("first", **where)] == [text], where
    assert await texts(plain, pinned=True) == ["second"]
    await plain.upsert(["third"], first)
    assert await texts(plain, replaced=True) == ["first"]
    assert set(await texts(plain, holding=True)) == {"second", "third"}
    clock.advance(hours=1)
    assert await texts(plain, expired=True) == ["second"]


async def test_what_holds_is_as_similar_as_what_it_replaced(plain: MemoryStorage) -> None:
    old = await plain.store("x")
    [new] = await plain.upsert(["y"], old)
    [found] = await plain.search("x", limit=1)
    assert found.id == new.id and found.similarity == pytest.approx(1)


async def test_newer_ones_that_have_expired_do_not_shorten_a_page(
    plain: MemoryStorage, clock: Clock
) -> None:
    await plain.store_many(["a", "b"])
    clock.advance(hours=1)
    await plain.upsert(["c", "d", "e"], expires=clock.now + timedelta(hours=1))
    clock.advance(hours=1)
    assert set(await texts(plain, 2, holding=True)) == {"a", "b"}


async def test_a_link_to_a_root_leads_to_the_same_door(
    make_storage: MakeStorage, root: Path, tmp_path: Path
) -> None:
    storage = make_storage()
    await storage.store("x")
    (tmp_path / "link").symlink_to(root)
    linked = make_storage(storage_root=str(tmp_path / "link"), lock_timeout=1)
    with pytest.raises(StorageError, match="another one on it"):  # it would wait for itself
        await storage.run(lambda _: asyncio.run(linked.count()), 0)
    assert await linked.count() == 1


async def test_a_copy_that_is_restored_while_the_store_is_open_counts(
    storage: MemoryStorage, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 30)
    await storage.store("x")
    await storage.close()
    shutil.copytree(root / "sam", tmp_path / "copy")
    await storage.store_many(["y", "z"])
    assert await storage.count() == 3
    (root / "sam").rename(tmp_path / "away")
    (tmp_path / "copy").rename(root / "sam")
    assert await storage.count() == 1
    await storage.close()


async def test_a_new_folder_that_is_deleted_before_its_first_text_is_made_again(
    storage: MemoryStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = AgentFolder.make

    def make_and_delete(folder: AgentFolder) -> None:
        make(folder)
        monkeypatch.setattr(AgentFolder, "make", make)
        shutil.rmtree(root)

    monkeypatch.setattr(AgentFolder, "make", make_and_delete)
    await storage.store("x")
    assert await storage.count() == 1
