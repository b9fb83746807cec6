"""A damaged store is an error; memories never go missing silently.

There is no store of an earlier engine to open: 0.9 is the first that this project used.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeStorage
from memory_semantic import StorageError
from store_files import copy_sparse, cut, empty, remove

FACTS = [f"fact number {i}" for i in range(20)]


@pytest.fixture
async def database(make_storage: MakeStorage, root: Path) -> Path:
    await make_storage().store_many([(fact, ["tag"]) for fact in FACTS])
    return root / "sam/qdrant.db"


async def test_a_lost_manifest_beside_memories_is_never_taken_for_an_empty_store(
    make_storage: MakeStorage, database: Path
) -> None:
    manifest = (database / "manifest.json").read_text()
    (database / "manifest.json").unlink()
    for call in (make_storage().store("x"), make_storage().search("x"), make_storage().count()):
        with pytest.raises(StorageError, match=r"there is a backup of .* but no manifest\.json"):
            await call
    backup = (database.parent / "backup.jsonl").rename(database.parent / "elsewhere")
    with pytest.raises(StorageError, match="shard-1, which holds 20 memories"):
        await make_storage().search("x")
    backup.rename(database.parent / "backup.jsonl")
    (database / "manifest.json").write_text(manifest)
    assert await make_storage().count() == 20


async def test_an_older_manifest_put_back_takes_nothing_away(
    make_storage: MakeStorage, database: Path
) -> None:
    storage = make_storage()
    older = (database / "manifest.json").read_text()
    memories = await storage.get_recent(20)
    await storage.delete([memories[0].id])
    newer = (database / "manifest.json").read_text()
    (database / "manifest.json").write_text(older)
    for _ in range(2):
        with pytest.raises(StorageError, match="shard-2, which holds 19 memories"):
            await storage.count()
    (database / "manifest.json").write_text(newer)
    assert await storage.count() == 19


@pytest.mark.parametrize("only", [{}, {"tags": ["tag"]}, {"since": "2020-01-01"}])
async def test_a_search_that_finds_no_vectors_is_damage_with_and_without_filters(
    make_storage: MakeStorage, database: Path, only: dict[str, Any]
) -> None:
    [status] = database.glob("shard-1/segments/*/vector_storage/vectors/status.dat")
    status.unlink()
    with pytest.raises(StorageError, match="does not find all"):
        await make_storage().search("fact", **only)
    assert "its vector has 0 numbers" in (await make_storage().check())[0]


async def test_the_full_check_of_a_whole_store(make_storage: MakeStorage, database: Path) -> None:
    assert await make_storage().check() == []
    assert await make_storage("nobody").check() == []


async def test_the_full_check_finds_overwritten_vectors_that_a_call_misses(
    make_storage: MakeStorage, database: Path
) -> None:
    [vectors] = database.glob("shard-1/segments/*/vector_storage/vectors/chunk_0.mmap")
    with vectors.open("r+b") as file:
        file.seek(2 * 256 * 3)
        file.write(b"\x11\x22" * 256)
    assert await make_storage().search("fact")
    [problem] = await make_storage().check()
    assert "vector is not whole" in problem


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}', "[]", "null", "\0" * 200, "7"])
async def test_a_torn_manifest(make_storage: MakeStorage, database: Path, text: str) -> None:
    (database / "manifest.json").write_text(text)
    for call in (make_storage().store("x"), make_storage().search("x"), make_storage().count()):
        with pytest.raises(StorageError, match="damaged"):
            await call


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("format", 5, "Upgrade"),
        ("format", 3, r"of an older version.*agent-memory doctor"),
        ("engine", "qdrant-edge 0.10", "doctor --repair"),
        ("engine", "qdrant-edge 0.8", "doctor --repair"),
    ],
)
async def test_a_store_of_another_format_or_engine_is_refused_with_the_remedy(
    make_storage: MakeStorage, database: Path, field: str, value: object, remedy: str
) -> None:
    manifest = json.loads((database / "manifest.json").read_text())
    text = json.dumps({**manifest, field: value})
    (database / "manifest.json").write_text(text)
    for call in (make_storage().store("x"), make_storage().search("x")):
        with pytest.raises(StorageError, match=remedy):
            await call
    assert (database / "manifest.json").read_text() == text


async def test_a_manifest_cannot_point_elsewhere(make_storage: MakeStorage, database: Path) -> None:
    manifest = json.loads((database / "manifest.json").read_text())
    (database / "manifest.json").write_text(json.dumps({**manifest, "shard": "../../bob"}))
    with pytest.raises(StorageError, match="damaged"):
        await make_storage().count()


async def test_fewer_memories_than_acknowledged_is_damage(
    make_storage: MakeStorage, database: Path
) -> None:
    manifest = json.loads((database / "manifest.json").read_text())
    (database / "manifest.json").write_text(json.dumps({**manifest, "memories": 21}))
    for call in (make_storage().store("x"), make_storage().search("x"), make_storage().count()):
        with pytest.raises(StorageError, match="20 of at least 21"):
            await call


async def test_more_memories_than_acknowledged_are_from_an_interrupted_write(
    make_storage: MakeStorage, database: Path
) -> None:
    manifest = json.loads((database / "manifest.json").read_text())
    (database / "manifest.json").write_text(json.dumps({**manifest, "memories": 19}))
    assert await make_storage().count() == 20
    assert json.loads((database / "manifest.json").read_text())["memories"] == 20


async def test_a_text_that_was_changed_on_disk_is_not_passed_off_as_the_memory(
    make_storage: MakeStorage, database: Path
) -> None:
    [pages] = database.glob("shard-1/segments/*/payload_storage/page_0.dat")
    text = pages.read_bytes()
    assert b"fact n" in text
    pages.write_bytes(text.replace(b"fact n", b"fakt n"))
    for call in (make_storage().search("fact", limit=20), make_storage().get_recent(20)):
        with pytest.raises(StorageError, match="not what was stored"):
            await call


@pytest.mark.parametrize("harm", [remove, empty, cut])
async def test_every_file_of_a_store_in_turn(
    make_storage: MakeStorage, database: Path, harm: Callable[[Path], None], tmp_path: Path
) -> None:
    """If it is missing, emptied or truncated: an error, or the full answer."""
    copy = tmp_path / "copy"
    copy_sparse(database, copy)
    files = sorted(path.relative_to(copy) for path in copy.rglob("*") if path.is_file())
    assert len(files) > 30
    silent = []
    for name in files:
        shutil.rmtree(database)
        copy_sparse(copy, database)
        harm(database / name)
        storage = make_storage()
        try:
            full = [
                await storage.count() == 20,
                {memory.content for memory in await storage.search("fact", limit=20)} == set(FACTS),
                len(await storage.get_recent(100)) == 20,
                (await storage.search(FACTS[7]))[0].content == FACTS[7],
            ]
        except StorageError:
            continue
        if not all(full):
            silent.append((str(name), full))
    assert silent == []


async def test_a_store_without_its_version_file_keeps_its_texts(
    make_storage: MakeStorage, database: Path
) -> None:
    [version] = database.glob("shard-1/segments/*/version.info")
    content = version.read_bytes()
    version.unlink()
    for call in (make_storage().search("x"), make_storage().store("x"), make_storage().count()):
        with pytest.raises(StorageError, match=r"version\.info is missing.*Nothing was changed"):
            await call
    version.write_bytes(content)
    assert await make_storage().count() == 20 and await make_storage().check() == []
