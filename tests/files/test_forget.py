"""What is forgotten is gone: shown and confirmed before, in no answer and on no disk after."""

import asyncio
import errno
import itertools
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from command import Command
from conftest import Clock
from memory_semantic import Memory, MemoryStorage, StorageError
from memory_semantic.files import disk
from memory_semantic.files.vectors import Vectors, add, path_of
from memory_semantic.points import EmbeddingModel
from processes import finish, start
from store_files import OF_A_STORE, is_taken, traces

OTHERS = """
gone, text = arguments
async def main():
    print("ready", flush=True)
    if text:
        await storage().store(text)
        print(any(memory.id == gone for memory in await storage().search("fact", limit=20)))
    else:
        print(await storage().delete([gone]))
asyncio.run(main())
"""
# Each of the first three is replaced by the next.
TEXTS = [
    "The launch is on a Monday.",
    "It is on the 4th of May, a Tuesday.",
    "It is on a Wednesday at last.",
    "The tea is served at four.",
    "Coffee is served all day long.",
]


def is_gone(storage: MemoryStorage, forgotten: list[Memory]) -> None:
    """Assert that no byte of them is left, and no debris."""
    assert {path.name for path in storage.folder.path.iterdir()} == OF_A_STORE
    assert len(storage.folder.shards) == 1
    assert not list(storage.folder.database.glob("*.tmp"))
    assert traces(storage.folder.path, forgotten) == []


def test_memories_are_shown_the_first_of_many_confirmed_and_gone(
    command: Command, storage: MemoryStorage, root: Path
) -> None:
    command.run("store", "The launch is secretly on the 14th of May.")
    command.run("store", "We deploy on Fridays.")
    [doomed] = [m for m in command.json("list") if "launch" in m["content"]]
    memory = asyncio.run(storage.get(doomed["id"]))
    assert memory and traces(root, [memory])
    result = command.run("forget", doomed["id"], input="y\n")
    assert "The launch is secretly" in result.stdout
    assert "Delete 1 memory of sam for good?" in result.stderr
    assert "Gone from search and from the files" in result.stdout
    assert [m["content"] for m in command.json("search", "launch")] == ["We deploy on Fridays."]
    is_gone(storage, [memory])
    asyncio.run(storage.store_many([(f"fact {number}", ["x"]) for number in range(30)]))
    result = command.run("forget", "--tag", "x", input="y\n")
    assert "Delete 30 memories" in result.stderr and "and 10 more" in result.stdout
    assert [m["content"] for m in command.json("list")] == ["We deploy on Fridays."]


def test_without_a_yes_or_with_an_unknown_id_nothing_is_deleted(command: Command) -> None:
    id = command.json("store", "Something dear.")["memory_id"]
    for words, answer, code, said in (
        *(([id], answer, int(not answer), "Nothing was changed") for answer in ("n\n", "\n", "")),
        (["mem-000000000000", "--yes"], None, 1, "no memory mem-000000000000"),
        ([id, "--json"], "y\n", 2, "add --yes"),
        (["--tag", "none"], None, 0, "Nothing was changed"),
        (["--tag", "none", "--yes", "--json"], None, 0, '"forgotten": []'),
    ):
        result = command.run("forget", *words, input=answer, code=code)
        assert said in result.output and "Forgotten" not in result.output
    assert len(command.json("list")) == 1


def test_by_tag_and_by_date_which_follows_the_local_clock(
    command: Command, storage: MemoryStorage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day, tag in ((1, "a"), (2, "a"), (3, "b"), (4, "a")):
        clock.now = datetime(2026, 6, day, tzinfo=UTC)
        asyncio.run(storage.store(f"day {day}", [tag]))
    forgotten = command.json("forget", "--tag", "a", "--before", "2026-06-02T00:00Z", "--yes")
    assert len(forgotten["forgotten"]) == 1
    assert {m["content"] for m in command.json("list")} == {"day 2", "day 3", "day 4"}
    monkeypatch.setenv("TZ", "America/New_York")  # where it is the evening of the day before
    time.tzset()
    try:
        assert "2026-06-01 20:00" in command.run("list").stdout
        assert len(command.json("list", "--since", "2026-06-03")) == 1
        command.run("forget", "--before", "2026-06-03", "--yes")
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert {m["content"] for m in command.json("list")} == {"day 4"}
    command.run("forget", "--tag", "a", "--tag", "b", "--yes")
    assert command.json("list") == []


def test_what_stays_on_disk_is_reported(command: Command, storage: MemoryStorage) -> None:
    stored = command.json("store", "Kept by an earlier repair.")
    kept = storage.folder.path / "damaged-1"
    kept.mkdir()
    result = command.run("forget", stored["memory_id"], "--yes", code=1)
    assert f"rm -r {kept}" in result.stderr and "Deleted from the store" in result.stderr
    assert "Forgotten" not in result.stdout
    assert command.json("list") == []


async def linked(storage: MemoryStorage) -> list[Memory]:
    """The memories of a store of `TEXTS`, of all of which vectors are gathered."""
    ids = list[str]()
    for text in TEXTS:
        replaced = ids[-1] if text in TEXTS[1:3] else None
        ids += [stored.id for stored in await storage.upsert([text], replaced)]
    memories = [(await storage.with_ids([each]))[0] for each in ids]
    add(await gathered(storage), ((memory.key, [0.5] * 4) for memory in memories))
    return memories


async def gathered(storage: MemoryStorage) -> Path:
    """Where vectors of another model are gathered."""
    info = await storage.info()
    assert info
    other = info.model_copy(update={"model": EmbeddingModel("other", None, 4)})
    return path_of(storage.folder.database, other)


async def vectors_of(storage: MemoryStorage) -> dict[UUID, list[float]]:
    found = await storage.run(lambda store: list(store.scan(vectors=True)), [])
    return {memory.key: memory.embedding for memory in found}


@pytest.mark.parametrize("doomed", [[1], [2], [0, 2, 3], range(5)])
async def test_no_byte_is_left_at_the_answer(storage: MemoryStorage, doomed: Sequence[int]) -> None:
    """Nor in the links of others, which lead to what holds instead, or in gathered vectors."""
    memories = await linked(storage)
    gone = [memories[number] for number in doomed]
    path, before = await gathered(storage), await vectors_of(storage)
    with path.open("ab") as file:
        file.write(gone[0].key.bytes + bytes(15))  # a record that was interrupted
    assert all(traces(storage.folder.path, [memory]) for memory in gone)
    assert await storage.delete([memory.id for memory in gone]) == len(gone)
    is_gone(storage, gone)
    left = [memory for memory in memories if memory not in gone]
    chain = [memory.key for memory in left if memory in memories[:3]]
    later = dict(itertools.pairwise(chain))
    assert {memory.key: memory for memory in await storage.get_recent(9)} == {
        each.key: each.model_copy(update={"replaced_by": later.get(each.key)}) for each in left
    }
    assert await storage.check() == []
    assert await vectors_of(storage) == {memory.key: before[memory.key] for memory in left}
    info = await storage.info()
    assert info and info.memories == len(left)
    with closing(Vectors(path)) as vectors:
        assert all(vectors[memory.key] == [0.5] * 4 for memory in left)
    assert path.stat().st_size == len(left) * 32


DONE = "It is done, but .* may still hold what was forgotten"
FAILING: list[tuple[Any, str, int, str]] = [
    (disk, "sync", 1, "Nothing was changed"),  # the gathered vectors
    (disk, "sync", 2, "Nothing was changed"),  # the new shard
    (disk, "sync", 3, "may or may not be done"),  # the manifest
    (disk, "sync", 4, DONE),
    (os, "rename", 1, DONE),
    (shutil, "rmtree", 1, DONE),
]


@pytest.mark.parametrize("failing", FAILING)
async def test_an_error_says_what_became_of_it_and_the_next_call_removes_an_old_shard(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, failing: tuple[Any, str, int, str]
) -> None:
    """The n-th time that it is done to one of the store's folders, it fails."""
    module, name, nth, said = failing
    gone = (await linked(storage))[3]
    database = storage.folder.database
    folders = [storage.folder.path, database, database / "shard-1", database / "shard-1.tmp"]
    call, number = getattr(module, name), itertools.count(1)

    def fail(path: Path, *rest: Any, **options: Any) -> None:
        if path in folders and next(number) == nth:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        call(path, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, fail)
        with pytest.raises(StorageError, match=said):
            await storage.delete([gone.id])
        assert traces(storage.folder.path, [gone])
    changed = nth > 2 or module != disk
    assert await storage.count() == 5 - changed
    assert await storage.delete([gone.id]) == 1 - changed
    is_gone(storage, [gone])


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Makes something happen while the new shard is made."""
    settle = disk.make_durable

    def have(happen: Callable[[], Any]) -> None:
        def first(folder: Path) -> None:
            monkeypatch.setattr(disk, "make_durable", settle)
            happen()
            settle(folder)

        monkeypatch.setattr(disk, "make_durable", first)

    return have


@pytest.mark.parametrize("text", ["", "a fact of another session"])
async def test_others_wait_and_lose_nothing(
    storage: MemoryStorage, root: Path, meanwhile: Callable[..., None], text: str
) -> None:
    """They search and store, or forget as well."""
    facts = [f"fact number {number} of some" for number in range(3)]
    ids = await storage.store_many(facts)
    doomed = await storage.with_ids(ids[: 1 if text else 2])
    others: list[Any] = []

    def begin() -> None:
        others.append(start(root, OTHERS, ids[0] if text else ids[1], text))
        assert others[0].stdout.readline() == "ready\n"
        while not is_taken(storage.folder.database / "queue"):  # until it waits for its turn
            time.sleep(0.005)

    meanwhile(begin)
    assert await storage.delete([ids[0]]) == 1
    assert finish(others[0]) == ("False\n" if text else "1\n")
    assert {memory.content for memory in await storage.get_recent(9)} == (
        {*facts[1:], text} if text else {facts[2]}
    )
    is_gone(storage, doomed)
    assert await storage.check() == []


@pytest.mark.parametrize("begun", [False, True])
async def test_cancelled_all_are_gone_or_none(
    storage: MemoryStorage, meanwhile: Callable[..., None], begun: bool
) -> None:
    ids = await storage.store_many([f"fact number {number} of some" for number in range(3)])
    doomed = await storage.with_ids(ids[:2])
    loop = asyncio.get_running_loop()
    forgetting = asyncio.create_task(storage.delete(ids[:2]))
    if begun:
        meanwhile(lambda: loop.call_soon_threadsafe(forgetting.cancel))
    else:
        forgetting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await forgetting
    assert await storage.count() == (1 if begun else 3)
    is_gone(storage, doomed if begun else [])
