"""A repair reads every text that is still on disk, and none that was deleted or never stored.

A payload file begins as one large hole; its damage here is done to the part that holds something.
"""

import asyncio
import errno
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Clock
from memory_semantic import Memory, MemoryStorage
from memory_semantic.files.shard import Shard
from memory_semantic.maintenance.salvage import Salvaged
from memory_semantic.maintenance.salvage import salvage as read_files
from plain_vectors import PlainVectors
from store_files import copy_sparse, empty, remove

LONG = "".join(random.Random(1).choices("abcdefgh ijklmnop ÄÖÜ 漢字 🎉👩‍👩‍👧 ]}", k=9_000))
RENEWED = "a fact to renew"
FACTS = [f"fact {i:02} in words" for i in range(60)]
TOTAL = 64
BLOCK = 128


def open_storage(root: Path, clock: Clock) -> MemoryStorage:
    config = {"storage_root": str(root)}
    return MemoryStorage("sam", config, embeddings=PlainVectors(), clock=clock)


async def fill(root: Path) -> dict[str, Memory]:
    """Memories of every kind by id: stored after others were deleted, renewed, long."""
    clock = Clock()
    storage = open_storage(root, clock)
    await storage.store("deleted before all others")
    await storage.delete([memory.id for memory in await storage.get_recent(1)])
    await storage.store_many([(fact, ["tag"]) for fact in FACTS[:30]])
    clock.advance(minutes=1)
    await storage.store_many([(LONG, ["emoji 🎉"]), 'a "quoted" \\ line\n\u2028 of {"json": []}'])
    await storage.store_many([(fact, ["tag"]) for fact in FACTS[30:]])
    await storage.store("what is told of it comes last", ["tag"], {"project": '"]}"', "kind": "x"})
    for tags in (["first"], ["second"], ["third"], []):
        clock.advance(days=1)
        await storage.store(RENEWED, tags)
    memories = await storage.get_recent(100)
    await storage.close()
    return {memory.id: memory for memory in memories}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Memory]]:
    root = tmp_path_factory.mktemp("template")
    return root, asyncio.run(fill(root))


@pytest.fixture
def stored(template: tuple[Path, dict[str, Memory]]) -> dict[str, Memory]:
    return template[1]


@pytest.fixture
def shard(template: tuple[Path, dict[str, Memory]], root: Path) -> Path:
    """A copy of the template's shard in a separate store, to be damaged."""
    copy_sparse(template[0], root)
    return root / "sam/qdrant.db/shard-2"


def salvage(shard: Path, agent: str = "sam") -> Salvaged:
    """What the real `salvage` reads, after checking that it touches nothing in the folder."""
    before = state(shard)
    salvaged = read_files(shard, agent)
    assert state(shard) == before
    return salvaged


def state(shard: Path) -> dict[Path, tuple[int, ...]]:
    stats = {path: path.lstat() for path in shard.parent.rglob("*")}
    return {
        path: (stat.st_mode, stat.st_ino, stat.st_size, stat.st_blocks, stat.st_mtime_ns)
        for path, stat in stats.items()
    }


def by_id(salvaged: Salvaged) -> dict[str, Memory]:
    memories = {memory.id: memory for memory in salvaged.memories}
    assert len(memories) == len(salvaged.memories)
    return memories


def file(shard: Path, name: str) -> Path:
    [path] = shard.glob(f"segments/*/{name}")
    return path


PAGE = "payload_storage/page_0.dat"
MAPPINGS = "mutable_id_tracker.mappings"
VERSIONS = "mutable_id_tracker.versions"


def used(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


def halve(path: Path) -> None:
    os.truncate(path, used(path) // 2)


def clear(path: Path) -> None:
    size = path.stat().st_size
    empty(path)
    os.truncate(path, size)


def overwrite(path: Path) -> None:
    eighth = used(path) // 8
    with path.open("r+b") as opened:
        opened.seek(eighth)
        opened.write(random.Random(2).randbytes(6 * eighth))


def overwrite_all(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(max(used(path), BLOCK)))


def value(page: bytes | bytearray, fact: str) -> slice:
    """Where a short memory is, from the beginning of its block."""
    start = page.index(fact.encode()) // BLOCK * BLOCK
    return slice(start, page.index(b"]}", start) + 2)


def alter(path: Path, fact: str, whole: bytes, altered: bytes) -> None:
    page = bytearray(path.read_bytes())
    place = value(page, fact)
    assert page[place].count(whole) == 1
    page[place] = page[place].replace(whole, altered)
    path.write_bytes(page)


HARMS = pytest.mark.parametrize("harm", [remove, empty, halve, clear, overwrite, overwrite_all])
Harm = Callable[[Path], None]


async def test_every_memory_of_a_whole_store(shard: Path, stored: dict[str, Memory]) -> None:
    salvaged = salvage(shard)
    assert by_id(salvaged) == stored
    assert len(stored) == TOTAL and LONG in {memory.content for memory in stored.values()}
    assert (salvaged.unverified, salvaged.unreadable) == (0, 0)
    times = [memory.timestamp for memory in salvaged.memories]
    assert times == sorted(times) and len(set(times)) == 3  # of when they were last stored


async def test_not_a_byte_in_the_folder_changes(shard: Path) -> None:
    before = {path: path.read_bytes() for path in shard.rglob("*") if path.is_file()}
    read_files(shard, "sam")
    assert {path: path.read_bytes() for path in shard.rglob("*") if path.is_file()} == before


@HARMS
async def test_the_other_files_do_not_matter(
    shard: Path, stored: dict[str, Memory], harm: Harm
) -> None:
    others = [path for path in shard.rglob("*") if path.is_file()]
    for name in (PAGE, MAPPINGS, VERSIONS):
        others.remove(file(shard, name))
    assert len(others) > 30
    for path in others:
        harm(path)
    assert by_id(salvage(shard)) == stored
    harm(file(shard, VERSIONS))
    salvaged = salvage(shard)
    assert by_id(salvaged) == stored
    assert (salvaged.unverified, salvaged.unreadable) == (0, 0)


@HARMS
async def test_without_their_ids_memories_are_read_and_counted_as_unverified(
    shard: Path, stored: dict[str, Memory], harm: Harm
) -> None:
    harm(file(shard, MAPPINGS))
    salvaged = salvage(shard)
    assert by_id(salvaged) == stored
    some = harm in (halve, overwrite)
    assert 20 < salvaged.unverified < 60 if some else salvaged.unverified == TOTAL
    assert salvaged.unreadable == 0


async def test_with_all_ids_lost_and_their_number_too(
    shard: Path, stored: dict[str, Memory]
) -> None:
    file(shard, MAPPINGS).unlink()
    file(shard, VERSIONS).unlink()
    salvaged = salvage(shard)
    assert by_id(salvaged) == stored
    assert (salvaged.unverified, salvaged.unreadable) == (TOTAL, 0)


async def test_ids_are_found_behind_damaged_bytes(shard: Path, stored: dict[str, Memory]) -> None:
    path = file(shard, MAPPINGS)
    log = path.read_bytes()
    entries = [log[at : at + 17] for at in range(0, len(log), 21)]
    # What is left of an entry looks like the beginning of one, and so does a part of all others.
    numbered = [entry + (513 + i).to_bytes(4, "little") for i, entry in enumerate(entries)]
    path.write_bytes(b"\x02\0\0" + b"".join(numbered))
    assert salvage(shard).unverified == 0
    assert by_id(salvage(shard)) == stored


@HARMS
async def test_a_damaged_payload_file_gives_all_that_is_left(
    shard: Path, stored: dict[str, Memory], harm: Harm
) -> None:
    path = file(shard, PAGE)
    before = path.read_bytes()
    harm(path)
    after = path.read_bytes() if path.exists() else b""
    left = {fact for fact in FACTS if after[value(before, fact)] == before[value(before, fact)]}
    salvaged = salvage(shard)
    read = {memory.content for memory in salvaged.memories}
    assert read <= {memory.content for memory in stored.values()}
    assert read & set(FACTS) == left
    assert 10 < len(left) < 50 if harm in (halve, overwrite) else not read
    assert (salvaged.unverified, salvaged.unreadable) == (0, TOTAL - len(read))


@pytest.mark.parametrize("name", [MAPPINGS, VERSIONS])
async def test_after_the_engine_has_opened_a_store_whose_points_it_then_drops(
    shard: Path, stored: dict[str, Memory], name: str
) -> None:
    file(shard, name).unlink()
    opened = Shard(shard, words=False)
    assert opened.count() == 0
    opened.close()
    assert by_id(salvage(shard)) == stored


@pytest.mark.parametrize("lost", [[], [MAPPINGS], [MAPPINGS, VERSIONS]])
async def test_a_renewed_memory_is_read_in_its_newest_version_wherever_that_is(
    shard: Path, stored: dict[str, Memory], lost: list[str]
) -> None:
    for name in lost:
        file(shard, name).unlink()
    [memory] = [memory for memory in stored.values() if memory.content == RENEWED]
    assert memory.tags == ["first", "second", "third"]
    assert by_id(salvage(shard)) == stored
    path = file(shard, PAGE)
    page = path.read_bytes()
    starts = [match.start() // BLOCK * BLOCK for match in re.finditer(RENEWED.encode(), page)]
    versions = [page[start : start + 2 * BLOCK] for start in starts]
    assert len(versions) > 1 and all(version.count(b"]}") == 1 for version in versions)
    for start, version in zip(starts, reversed(versions), strict=True):
        page = page[:start] + version + page[start + 2 * BLOCK :]
    path.write_bytes(page)
    assert by_id(salvage(shard)) == stored


async def test_deleted_texts_do_not_come_back(
    shard: Path, stored: dict[str, Memory], root: Path, clock: Clock
) -> None:
    [gone] = [memory.id for memory in stored.values() if memory.content == RENEWED]
    await open_storage(root, clock).delete([gone])
    [after] = shard.parent.glob("shard-*")
    assert after != shard
    for name in (None, MAPPINGS, VERSIONS):
        if name:
            file(after, name).unlink()
        assert by_id(salvage(after)).keys() == stored.keys() - {gone}


@pytest.mark.parametrize("lost", [[], [VERSIONS]])
async def test_an_altered_text_is_left_out_and_counted(
    shard: Path, stored: dict[str, Memory], lost: list[str]
) -> None:
    alter(file(shard, PAGE), FACTS[7], b"fact", b"fakt")
    for name in lost:
        file(shard, name).unlink()
    salvaged = salvage(shard)
    assert by_id(salvaged) == {id: m for id, m in stored.items() if m.content != FACTS[7]}
    assert (salvaged.unverified, salvaged.unreadable) == (0, 1)


@pytest.mark.parametrize("lost", [[], [VERSIONS], [MAPPINGS]])
async def test_an_altered_version_of_a_known_text_is_no_separate_memory(
    shard: Path, stored: dict[str, Memory], lost: list[str]
) -> None:
    path = file(shard, PAGE)
    page = path.read_bytes()
    starts = [match.start() for match in re.finditer(RENEWED.encode(), page)]
    older = next(start for start in starts if b"2026-06-19T" not in page[start : start + BLOCK])
    path.write_bytes(page[:older] + b"b" + page[older + 1 :])
    for name in lost:
        file(shard, name).unlink()
    salvaged = salvage(shard)
    assert by_id(salvaged) == stored
    assert salvaged.unreadable == 0


@pytest.mark.parametrize(
    ("whole", "altered"),
    [
        (b'"mem-', b'"mum-'),
        (b'"timestamp', b'"timestomp'),
        (b"2026-06-15T", b"2026-06-15 "),
        (b'"fact', b'" act'),
        (b'["tag"', b'["Tag"'),
        (b'sam","content', b'sum","content'),
        (b'ags":[', b'ags":{'),
        (b"words", b"word\xff"),
    ],
)
async def test_what_is_not_in_the_form_of_a_stored_memory_is_left_out(
    shard: Path, stored: dict[str, Memory], whole: bytes, altered: bytes
) -> None:
    file(shard, MAPPINGS).unlink()
    alter(file(shard, PAGE), FACTS[7], whole, altered)
    salvaged = salvage(shard)
    assert by_id(salvaged) == {id: m for id, m in stored.items() if m.content != FACTS[7]}
    assert salvaged.unreadable == 1


async def test_any_bytes_in_a_payload_file(shard: Path, stored: dict[str, Memory]) -> None:
    """Nothing but stored texts is read, and nothing raises, whatever some bytes become."""
    contents = {memory.content for memory in stored.values()}
    path = file(shard, PAGE)
    whole = path.read_bytes().rstrip(b"\0")
    source, numbers = random.Random(4), set()
    for _ in range(200):
        page = bytearray(whole)
        at = source.randrange(len(page))
        page[at : at + 3] = source.randbytes(source.choice([0, 1, 3, 30]))
        path.write_bytes(page)
        salvaged = read_files(shard, "sam")
        assert {memory.content for memory in salvaged.memories} <= contents
        assert len(salvaged.memories) + salvaged.unreadable == TOTAL
        numbers.add(len(salvaged.memories))
    assert {TOTAL - 1, TOTAL} < numbers  # bytes that are put in or taken out move all that follows


async def test_a_value_that_continues_on_the_next_page(
    shard: Path, stored: dict[str, Memory]
) -> None:
    path = file(shard, PAGE)
    page = path.read_bytes()
    middle = page.index(LONG[4_000:4_003].encode()) // BLOCK * BLOCK
    path.with_name("page_1.dat").write_bytes(page[middle:])
    os.truncate(path, middle)
    assert by_id(salvage(shard)) == stored
    path.with_name("page_1.dat").unlink()
    assert LONG not in {memory.content for memory in salvage(shard).memories}


async def test_a_sector_that_the_disk_has_lost(
    shard: Path, stored: dict[str, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pread = file(shard, PAGE), os.pread
    assert used(path) > 2 * 4096

    def pread_with_a_hole(opened: int, length: int, at: int) -> bytes:
        if at == 0 and os.fstat(opened).st_ino == path.stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")
        return pread(opened, length, at)

    monkeypatch.setattr(os, "pread", pread_with_a_hole)
    salvaged = salvage(shard)
    assert 0 < len(salvaged.memories) < TOTAL
    assert all(stored[id] == memory for id, memory in by_id(salvaged).items())
    assert len(salvaged.memories) + salvaged.unreadable == TOTAL


async def test_memories_of_another_agent_are_not_taken(shard: Path) -> None:
    assert salvage(shard, "bob") == Salvaged([], unverified=0, unreadable=TOTAL)


async def test_a_folder_without_a_shard(tmp_path: Path) -> None:
    assert read_files(tmp_path / "shard-1", "sam") == Salvaged([], 0, 0)
