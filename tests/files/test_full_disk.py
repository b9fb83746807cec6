"""A full or unwritable disk is an error and does not crash the host."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import run

pytestmark = pytest.mark.slow

PLAIN = """
import logging
from plain_vectors import PlainVectors
logging.disable()  # there is no room for the journal either
config = {"storage_root": root, "mask_secrets": False}  # much text, and nothing to mask in it
storage = MemoryStorage("sam", config, embeddings=PlainVectors())
"""
# Stores 2 MB at a time until the disk has no room, and says what it was told and what it has.
FILL = f"""{PLAIN}
async def main():
    stored = 0
    try:
        while True:
            text = os.urandom(4000).hex()
            await storage.store_many([f"{{stored}} {{i}} {{text}}" for i in range(250)])
            stored += 250
    except StorageError as error:
        print(json.dumps([stored, str(error)]))
asyncio.run(main())
"""
COUNT = f"""{PLAIN}
print(asyncio.run(storage.count()), len(asyncio.run(storage.check())))
"""
FORGET = f"""{PLAIN}
[memory] = asyncio.run(storage.get_recent(1))
try:
    print(asyncio.run(storage.delete([memory.id])))
except StorageError as error:
    print(error)
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


def test_a_disk_that_fills_up_and_that_forgetting_needs_room_to_write_the_store_again(
    small_disk: Path,
) -> None:
    root = small_disk / "memory"
    stored, message = json.loads(run(root, FILL))
    assert stored > 0 and "MB there" in message and f"mounted at {small_disk} is" in message
    assert "Nothing was changed" in message
    with pytest.raises(AssertionError, match="MB there"):
        run(root, COUNT)
    subprocess.run(["mount", "-o", "remount,size=400m", small_disk], check=True)
    assert run(root, COUNT) == f"{stored} 0\n"

    free = shutil.disk_usage(small_disk).free
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - 68_000_000)
    told = run(root, FORGET)  # before anything is changed
    assert "68.0 MB are free" in told and told.endswith("Nothing was changed.\n")
    assert re.search("67.1 MB to use a store on it safely, and [0-9.]+ MB to write the store", told)
    assert run(root, COUNT) == f"{stored} 0\n"
    ballast.unlink()
    assert run(root, FORGET) == "1\n" and run(root, COUNT) == f"{stored - 1} 0\n"


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
