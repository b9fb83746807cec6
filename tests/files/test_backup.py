"""The readable backup: when it is written, what it holds, and that it holds nothing forgotten."""

import json
import logging
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from command import Command
from memory_semantic import DamagedStoreError, Memory, MemoryStorage, StorageError
from memory_semantic.files import disk
from memory_semantic.limits import BACKUP_LEAST
from memory_semantic.memory import utc_now
from plain_vectors import PlainVectors
from store_files import bytes_of, copy_sparse


@pytest.fixture
def plain(root: Path) -> MemoryStorage:
    """A store whose vectors take no time."""
    return MemoryStorage("sam", {"storage_root": str(root)}, embeddings=PlainVectors())


@pytest.fixture
def path(root: Path) -> Path:
    return root / "sam" / "backup.jsonl"


def texts(path: Path) -> list[str]:
    """What the backup holds, in its order; its first line tells the number."""
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["memories"] == len(lines) and header["agent"] == "sam"
    return [line["content"] for line in lines]


def alter(path: Path, **fields: Any) -> None:
    """Let the backup's first line say something else."""
    header, lines = path.read_text().split("\n", 1)
    path.write_text(json.dumps({**json.loads(header), **fields}) + "\n" + lines)


def age(path: Path, by: timedelta) -> None:
    """Let the backup be of another time."""
    alter(path, exported=str(utc_now() - by))


async def test_it_is_an_export_private_and_oldest_first(plain: MemoryStorage, path: Path) -> None:
    memories = await fill(plain, 3)
    assert path.stat().st_mode & 0o777 == 0o600
    assert texts(path) == [memory.content for memory in memories]
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["format"] == "agent-memory" and header["embedding"] == ["plain", None, 32]
    restored = [plain.memory_from(line)[0] for line in lines]
    assert [m.dict_for_storage() for m in restored] == [m.dict_for_storage() for m in memories]


async def fill(storage: MemoryStorage, number: int, what: str = "fact") -> list[Memory]:
    """Restore memories of different days, and return them, oldest first."""
    now = utc_now()
    memories = [
        Memory(
            agent_id="sam",
            content=f"{what} {i}",
            timestamp=now - timedelta(days=number - i),
            tags=["a", "ü"],
            metadata={"source": "a test"},
        )
        for i in range(number)
    ]
    await storage.restore(memories)
    await storage.close()
    return memories


async def test_it_is_renewed_by_age_and_by_growth(plain: MemoryStorage, path: Path) -> None:
    await fill(plain, 300)
    await plain.store("another")
    assert len(texts(path)) == 300  # neither a day old nor a tenth behind
    await fill(plain, 29, "more")
    assert len(texts(path)) == 330
    for days in (1.01, -1):  # a clock may have been wrong
        age(path, timedelta(days=days))
        await plain.search("fact")
        assert len(texts(path)) < 330 + (days < 0) + 1
        await plain.store(f"in {days} days")
        assert texts(path)[-1] == f"in {days} days"


async def test_a_small_store_is_not_backed_up_at_every_call(
    plain: MemoryStorage, path: Path
) -> None:
    for number in range(BACKUP_LEAST + 1):
        assert number == 0 or len(texts(path)) == 1
        await plain.store(f"fact {number}")
        await plain.close()
    assert len(texts(path)) == BACKUP_LEAST + 1


@pytest.mark.parametrize("harm", ["gone", "unreadable", "another agent's"])
async def test_a_search_writes_one_where_there_is_none(
    plain: MemoryStorage, path: Path, harm: str
) -> None:
    await fill(plain, 2)
    if harm == "gone":
        path.unlink()
    elif harm == "unreadable":
        path.write_bytes(b"\xff\n")
    else:
        alter(path, agent="eve")
    assert len(await plain.search("fact")) == 2
    await plain.close()
    assert texts(path) == ["fact 0", "fact 1"]


async def test_an_import_does_not_put_it_off(
    plain: MemoryStorage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While calls wait in line, one long visit serves them all."""
    monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 60)
    await fill(plain, 1)
    numbers = []
    for part in range(4):
        await plain.store_many([f"part {part}, {i}" for i in range(30)])
        numbers.append(len(texts(path)))
    assert numbers[-1] > 60
    await plain.close()


async def test_forgotten_memories_leave_it_before_they_leave_the_store(
    plain: MemoryStorage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = await fill(plain, 3)
    (path.parent / "backup.jsonl.tmp").write_text("fact 0")  # of an interrupted one

    def interrupted(*_: Any) -> None:
        raise OSError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr("memory_semantic.files.shard.Shard.delete", interrupted)
        with pytest.raises(StorageError, match="may or may not"):
            await plain.delete([first.id])
    assert texts(path) == ["fact 1", "fact 2"]
    assert not (path.parent / "backup.jsonl.tmp").exists()
    assert {memory.content for memory in await plain.get_recent()} == {"fact 0", "fact 1", "fact 2"}
    assert await plain.delete([first.id, second.id]) == 2
    await plain.close()
    assert texts(path) == ["fact 2"]
    assert b"fact 1" not in bytes_of(path.parent)


async def test_what_cannot_be_read_leaves_it_and_if_it_cannot_be_rewritten_so_does_all(
    plain: MemoryStorage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third, _ = await fill(plain, 4)
    path.write_bytes(path.read_bytes().replace(b'"fact 0"', b'"fact 0'))
    await plain.delete([first.id])  # the line may have been its
    assert texts(path) == ["fact 1", "fact 2", "fact 3"]

    write = disk.write_whole

    def full(file: Path, content: Any) -> None:
        if file == path:
            raise OSError(28, "No space left on device")
        write(file, content)

    monkeypatch.setattr(disk, "write_whole", full)
    await plain.delete([second.id])
    assert not path.exists() and b"fact 1" not in bytes_of(path.parent)
    path.mkdir()  # it can be neither rewritten nor removed
    with pytest.raises(StorageError, match="Nothing was changed"):
        await plain.delete([third.id])
    assert len(await plain.get_recent()) == 2


async def test_without_room_the_store_works_and_a_log_says_so(
    plain: MemoryStorage,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(folder: Path, size: int = 0) -> None:
        if folder == path.parent:
            raise StorageError("The disk is too full for 'fact 0'.")

    monkeypatch.setattr(disk, "require_space", full)
    with caplog.at_level(logging.WARNING):
        await fill(plain, 2)
    assert not path.exists() and len(await plain.get_recent()) == 2
    [record] = [record for record in caplog.records if "backup" in record.message]
    assert "'sam'" in record.message and "fact" not in record.message


def test_the_doctor_says_of_when_it_is(command: Command, path: Path) -> None:
    def said() -> dict[str, str]:
        return {each["subject"]: each for each in command.json("doctor")}["backup"]

    command.run("store", "fact")
    header = json.loads(path.read_text().splitlines()[0])
    assert said()["text"][3:13] == header["exported"][:10]
    path.unlink()
    path.mkdir()  # where none can be written
    assert said()["state"] == "warning" and "may write to" in said()["mend"]


async def test_what_only_the_backup_has_is_kept_there_and_noticed(
    plain: MemoryStorage, path: Path
) -> None:
    """An older copy of the store was put in its place, and has grown since."""
    await fill(plain, 2, "old")
    copy_sparse(path.parent / "qdrant.db", path.parent.parent / "earlier")
    await fill(plain, 30, "lost")
    shutil.rmtree(path.parent / "qdrant.db")
    (path.parent.parent / "earlier").rename(path.parent / "qdrant.db")
    with pytest.raises(DamagedStoreError, match=r"holds 2 of at least 32 memories.*doctor"):
        await plain.search("fact")
    age(path, timedelta(days=2))
    alter(path, memories=2)
    await plain.store("new")
    assert len(texts(path)) == 33


async def test_a_backup_without_a_store_is_a_lost_store(plain: MemoryStorage, path: Path) -> None:
    await fill(plain, 2)
    shutil.rmtree(path.parent / "qdrant.db")
    for call in (plain.store("the first"), plain.search("fact"), plain.count(), plain.info()):
        with pytest.raises(DamagedStoreError, match=r"2 memories.*doctor --repair.*Nothing"):
            await call
    assert len(texts(path)) == 2
    path.rename(path.with_name("elsewhere.jsonl"))
    await plain.store("the first of a new store")
    assert await plain.count() == 1
