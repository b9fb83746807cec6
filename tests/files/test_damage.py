"""A damaged store is an error; memories never go missing silently.

There is no store of an earlier engine to open: 0.9 is the first that this project used.
"""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command
from conftest import MakeStorage
from memory_semantic import MemoryStorage, StorageError
from memory_semantic.files import disk
from memory_semantic.files.edge import Shard
from store_files import copy_sparse, cut, empty, garble, remove, zero

FACTS = [f"fact number {i}" for i in range(20)]


@pytest.fixture
async def database(make_storage: MakeStorage, root: Path) -> Path:
    await make_storage().store_many([(fact, ["tag"]) for fact in FACTS])
    return root / "sam/qdrant.db"


async def test_a_lost_manifest_beside_memories_is_never_taken_for_an_empty_store(
    make_storage: MakeStorage, database: Path
) -> None:
    manifest = (database / "manifest.json").rename(database / "elsewhere")
    journal = (database.parent / "memories.jsonl").rename(database / "its journal")
    for call in (make_storage().store("x"), make_storage().search("x"), make_storage().count()):
        with pytest.raises(StorageError, match=r"manifest.json; shard-1 holds 20 memories.*doctor"):
            await call
    journal.rename(database.parent / "memories.jsonl")
    manifest.rename(database / "manifest.json")
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
        with pytest.raises(StorageError, match="its shard-1 is missing"):
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
    assert "its vector is not whole" in (await make_storage().check())[0]


@pytest.mark.parametrize("lost", ["payload_index/*/tracker.dat", "payload_storage/tracker.dat"])
@pytest.mark.parametrize("only", [{}, {"tags": ["tag"]}])
async def test_a_list_that_has_lost_its_index_or_what_is_filtered_is_damage(
    make_storage: MakeStorage, database: Path, only: dict[str, Any], lost: str
) -> None:
    await make_storage().store("one more")
    for path in database.glob(f"shard-1/segments/*/{lost}"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(StorageError, match=r"damaged.*doctor --repair"):
        await make_storage().get_recent(21, **only)


WHOLE = """{"format": 5, "agent": "sam", "engine": "qdrant-edge 0.9", "shard": "shard-1",
"embedding": ["local", "wordllama 0.4", 256], "words": 1, "memories": 0,
"created": "2026-06-15T12:00:00Z"}"""
MANIFESTS = {
    **dict.fromkeys(["", "{", "[]", "null", "\0" * 200, "7"], "is damaged.*doctor --repair"),
    WHOLE.replace("shard-1", "../../bob"): "is damaged",
    WHOLE.replace("shard-1", "shard-7"): "its shard-7 is missing.*doctor",
    WHOLE.replace('t": 5', 't": 6'): "newer version.*Upgrade",
    WHOLE.replace("edge 0.9", "edge 0.10"): "written by.*doctor --repair",
    WHOLE.replace("edge 0.9", "edge 0.8"): "written by.*doctor --repair",
    WHOLE.replace('words": 1', 'words": 2'): "words of version 2.*only.*version 1.*doctor --repair",
    WHOLE.replace('s": 0', 's": 21'): "20 of at least 21",
}


@pytest.mark.parametrize("text", MANIFESTS, ids=range(len(MANIFESTS)))
async def test_a_manifest_cannot_point_elsewhere_be_torn_of_another_version_or_promise_more(
    make_storage: MakeStorage, database: Path, text: str
) -> None:
    (database / "manifest.json").write_text(text)
    for call in (make_storage().store("x"), make_storage().search("x"), make_storage().count()):
        with pytest.raises(StorageError, match=MANIFESTS[text]):
            await call
    assert (database / "manifest.json").read_text() == text
    (database / "manifest.json").write_text(WHOLE)
    assert await make_storage().count() == 20


@pytest.mark.parametrize("harm", [remove, empty, cut])
async def test_every_file_of_a_store_in_turn(
    make_storage: MakeStorage, database: Path, harm: Callable[[Path], None], tmp_path: Path
) -> None:
    """If it is missing, emptied or truncated: an error, or the full answer. Slow: over 30."""
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


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_new_shard_that_lacks_a_memory_is_never_put_in_place(
    make_storage: MakeStorage,
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
    lost: int,
) -> None:
    storage = make_storage()
    [doomed, *others] = await storage.get_recent(20)
    fill = Shard.fill
    monkeypatch.setattr(Shard, "fill", lambda self, records: fill(self, records[lost:]))
    if lost:
        with pytest.raises(StorageError, match=r"18 of 19 memories.*Nothing was changed"):
            await storage.delete([doomed.id])
    else:
        assert await storage.delete([doomed.id]) == 1
    monkeypatch.undo()
    assert len(await storage.get_recent(20)) == len(others) + lost
    assert await storage.check() == [] and len(list(database.glob("shard*"))) == 1


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("qdrant.db", disk.remove),
        ("qdrant.db/shard-1", disk.remove),
        *(("qdrant.db/manifest.json", harm) for harm in (remove, zero, garble)),
        *(("memories.jsonl", harm) for harm in (remove, cut, zero, garble)),
        ("**/payload_storage/page_0.dat", garble),
        *(("**/mutable_id_tracker.mappings", harm) for harm in (cut, garble)),
        ("**/segment.json", zero),
    ],
)
def test_whatever_is_lost_a_repair_brings_everything_back(
    command: Command, storage: MemoryStorage, root: Path, name: str, harm: Callable[[Path], None]
) -> None:
    """As long as the shard or the journal holds it, with its pin and its link."""
    asyncio.run(storage.store_many(FACTS))
    rule = asyncio.run(storage.get_recent(1))[0].id
    asyncio.run(storage.pin([rule]))
    asyncio.run(storage.upsert(["a correction"], asyncio.run(storage.get_recent(2))[1].id))
    before = {m.key: m.dict_for_storage() for m in asyncio.run(storage.get_recent(None))}
    asyncio.run(storage.close())
    [harmed] = (root / "sam").glob(name)
    harm(harmed)
    said = " ".join(command.run("doctor", "--repair", "--yes").stderr.split())
    assert "21 will be there" in said or "nothing that a repair could fix" in said
    after = {m.key: m.dict_for_storage() for m in asyncio.run(storage.get_recent(None))}
    assert after == before and asyncio.run(storage.check()) == []
    assert len(asyncio.run(storage.search("fact", limit=5))) == 5
