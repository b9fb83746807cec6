"""Where stores are, who may read them there, and what is never used or removed."""

import asyncio
import errno
import json
import os
import pwd
import random
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeStorage
from memory_semantic import EmbeddingGenerator, MemoryStorage, StorageError
from processes import run
from store_files import OF_A_STORE


def modes(folder: Path) -> set[str]:
    return {
        f"{'folder' if path.is_dir() else 'file'} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in (folder, *folder.rglob("*"))
    }


async def test_the_layout(make_storage: MakeStorage, root: Path) -> None:
    await make_storage().store("x")
    assert {path.name for path in root.iterdir()} == {"sam"}
    assert {path.name for path in (root / "sam").iterdir()} == OF_A_STORE
    assert (root / "sam/.gitignore").read_text() == "*\n"
    names = {path.name for path in (root / "sam/qdrant.db").iterdir()}
    assert names == {"manifest.json", "queue", "lock", "shard-1"}
    manifest = json.loads((root / "sam/qdrant.db/manifest.json").read_text())
    created = manifest.pop("created")
    assert created.endswith("Z")
    assert manifest == {
        "format": 5,
        "agent": "sam",
        "engine": "qdrant-edge 0.9",
        "embedding": ["local", "wordllama 0.4", 256],
        "endpoint": None,
        "shard": "shard-1",
        "memories": 0,  # when the shard was put in place
        "words": 1,
    }


def test_by_default_it_is_under_the_current_home_and_without_one_in_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert MemoryStorage("sam").config.storage_root == f"{tmp_path}/.amplifier/memory"
    monkeypatch.delenv("HOME")
    own = pwd.getpwuid(os.getuid()).pw_dir
    assert MemoryStorage("sam").config.storage_root == f"{own}/.amplifier/memory"


@pytest.mark.parametrize("umask", ["0o000", "0o022", "0o077"])
def test_only_the_owner_may_read_whatever_the_umask(root: Path, umask: str) -> None:
    script = f"""
async def main():
    await storage().store("x")
    memory_id = await storage().store("y")
    await storage().delete([memory_id])
    await storage().search("x")
os.umask({umask})
asyncio.run(main())
print(oct(os.umask(0)))
"""
    assert run(root, script).strip() == oct(int(umask, 8))
    assert modes(root / "sam") == {"folder 700", "file 600"}
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


async def test_a_root_may_be_a_link_but_an_agent_folder_may_not(
    make_storage: MakeStorage, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    root.symlink_to(tmp_path / "real")
    await make_storage().store("x")
    (root / "bob").symlink_to(root / "sam")
    for call in (make_storage("bob").store, make_storage("bob").search):
        with pytest.raises(StorageError, match=r"is a link.*Put the folder itself"):
            await call("y")
    (root / "carol").touch()
    with pytest.raises(StorageError, match="is a file"):
        await make_storage("carol").store("z")


async def test_a_root_that_all_may_write_to_is_refused_any_other_left_alone_and_a_folder_tightened(
    storage: MemoryStorage, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(StorageError, match="Every user"):
        await storage.store("x")
    assert list(root.iterdir()) == []
    root.chmod(0o1777)
    assert await storage.store("x")
    (root / "sam").chmod(0o755)
    await storage.search("x")
    assert stat.S_IMODE((root / "sam").stat().st_mode) == 0o700
    assert stat.S_IMODE(root.stat().st_mode) == 0o1777
    assert "Tightened" in caplog.text


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user's folder")
async def test_folders_of_other_users_are_refused(make_storage: MakeStorage, root: Path) -> None:
    root.mkdir()
    os.chown(root, 12345, 12345)
    with pytest.raises(StorageError, match="another user"):
        await make_storage().store("x")
    os.chown(root, 0, 0)
    await make_storage().store("x")
    os.chown(root / "sam", 12345, 12345)
    with pytest.raises(StorageError, match="another user") as told:
        await make_storage().store("y")
    assert "Remove" not in str(told.value) and "uid 12345" in str(told.value)
    [advice] = re.findall("`sudo (.*)`", str(told.value))
    subprocess.run(advice, shell=True, check=True)
    assert await make_storage().count() == 1


async def test_rejects_a_root_that_cannot_be_a_folder(
    make_storage: MakeStorage, tmp_path: Path
) -> None:
    (tmp_path / "a file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("a file", "loop", "x" * 5000, "/dev/null"):
        storage = make_storage(storage_root=str(tmp_path / name))
        for call in (storage.store("x"), storage.search("x"), storage.count()):
            with pytest.raises(StorageError, match="Nothing was changed"):
                await call


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
async def test_a_file_system_without_locks(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    await storage.store("x")
    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(StorageError, match=r"no locks. Move .* disk. Nothing was changed.$"):
        await storage.store("y")
    monkeypatch.undo()
    assert await storage.count() == 1


async def test_other_products_in_the_same_root_are_left_alone(
    make_storage: MakeStorage, root: Path
) -> None:
    (root / "events").mkdir(parents=True)
    (root / "events").chmod(0o755)
    (root / "events/2026.jsonl").write_text("{}")
    (root / "MEMORY.md").write_text("# theirs")
    assert await make_storage("events").search("x") == []
    assert await make_storage("sam").store("x")
    assert (root / "events/2026.jsonl").read_text() == "{}"
    assert stat.S_IMODE((root / "events").stat().st_mode) == 0o755
    assert {path.name for path in (root / "events").iterdir()} == {"2026.jsonl"}


THEIRS = ["notes.txt", "draft.tmp", "shard-1.bak", "shard-copy-2", "meta.json", "collection"]


async def test_files_of_others_beside_a_store_refuse_nothing_and_stay(
    make_storage: MakeStorage, root: Path
) -> None:
    places = [root / "sam/qdrant.db" / name for name in THEIRS]
    places += [root / "sam" / name for name in [*THEIRS, ".gitignore"]]
    (root / "sam/qdrant.db").mkdir(parents=True)
    for place in places:
        place.write_text("theirs")
    storage = make_storage()
    assert await storage.search("x") == []
    forgotten = await storage.store("x")
    assert await storage.store("y") and await storage.delete([forgotten]) == 1
    assert await storage.check() == [] and await storage.count() == 1
    (root / "sam/qdrant.db/manifest.json").unlink()
    with pytest.raises(StorageError, match="has lost its manifest"):
        await storage.store("z")
    assert {place.read_text() for place in places} == {"theirs"}


def half_removed(database: Path, sound: Path) -> None:
    (database / "shard-1/segments/x").mkdir(parents=True)


def half_created(database: Path, sound: Path) -> None:
    shutil.copytree(sound / "shard-2", database / "shard-1.tmp")
    (database / "manifest.json.tmp").write_text("{")


def gitignore_begun(database: Path, sound: Path) -> None:
    database.mkdir(parents=True)
    (database.parent / ".gitignore.tmp").touch()


def not_named_by_the_manifest(database: Path, sound: Path) -> None:
    shutil.copytree(sound, database)
    manifest = (database / "manifest.json").read_text()
    (database / "manifest.json").write_text(manifest.replace('"other"', '"sam"'))
    shutil.copytree(database / "shard-2", database / "shard-3")


@pytest.mark.parametrize(
    "leave", [half_removed, half_created, gitignore_begun, not_named_by_the_manifest]
)
async def test_what_an_interruption_left_is_in_nobodys_way_and_cleared(
    make_storage: MakeStorage, root: Path, leave: Callable[[Path, Path], None]
) -> None:
    emptied = make_storage("other")
    await emptied.delete([await emptied.store("x")])  # so its shard is the second
    database = root / "sam/qdrant.db"
    leave(database, root / "other/qdrant.db")
    assert await make_storage().search("x") == []
    assert await make_storage().store("y")
    names = {path.name for path in database.iterdir()}
    assert len(names) == 4 and {"manifest.json", "queue", "lock"} < names
    assert {path.name for path in (root / "sam").iterdir()} <= OF_A_STORE
    assert await make_storage().count() == 1


async def test_after_kills_inside_a_flush_nothing_that_is_acknowledged_was_skipped(
    make_storage: MakeStorage, root: Path
) -> None:
    """The engine's count of its operations is the last file of a flush. With an older one, it takes
    the next operations for those that it has seen.
    """
    storage = make_storage()
    memory_id = await storage.store("We deploy on Fridays.")
    await storage.close()
    [last_written] = root.glob("sam/qdrant.db/shard-1/segments/*/segment.json")
    older = last_written.read_bytes()
    for again in ("a", "b", "c"):
        await storage.store("We deploy on Fridays.", [again])
    await storage.close()
    last_written.write_bytes(older)
    await storage.store("We deploy on Fridays.", ["d"])
    found = await storage.get(memory_id)
    assert found and found.tags == ["a", "b", "c", "d"]
    await storage.close()
    last_written.write_bytes(older)
    assert await storage.delete([memory_id]) == 1
    assert await storage.get(memory_id) is None


async def test_nothing_is_written_into_a_store_that_is_being_deleted_after_a_burst(
    make_storage: MakeStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 30)
    storage = make_storage()
    for number in range(4):
        await storage.store(f"fact {number}")

    def written() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*"))

    (root / "sam/qdrant.db/queue").unlink()
    before = written()
    await asyncio.sleep(0.2)
    assert written() == before
    shutil.rmtree(root)
    await storage.close()
    assert not root.exists()


async def test_a_disk_that_is_nearly_full_is_an_error_before_anything_is_opened(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storage.store("x")
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10 * 2**20))
    for call in (storage.store("y"), storage.search("x")):
        with pytest.raises(StorageError, match=r"mounted at /\S* is too full.*Nothing was changed"):
            await call
    monkeypatch.undo()
    assert await storage.count() == 1


async def test_a_store_that_is_deleted_while_a_text_is_embedded_is_not_made_again(
    make_storage: MakeStorage, root: Path, server: Any
) -> None:
    storage = make_storage(embedding_model="m", base_url=server.base_url)
    await storage.store("x")

    def delete_first(request: dict[str, Any]) -> Any:
        shutil.rmtree(root / "sam")
        return server.vectors(request)

    server.script.append(delete_first)
    with pytest.raises(StorageError, match="Nothing was changed"):
        await storage.store("y")
    assert not (root / "sam").exists()


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="Linux tells what is read from disk")
async def test_cached_files_are_not_read_from_disk_again(root: Path) -> None:
    class Wide(EmbeddingGenerator):
        async def _embed(self, texts: list[str]) -> list[list[float]]:
            numbers = (random.Random(text).randbytes(1536) for text in texts)
            return [[float(byte) - 127 for byte in each] for each in numbers]

    def bytes_read() -> int:
        [line] = re.findall(r"^read_bytes: (\d+)", Path("/proc/self/io").read_text(), re.MULTILINE)
        return int(line)

    storage = MemoryStorage("sam", {"storage_root": str(root)}, embeddings=Wide(dimensions=1536))
    await storage.store_many([f"Memory {number}" for number in range(1000)])
    await storage.search("once")
    before = bytes_read()
    await storage.search("again")
    await storage.search("again", since="2020-01-01")
    assert bytes_read() - before < 1_000_000  # of 3 MB
