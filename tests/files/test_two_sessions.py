"""Several at once on one store: tasks and processes; cancelled, waiting."""

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import MakeStorage
from memory_semantic import StorageError
from memory_semantic.files import disk
from memory_semantic.files.door import take_lock
from memory_semantic.limits import WORKERS
from processes import finish, release, run, start


def test_processes_that_create_the_store_at_the_same_moment(root: Path) -> None:
    at_once = """
asyncio.run(storage(f"warm-up-{os.getpid()}").store("x"))
print("ready", flush=True)
sys.stdin.readline()
asyncio.run(storage().store("x"))
"""
    processes = [start(root, at_once) for _ in range(4)]
    release(processes)
    for process in processes:
        finish(process)
    assert (root / "sam" / ".gitignore").read_text() == "*\n"


def test_a_folder_that_several_remove_at_once_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "old.tmp"
    for number in range(300):
        (folder / str(number) / "deeper").mkdir(parents=True)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(disk.remove, [folder] * 4)) == [None] * 4
    assert not folder.exists()


HOLD = """
from memory_semantic.files.door import take_lock
import pathlib, threading, time
with take_lock(pathlib.Path(root, "sam", "qdrant.db"), time.monotonic() + 5):
    print("held", flush=True)
    sys.stdin.readline()
"""


async def test_a_lock_that_is_held_too_long_is_an_error_that_names_the_holder(
    root: Path, make_storage: MakeStorage
) -> None:
    await make_storage().store("x")
    holder = start(root, HOLD)
    assert holder.stdout and holder.stdout.readline() == "held\n"
    waiting = asyncio.create_task(make_storage().store("z"))
    in_use = rf"process {holder.pid}\) for 0\.3 .*Nothing was changed"
    with pytest.raises(StorageError, match=in_use):
        await make_storage(lock_timeout=0.3).store("y")
    assert not waiting.done()
    if Path("/proc/self/stat").exists():  # only Linux tells that it is stopped
        holder.send_signal(signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)
        with pytest.raises(StorageError) as told:
            await make_storage(lock_timeout=0.3).store("y")
        assert str(told.value) == (
            f"Process {holder.pid}, which is stopped (as by Ctrl-Z), has this store in use; this "
            "call has waited for it for 0.3 seconds. Continue it with `fg` in its terminal, or "
            f"end it with `kill -9 {holder.pid}`, which loses nothing that was stored. "
            "Nothing was changed."
        )
    holder.kill()
    holder.communicate()
    assert await waiting


def test_calls_leave_no_thread_or_descriptor_behind(root: Path) -> None:
    output = run(
        root,
        """
import threading
def count():
    ours = threading.active_count()  # the others are those of numpy and of the engine
    return len(os.listdir("/proc/self/fd")), ours, len(os.listdir("/proc/self/task")) - ours
async def main():
    await storage().store("x")
    await asyncio.gather(*(storage().search("x") for _ in range(16)))
    await storage().close()
    await asyncio.sleep(0.2)  # the engine's threads end a moment after the call
    before = count()
    for i in range(40):
        await storage().search("x")
    await storage().close()
    await asyncio.sleep(0.2)
    print(json.dumps([before, count()]))
asyncio.run(main())
""",
    )
    (descriptors, _, others), (descriptors_after, ours, others_after) = json.loads(output)
    assert descriptors_after == descriptors
    assert ours <= 1 + WORKERS  # an idle worker may be used again before all were started
    assert others_after <= others


async def test_the_event_loop_and_the_hosts_threads_are_free_while_calls_wait(
    root: Path, make_storage: MakeStorage
) -> None:
    storage = make_storage()
    await storage.store("x")
    database = root / "sam/qdrant.db"
    with take_lock(database, time.monotonic() + 5):
        calls = [asyncio.create_task(storage.search("x")) for _ in range(20)]
        await asyncio.to_thread(os.getpid)
        assert await make_storage("alice", lock_timeout=1).store("y")  # another agent's
        assert not any(call.done() for call in calls)
    assert all(await asyncio.gather(*calls))


def test_many_agents_at_once_need_few_descriptors(root: Path) -> None:
    script = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))

async def main():
    agents = [storage(f"agent-{number}") for number in range(12)]
    await asyncio.gather(*(agent.store("x") for agent in agents))
    found = await asyncio.gather(*(agent.search("x") for agent in [*agents, *agents]))
    print(sum(map(len, found)))

asyncio.run(main())
"""
    assert run(root, script) == "24\n"
