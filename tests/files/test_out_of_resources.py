"""Out of descriptors, memory or room on the disk: reported as such, and not as damage."""

import asyncio
import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command
from conftest import MakeStorage
from memory_semantic.errors import shortage
from memory_semantic.limits import WORKERS
from processes import run


def test_a_lack_of_descriptors_is_named(command: Command, make_storage: MakeStorage) -> None:
    storage, stored, perhaps = make_storage(), {"fact"}, set[str]()
    failed = 0
    asyncio.run(storage.store("fact"))
    for number in (6, 8, 12):
        result = command.limited(f"-n {number}", "store", f"fact {number}")
        if result.returncode == 0:
            stored.add(f"fact {number}")
            continue
        failed += 1
        perhaps |= {f"fact {number}"} if "may or may not" in result.stderr else set()
        assert "Too many open files" in result.stderr and "ulimit -n" in result.stderr
        assert "damaged" not in result.stderr
        result = command.limited(f"-n {number}", "doctor", "--repair", "--yes")
        assert "damaged" not in result.stdout and " --repair" not in result.stdout
    assert failed and asyncio.run(storage.check()) == []
    found = {m.content for m in asyncio.run(storage.get_recent(None))}
    assert stored <= found <= stored | perhaps


def test_no_room_for_the_file_of_a_new_store(command: Command) -> None:
    result = command.limited("-f 1000", "store", "fact")
    assert result.returncode == 1 and "File too large" in result.stderr
    assert "Nothing was changed" in result.stderr and "damaged" not in result.stderr
    command.run("store", "fact")


def test_what_an_error_lacks() -> None:
    errors: list[tuple[Exception, int | None]] = [
        (OSError(errno.EMFILE, "x"), errno.EMFILE),
        (OSError(errno.ENOENT, "x"), None),
        (MemoryError(), errno.ENOMEM),
        (RuntimeError("can't start new thread"), errno.EAGAIN),
        (RuntimeError("Something else"), None),
        (Exception("IO Error: Too many open files (os error 24)"), errno.EMFILE),
        (Exception("called `unwrap()` on an `Err`: Os { code: 12, kind: Other }"), errno.ENOMEM),
        (ImportError("libz.so: " + os.strerror(errno.ENOMEM)), errno.ENOMEM),
    ]
    for error, number in errors:
        lacking = f"({errno.errorcode[number]}). " if number else ""
        assert lacking in shortage(error) and bool(lacking) == bool(shortage(error)), error
        try:
            raise ValueError from error
        except ValueError as wrapping:
            assert shortage(wrapping) == shortage(error)


def test_calls_leave_no_thread_or_descriptor_behind_and_many_agents_need_few(root: Path) -> None:
    output = run(
        root,
        """
import resource, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
def count():
    ours = threading.active_count()  # the others are those of numpy and of the engine
    return len(os.listdir("/proc/self/fd")), ours, len(os.listdir("/proc/self/task")) - ours
async def close(agents):
    await asyncio.gather(*(agent.close() for agent in agents))
    await asyncio.sleep(0.2)  # the engine's threads end a moment after the call
async def main():
    agents = [storage(f"agent-{number}") for number in range(12)]
    await asyncio.gather(*(agent.store("x") for agent in agents))
    assert all(await asyncio.gather(*(agent.search("x") for agent in [*agents, *agents])))
    await close(agents)
    before = count()
    for i in range(40):
        await agents[0].search("x")
    await close(agents)
    print(json.dumps([before, count()]))
asyncio.run(main())
""",
    )
    (descriptors, _, others), (descriptors_after, ours, others_after) = json.loads(output)
    assert descriptors_after == descriptors
    assert ours <= 1 + WORKERS  # an idle worker may be used again before all were started
    assert others_after <= others


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


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 110 MB. (Where mounting is not allowed these tests fail, and say so.)"""
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=110m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_disk_that_fills_up(small_disk: Path) -> None:
    root = small_disk / "memory"
    stored, message = json.loads(run(root, FILL))
    for words in ("B there by deleting", f"mounted at {small_disk} is", "Nothing was changed"):
        assert stored > 0 and words in message
    with pytest.raises(AssertionError, match="B there by deleting"):
        run(root, COUNT)
    subprocess.run(["mount", "-o", "remount,size=400m", small_disk], check=True)
    assert run(root, COUNT) == f"{stored} 0\n"
