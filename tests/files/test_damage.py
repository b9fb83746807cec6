"""A damaged store is an error; memories never go missing silently.

There is no store of an earlier engine to open: 0.9 is the first that this project used.
"""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeStorage, whole
from memory_semantic import MemoryStorage, StorageError, upkeep
from memory_semantic.files import disk
from memory_semantic.files.edge import Shard
from store_files import copy_sparse, cut, empty, garble, in_a_child, remove, repair, zero

FACTS = [f"fact number {i}" for i in range(20)]


@pytest.fixture
async def database(make_storage: MakeStorage, root: Path) -> Path:
    await make_storage().store_many([(fact, ["tag"]) for fact in FACTS])
    return root / "sam/qdrant.db"


WHOLE = """{"format": 5, "agent": "sam", "engine": "qdrant-edge 0.9", "shard": "shard-1",
"embedding": ["local", "all-MiniLM-L6-v2 int8, wordllama 0.4", 640], "words": 2, "memories": 0,
"created": "2026-06-15T12:00:00Z"}"""


Harm = Callable[[Path], object]


def manifest(text: str) -> Harm:
    """Writes this one."""
    return lambda database: (database / "manifest.json").write_text(text)


def without_manifest_and_journal(database: Path) -> None:
    (database / "manifest.json").unlink()
    (database.parent / "memories.jsonl").unlink()


def without_version(database: Path) -> None:
    [version] = database.glob("shard-1/segments/*/version.info")
    version.unlink()


def without_configuration(database: Path) -> None:
    (database / "shard-1/edge_config.json").unlink()


def instead(old: str, new: str) -> Harm:
    """Writes one with this in place of that."""
    return manifest(WHOLE.replace(old, new))


REFUSED: list[tuple[Harm, str]] = [
    (without_manifest_and_journal, r"manifest.json; shard-1 holds 20 memories.*doctor"),
    (without_configuration, r"edge_config\.json is missing.*Nothing was changed"),
    (without_version, r"version\.info is missing.*Nothing was changed"),
    *(
        (manifest(torn), "is damaged.*doctor --repair")
        for torn in ("", "{", "[]", "null", "\0" * 200, "7")
    ),
    (instead("shard-1", "../../bob"), "is damaged"),
    (instead('"sam"', '"eve"'), "belongs to 'eve'.*Nothing was changed"),
    (instead("shard-1", "shard-7"), "its shard-7 is missing.*doctor"),
    (instead('t": 5', 't": 6'), "newer version.*Upgrade"),
    (instead("edge 0.9", "edge 0.10"), "written by.*doctor --repair"),
    (instead("edge 0.9", "edge 0.8"), "written by.*doctor --repair"),
    (instead('s": 0', 's": 21'), "20 of at least 21"),
]


@pytest.mark.parametrize("refused", REFUSED)
async def test_what_is_lost_torn_or_of_another_version_is_an_error_that_changes_nothing(
    make_storage: MakeStorage, database: Path, tmp_path: Path, refused: tuple[Harm, str]
) -> None:
    harm, said = refused
    copy_sparse(database.parent, tmp_path / "before")
    harm(database)
    for call in (make_storage().store("x"), make_storage().search("x"), make_storage().count()):
        with pytest.raises(StorageError, match=said):
            await call
    for name in ("memories.jsonl", "qdrant.db/manifest.json"):
        shutil.copy(tmp_path / "before" / name, database.parent / name)
    for name in ("version.info", "edge_config.json"):
        for file in (tmp_path / "before").glob(f"**/{name}"):
            shutil.copy(file, database.parent / file.relative_to(tmp_path / "before"))
    assert await make_storage().count() == 20 and await make_storage().check() == []


TAG, SINCE = {"tags": ["tag"]}, {"since": "2020-01-01"}
VECTORS = "vector_storage/vectors/status.dat"
LOST: list[tuple[str, dict[str, Any]]] = [
    *((VECTORS, only) for only in ({}, TAG, SINCE)),
    *(("payload_index/*/tracker.dat", only) for only in ({}, TAG)),
    *(("payload_storage/tracker.dat", only) for only in ({}, TAG)),
]


@pytest.mark.parametrize(("lost", "only"), LOST)
async def test_what_finds_less_than_there_is_is_damage_with_and_without_filters(
    make_storage: MakeStorage, database: Path, lost: str, only: dict[str, Any]
) -> None:
    await make_storage().store("one more")
    for path in database.glob(f"shard-1/segments/*/{lost}"):
        path.unlink() if lost == VECTORS else zero(path)
    if lost == VECTORS:
        with pytest.raises(StorageError, match="does not find all"):
            await make_storage().search("fact", **only)
        assert "its vector is not whole" in (await make_storage().check())[0]
    else:
        with pytest.raises(StorageError, match=r"damaged.*doctor --repair"):
            await make_storage().get_recent(21, **only)


def overwrite(path: Path) -> None:
    used = min(path.stat().st_size, 2 * 640 * 20)  # of the sparse files only the beginning is
    with path.open("r+b") as file:
        for place in (0, used // 2):
            file.seek(place)
            file.write(b"\xa5" * min(16, used))


async def answer(storage: MemoryStorage) -> str:
    try:
        full = (
            {memory.content for memory in await storage.search("fact", limit=20)} == set(FACTS)
            and {memory.content for memory in await storage.get_recent(100)} == set(FACTS)
            and (await storage.search(FACTS[7]))[0].content == FACTS[7]
            and await storage.count() == 20
        )
        return "full" if full else "seen by the check" if await storage.check() else "SILENT"
    except StorageError:
        return "an error"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "harm",
    [remove, cut, *(pytest.param(each, marks=pytest.mark.slow) for each in (empty, overwrite))],
)
def test_every_file_of_a_store_in_turn(
    make_storage: MakeStorage, root: Path, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """Each time: an error, or the full answer; of bytes that are wrong on purpose, the full check
    may see them. In a process for each, because nobody can promise what somebody else's engine does
    with them. It must not give a wrong answer that nothing ever notices.
    """
    storage = make_storage()
    asyncio.run(storage.store_many([(fact, ["tag"]) for fact in FACTS]))
    copy = tmp_path / "copy"
    copy_sparse(root, copy)
    files = sorted(path.relative_to(copy) for path in copy.rglob("*") if path.is_file())
    assert len(files) > 30
    outcomes: dict[str, list[str]] = {}
    for name in files:
        shutil.rmtree(root)
        copy_sparse(copy, root)
        harm(root / name)
        outcomes.setdefault(in_a_child(lambda: answer(storage)), []).append(str(name))
    seen = {"seen by the check"} if harm is overwrite else set[str]()
    assert {"full", "an error"} <= outcomes.keys() <= {"full", "an error"} | seen, outcomes


async def test_a_new_shard_that_lacks_a_memory_is_never_put_in_place(
    storage: MemoryStorage, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doomed = (await storage.get_recent(1))[0]
    fill = Shard.fill
    with monkeypatch.context() as patch:
        patch.setattr(Shard, "fill", lambda self, records: fill(self, records[1:]))
        with pytest.raises(StorageError, match=r"18 of 19 memories.*Nothing was changed"):
            await storage.delete([doomed.id])
    assert await storage.count() == 20
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
async def test_whatever_is_lost_a_repair_brings_everything_back(
    storage: MemoryStorage, root: Path, name: str, harm: Callable[[Path], None]
) -> None:
    """As long as the shard or the journal holds it, with its pin and its link."""
    ids = await storage.store_many(FACTS)
    await storage.pin(ids[:1])
    await storage.upsert(["a correction"], ids[1])
    before = await whole(storage)
    await storage.close()
    [harmed] = (root / "sam").glob(name)
    harm(harmed)
    await repair(storage)
    assert await whole(storage) == before and await storage.check() == []
    assert len(await storage.search("fact", limit=5)) == 5


async def test_a_copy_laid_over_another_brings_back_nothing_that_was_forgotten(
    make_storage: MakeStorage, storage: MemoryStorage, root: Path, tmp_path: Path
) -> None:
    here, there, both = await storage.store_many(["here", "there", "both"])
    await storage.close()
    copy_sparse(root, tmp_path / "copy")
    copy = make_storage(storage_root=str(tmp_path / "copy"))
    await copy.delete([here])
    await storage.delete([there])
    for each in (copy, storage):
        await each.close()
    shutil.copytree(copy.folder.path, storage.folder.path, dirs_exist_ok=True)
    with pytest.raises(StorageError, match=r"mix of two copies.*doctor"):
        await storage.count()
    await repair(storage)
    assert {each.id for each in await storage.get_recent()} == {there, both}


async def test_during_a_repair_no_other_store_is_made(
    make_storage: MakeStorage, database: Path
) -> None:
    def interrupted(*_: int) -> None:
        raise InterruptedError

    without_manifest_and_journal(database)
    sam = make_storage()
    plan = await upkeep.repair(sam.place, sam.config)
    with pytest.raises(InterruptedError):
        await plan.run(interrupted)
    with pytest.raises(StorageError, match="has lost its manifest"):
        await sam.store("another")
    await repair(sam)
    assert await sam.count() == len(FACTS)


async def test_a_model_on_this_machine_is_repaired_with_in_whatever_version(
    make_storage: MakeStorage, database: Path
) -> None:
    journal = database.with_name("memories.jsonl")
    journal.write_text(journal.read_text().replace("wordllama 0.4", "wordllama 0.3", 1))
    shutil.rmtree(database)
    sam = make_storage()
    await repair(sam)
    assert await sam.count() == len(FACTS)
