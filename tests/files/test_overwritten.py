"""Every file of a store overwritten in turn: an error, the full answer, or seen by the full check.

In a separate process for each file, because nobody can promise what somebody else's engine does
with bytes that are wrong on purpose. It must not give a wrong answer that nothing ever notices.
"""

import asyncio
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from memory_semantic import MemoryStorage
from plain_vectors import PlainVectors
from store_files import copy_sparse

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FACTS = [f"fact number {i}" for i in range(20)]

CHILD = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from memory_semantic import MemoryStorage, StorageError
from plain_vectors import PlainVectors
facts = set(json.loads(sys.argv[3]))
storage = MemoryStorage("sam", {"storage_root": sys.argv[2]}, embeddings=PlainVectors())
async def main():
    try:
        full = (
            {m.content for m in await storage.search("fact", limit=20)} == facts
            and {m.content for m in await storage.get_recent(100)} == facts
            and all([(await storage.search(fact))[0].content == fact for fact in sorted(facts)[:5]])
        )
        return "full answer" if full else "seen by the check" if await storage.check() else "SILENT"
    except StorageError:
        return "error"
print(asyncio.run(main()))
"""


def test_every_file_overwritten(tmp_path: Path) -> None:
    base = tmp_path / "base"
    storage = MemoryStorage("sam", {"storage_root": str(base)}, embeddings=PlainVectors())
    asyncio.run(storage.store_many([(fact, ["tag"]) for fact in FACTS]))
    files = sorted(path for path in base.rglob("*") if path.is_file() and path.stat().st_size)

    def outcome(number: int) -> tuple[str, str]:
        path = files[number]
        root = tmp_path / f"damaged {number}"
        copy_sparse(base, root)
        used = min(path.stat().st_size, 2 * 32 * 20)  # of the sparse files only the beginning is
        with (root / path.relative_to(base)).open("r+b") as file:
            for place in (0, used // 2):
                file.seek(place)
                file.write(b"\xa5" * min(16, used))
        command = [sys.executable, "-c", CHILD, Path(__file__).parents[1], root, json.dumps(FACTS)]
        child = subprocess.run(command, capture_output=True, text=True, timeout=150)
        told = child.stdout.strip() or f"died with {child.returncode}"
        shutil.rmtree(root)
        return told, str(Path(*path.parts[-3:]))

    outcomes: dict[str, list[str]] = {}
    with ThreadPoolExecutor(2) as pool:
        for told, name in pool.map(outcome, range(len(files))):
            outcomes.setdefault(told, []).append(name)
    print({told: len(names) for told, names in outcomes.items()})
    assert outcomes.keys() <= {"full answer", "seen by the check", "error"}, outcomes
