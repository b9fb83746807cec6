"""A full or unwritable disk is an error and does not crash the host."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import run

pytestmark = pytest.mark.slow

# Stores 2 MB at a time until the disk has no room, and says what it was told and what it has.
FILL = """
from plain_vectors import PlainVectors
async def main():
    storage = MemoryStorage("sam", {"storage_root": root}, embeddings=PlainVectors())
    stored = 0
    try:
        while True:
            text = os.urandom(4000).hex()
            await storage.store_many([f"{stored} {i} {text}" for i in range(250)])
            stored += 250
    except StorageError as error:
        print(json.dumps([stored, str(error)]))
asyncio.run(main())
"""

COUNT = """
from plain_vectors import PlainVectors
storage = MemoryStorage("sam", {"storage_root": root}, embeddings=PlainVectors())
print(asyncio.run(storage.count()), len(asyncio.run(storage.check())))
"""


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 110 MB. (Where mounting is not allowed these tests fail, and say so.)"""
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=110m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_fills_up(small_disk: Path) -> None:
    root = small_disk / "memory"
    stored, message = json.loads(run(root, FILL))
    assert stored > 0 and "MB left" in message and "Nothing was changed" in message
    with pytest.raises(AssertionError, match="MB left"):
        run(root, COUNT)
    subprocess.run(["mount", "-o", "remount,size=400m", small_disk], check=True)
    assert run(root, COUNT).split() == [str(stored), "0"]


def test_a_disk_that_cannot_be_written_to(small_disk: Path) -> None:
    root = small_disk / "memory"
    run(root, "asyncio.run(storage().store('x'))")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    script = """
for call in (storage().store("y"), storage("alice").store("y"), storage().search("x")):
    try:
        asyncio.run(call)
    except StorageError as error:
        print(error)
"""
    told = run(root, script).splitlines()
    assert len(told) == 3 and all("read-only" in line.lower() for line in told)
    assert all("Nothing was changed" in line for line in told)
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert run(root, "print(asyncio.run(storage().count()))") == "1\n"
    assert {path.name for path in root.iterdir()} == {"sam"}
