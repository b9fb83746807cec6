"""What a repair brings back: all up to the time of the backup, whatever befell the store, and the
number that it announces.

Each case in a process of its own, because nobody can promise what somebody else's engine does with
bytes that are wrong on purpose.
"""

import asyncio
import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from memory_semantic import MemoryStorage
from store_files import REPAIR, copy_sparse, cut, empty, garble, remove

# Before the backup, and after it: too few to make another one due.
EARLY = [f"an early fact, number {i}" for i in range(12)]
LATE = [f"a late fact, number {i}" for i in range(6)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A store whose backup is older than its last memories."""
    root = tmp_path / "base"
    storage = MemoryStorage("sam", {"storage_root": str(root), "embedding_model": "local"})

    async def fill() -> None:
        await storage.store_many(EARLY)
        await storage.close()
        await storage.store_many(LATE)
        await storage.close()

    asyncio.run(fill())
    return root


def repaired(base: Path, harmed: Path, harm: Callable[[Path], None], tmp_path: Path) -> str:
    """What a store, of which one file was harmed, is after the repair."""
    root = tmp_path / f"{harm.__name__} {harmed.name} {random.getrandbits(64)}"
    copy_sparse(base, root)
    harm(root / harmed)
    child = subprocess.run([*REPAIR, root], capture_output=True, timeout=300)
    assert child.returncode == 0, (harm, harmed, child.stderr)
    found, texts, faults, searched = json.loads(child.stdout)
    shutil.rmtree(root)
    assert faults == [] and searched == 5, (harm, harmed, faults)
    assert set(EARLY) <= set(texts) <= {*EARLY, *LATE}, (harm, harmed, texts)
    if found == "all well":
        assert len(texts) == len(EARLY) + len(LATE), (harm, harmed)
        return "unharmed"
    stored, there = re.findall(r"at least (\d+) that were stored, (\d+) will be there", found)[0]
    assert int(there) == len(texts) <= int(stored), (harm, harmed, found)
    return "all" if set(LATE) <= set(texts) else f"{len(set(LATE) & set(texts))} late ones"


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("qdrant.db/manifest.json", remove),
        ("**/payload_storage/page_0.dat", cut),
        ("**/mutable_id_tracker.mappings", garble),
        ("**/chunk_0.mmap", empty),
    ],
)
def test_a_store_comes_back(
    base: Path, tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    [file] = (base / "sam").glob(name)
    repaired(base, file.relative_to(base), harm, tmp_path)


def test_a_lost_store_comes_back_from_its_backup(base: Path, tmp_path: Path) -> None:
    assert repaired(base, Path("sam/qdrant.db"), shutil.rmtree, tmp_path) == "0 late ones"
