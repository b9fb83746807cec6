"""The journal, a second whole copy of a store: when it is written anew, and when it is damage."""

import asyncio
import errno
import itertools
import json
import logging
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from command import Command
from conftest import whole
from memory_semantic import (
    DamagedStoreError,
    EmbeddingGenerator,
    Memory,
    MemoryStorage,
    StorageError,
    upkeep,
)
from memory_semantic.errors import readable_size
from memory_semantic.files import disk, journal
from memory_semantic.limits import JOURNAL_SLACK
from memory_semantic.remembered import utc_now
from plain_vectors import PlainVectors
from store_files import bytes_of, copy_sparse, cut, empty, garble, remove, repair

REPAIR = r"agent-memory doctor|doctor --repair"


@pytest.fixture
def plain(root: Path) -> MemoryStorage:
    """A store whose vectors take no time."""
    return MemoryStorage("sam", {"storage_root": str(root)}, embeddings=PlainVectors())


@pytest.fixture
def path(root: Path) -> Path:
    return root / "sam" / "memories.jsonl"


@pytest.fixture(autouse=True)
def nothing_failed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_failing", set())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts(path: Path) -> list[str]:
    """What it holds, line by line."""
    return [line["content"] for line in lines(path)[1:]]


async def fill(storage: MemoryStorage, number: int) -> list[Memory]:
    """Restore memories of different days, and return them, oldest first."""
    days = [utc_now() - timedelta(days=number - i) for i in range(number)]
    given = [Memory(agent_id="sam", content=f"fact {i}", timestamp=at) for i, at in enumerate(days)]
    await storage.restore(given)
    await storage.close()
    return given


async def test_it_is_an_export_that_goes_on_private_and_numbered(
    plain: MemoryStorage, path: Path
) -> None:
    memories = await fill(plain, 3)
    await plain.store("fact 1", ["b"])
    await plain.store("fact 3")
    assert path.stat().st_mode & 0o777 == 0o600
    header, *rest = lines(path)
    assert header["format"] == "agent-memory" and header["embedding"] == ["plain", None, 32]
    assert header["agent"] == "sam" and header["shard"] == "shard-1" and header["bytes"] == 0
    assert [(line["content"], line.pop("n")) for line in rest] == [
        ("fact 0", 1),
        ("fact 1", 2),
        ("fact 2", 3),
        ("fact 1", 3),
        ("fact 3", 4),
    ]
    restored = [plain.memory_from(line)[0] for line in rest[:3]]
    assert [m.dict_for_storage() for m in restored] == [m.dict_for_storage() for m in memories]
    await plain.delete([memories[0].id])
    assert texts(path) == ["fact 2", "fact 1", "fact 3"] and lines(path)[0]["shard"] == "shard-2"
    assert [line["n"] for line in lines(path)[1:]] == [1, 2, 3]


def test_import_reads_it_and_of_a_text_the_later_line(
    command: Command, storage: MemoryStorage, path: Path, tmp_path: Path
) -> None:
    asyncio.run(storage.store_many(["a rule", "a fact"]))
    [rule] = [m.id for m in asyncio.run(storage.get_recent()) if m.content == "a rule"]
    for pinned in (True, False):
        asyncio.run(storage.pin([rule], pinned))
    before = asyncio.run(whole(storage))
    assert len(texts(path)) == 4
    path.rename(tmp_path / "memories.jsonl")
    shutil.rmtree(path.parent)
    result = command.run("import", str(tmp_path / "memories.jsonl"), "--yes")
    assert "2 memories for sam: 2 new" in result.stdout and "left out" not in result.output
    assert asyncio.run(whole(storage)) == before


def header_as(**fields: Any) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        first, rest = path.read_text().split("\n", 1)
        path.write_text(json.dumps({**json.loads(first), **fields}) + "\n" + rest)

    return alter


def with_one_more(path: Path) -> None:
    line = lines(path)[-1] | {"content": "lost", "n": lines(path)[-1]["n"] + 1}
    path.write_bytes(path.read_bytes() + json.dumps(line).encode() + b"\n")


def with_one_more_and_torn(path: Path) -> None:
    with_one_more(path)
    path.write_bytes(path.read_bytes() + b'{"id":')


def of_an_older_shard_with_one_more(path: Path) -> None:
    with_one_more(path)
    header_as(shard="shard-1")(path)


def with_a_line(line: str) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes() + line.encode() + b"\n")


WRITTEN_ANEW = {
    **{"gone": remove, "empty": empty, "noise": garble, "half": cut},
    "torn": lambda path: os.truncate(path, path.stat().st_size - 1),
    "behind": lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:-1])),
    "of another agent": header_as(agent="eve"),
    "too deep": with_a_line("[" * 99_999),
    "no text": with_a_line('{"content": "\\ud800", "id": "mem-000000000001"}'),
    "no time": with_a_line('{"content": "x", "timestamp": "0001-01-01T00:00:00+14:00"}'),
    "of a swap that was interrupted": of_an_older_shard_with_one_more,
}
DAMAGE = {
    "it holds 4 of 5 memories": with_one_more,
    "its journal has 1 memory that it has lost": with_one_more_and_torn,
    "its database is older than its journal": header_as(shard="shard-3"),
    "its journal has 4 memories": lambda path: shutil.rmtree(path.parent / "qdrant.db"),
}


@pytest.mark.parametrize("harm", WRITTEN_ANEW)
async def test_a_search_makes_it_whole_again(plain: MemoryStorage, path: Path, harm: str) -> None:
    await fill(plain, 5)
    await plain.delete([(await plain.get_recent(1))[0].id])
    whole = texts(path)
    assert plain.folder.journal.memories()[1]
    WRITTEN_ANEW[harm](path)
    all_read = harm in ("torn", "behind", "of a swap that was interrupted")
    assert plain.folder.journal.memories()[1] == all_read
    left = path.with_name("memories.jsonl.tmp")  # of a swap that was killed
    left.write_text("torn")
    assert len(await plain.search("fact")) == 4
    assert not left.exists() and plain.folder.journal.memories()[1]
    assert texts(path) == whole and lines(path)[-1]["n"] == 4
    assert lines(path)[0]["shard"] == "shard-2" and lines(path)[0]["agent"] == "sam"


@pytest.mark.parametrize("said", DAMAGE)
async def test_what_loses_a_memory_is_an_error(plain: MemoryStorage, path: Path, said: str) -> None:
    await fill(plain, 5)
    await plain.delete([(await plain.get_recent(1))[0].id])
    DAMAGE[said](path)
    harmed = path.read_bytes()
    for call in (plain.search("fact"), plain.store("another"), plain.count()):
        with pytest.raises(DamagedStoreError, match=rf"{said}.*({REPAIR}).*Nothing was changed"):
            await call
    assert path.read_bytes() == harmed


async def test_it_is_written_anew_when_twice_as_long(plain: MemoryStorage, path: Path) -> None:
    memories = await fill(plain, 5)
    longest = 0
    while longest < JOURNAL_SLACK:
        longest = path.stat().st_size
        await plain.store(f"fact {longest % 5}", [], {f"{n}": "x" * 200 for n in range(10)})
        assert len(texts(path)) >= 5
        if path.stat().st_size < longest:
            break
    assert longest > JOURNAL_SLACK and len(texts(path)) < 8
    assert len(await plain.get_recent(None)) == len(memories)


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("failing", ["write", "fsync", "short"])
async def test_an_append_that_fails_is_told_once_and_the_text_is_stored(
    plain: MemoryStorage,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failing: str,
    nth: int,
) -> None:
    name = "fsync" if failing == "fsync" else "write"
    call, number = getattr(os, name), itertools.count(1)
    await fill(plain, 1)

    def fail(descriptor: int, *data: bytes) -> Any:
        if os.fstat(descriptor).st_ino != path.stat().st_ino or next(number) < nth:
            return call(descriptor, *data)
        if failing == "short":
            return call(descriptor, data[0][:-9])
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        for text in ("text 1", "text 2", "fact 0"):  # the last is known: the count stays
            await plain.store(text, ["again"])
            await plain.close()
    assert await plain.check() == []  # which compares the two, whatever their counts
    assert await plain.count() == 3 and len(texts(path)) in (3, 4)
    told = [record for record in caplog.records if "journal" in record.message]
    assert told and all("text" not in record.message for record in told)


async def test_one_that_cannot_be_written_fails_no_call_and_only_a_forget(
    plain: MemoryStorage, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(plain, 2)
    path.unlink()
    (path / "in the way").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert await plain.store(f"more {number}")
    [record] = [record for record in caplog.records if "journal" in record.message]
    assert "'sam'" in record.message and "more" not in record.message
    [doomed] = [m.id for m in await plain.get_recent(None) if m.content == "fact 0"]
    with pytest.raises(StorageError, match="It is done, but the files"):
        await plain.delete([doomed])
    shutil.rmtree(path)
    assert await plain.count() == 4
    assert len(texts(path)) == 4 and b"fact 0" not in bytes_of(path.parent)


async def test_without_room_the_store_works_and_a_forget_says_what_it_takes(
    plain: MemoryStorage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(plain, 2)
    usage, needed = shutil.disk_usage("/"), 67_108_864
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed + 1000))
    path.unlink()
    assert await plain.count() == 2 and len(texts(path)) == 2
    doomed = (await plain.get_recent(1))[0]
    await plain.close()
    [shard] = path.parent.glob("qdrant.db/shard-1")
    takes = readable_size(2 * (disk.size(shard, holes=False) + path.stat().st_size))
    with pytest.raises(StorageError, match=f"{takes} to write the store anew.*Nothing was changed"):
        await plain.delete([doomed.id])
    other = EmbeddingGenerator("static")
    wanted = await upkeep.info_with(plain.place, plain.config, other)
    with pytest.raises(StorageError, match=r"to write the store anew.*Nothing was changed"):
        await upkeep.reembed(plain.place, wanted, other, lambda done, of: None)
    assert await plain.count() == 2 and len(list(path.parent.glob("qdrant.db/shard*"))) == 1
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed - 1))
    for call in (plain.store("y"), plain.search("x")):
        with pytest.raises(StorageError, match=r"mounted at /\S* is too full.*Nothing was changed"):
            await call


def test_it_is_examined_and_repaired(command: Command, storage: MemoryStorage, path: Path) -> None:
    asyncio.run(storage.store_many(["a fact", "another"]))
    path.write_text(path.read_text().replace("another", "anotter"))
    found = {each["subject"]: each["text"] for each in command.json("doctor", code=1)}
    assert "The journal differs in 1 memory" in str(found)
    asyncio.run(repair(storage))
    assert sorted(texts(path)) == ["a fact", "another"] and lines(path)[0]["shard"] == "shard-2"
    assert not list(path.parent.glob("damaged-*"))


PARTS = {"journal": "memories.jsonl", "shard": "qdrant.db/shard-*", "manifest": "*/manifest.json"}


@pytest.mark.parametrize(
    "older", [(*PARTS,)[:1], (*PARTS,)[1:2], (*PARTS,)[2:], (*PARTS,)[1:], (*PARTS,)[::2]]
)
@pytest.mark.parametrize("between", ["store and forget", "forget and store"])
async def test_parts_of_two_moments_lose_nothing_and_revive_nothing(
    storage: MemoryStorage, path: Path, tmp_path: Path, older: tuple[str, ...], between: str
) -> None:
    """Some files of a store are put back from a copy, such as one that a disk has lost since."""
    folder = path.parent
    ids = await storage.store_many(["a fact", *(f"fact {number}" for number in range(4))])
    await storage.delete(ids[:1])  # so the manifest counts the other four
    first = await whole(storage)
    copy_sparse(folder, tmp_path / "earlier")
    for step in between.split(" and "):
        if step == "store":
            await storage.store("fact 4")
        else:
            await storage.delete([first["fact 0"].id])
    second = await whole(storage)
    for part in older:
        for there in folder.glob(PARTS[part]):
            disk.remove(there)
        for earlier in (tmp_path / "earlier").glob(PARTS[part]):
            copy_sparse(earlier, folder / earlier.relative_to(tmp_path / "earlier"))
    try:
        found = await whole(storage)
    except DamagedStoreError:
        await repair(storage)
        found = await whole(storage)
    assert found.keys() >= first.keys() & second.keys()
    assert set(older) != {"journal"} or found == second
    if older != ("shard", "manifest"):
        assert "fact 0" not in found
    assert await storage.check() == []
