"""Several at once on one store: tasks, threads, processes, forks; killed, cancelled, waiting."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path

import pytest
from conftest import MakeStorage
from memory_semantic import StorageError, maintenance
from memory_semantic.files import disk
from memory_semantic.files.lock import take_lock
from memory_semantic.limits import WORKERS
from processes import finish, release, run, start

STORE_MANY = """
async def main():
    name, number = arguments
    for i in range(number):
        print(await storage().store(f"{name} stored fact {i}"), flush=True)
        await storage().search("fact")
asyncio.run(main())
"""


async def test_four_processes_lose_nothing(root: Path, make_storage: MakeStorage) -> None:
    processes = [start(root, STORE_MANY, f"worker {i}", 8) for i in range(4)]
    ids = [line for process in processes for line in finish(process).split()]
    assert len(set(ids)) == 32
    assert {memory.id for memory in await make_storage().get_recent(100)} == set(ids)


@pytest.mark.parametrize("attempt", range(3))
def test_processes_that_create_the_store_at_the_same_moment(root: Path, attempt: int) -> None:
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


def test_threads_with_their_own_event_loops(make_storage: MakeStorage) -> None:
    ids: list[str] = []

    def work(name: int) -> None:
        for i in range(5):
            ids.append(asyncio.run(make_storage().store(f"thread {name} fact {i}")))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 30 == asyncio.run(make_storage().count())


async def test_nothing_acknowledged_is_lost_when_a_process_is_killed(
    root: Path, make_storage: MakeStorage
) -> None:
    acknowledged: set[str] = set()
    for attempt in range(5):
        process = start(root, STORE_MANY, f"attempt {attempt}", 1000)
        assert process.stdout
        for _ in range(3 + attempt):
            acknowledged.add(process.stdout.readline().strip())
        process.kill()
        acknowledged |= set(process.communicate()[0].split("\n")[:-1])
    kept = {memory.id for memory in await make_storage().get_recent(10_000)}
    assert acknowledged <= kept and len(kept) <= len(acknowledged) + 5
    assert len(await make_storage().search("fact", limit=20)) == 20


async def test_nothing_is_stored_in_a_store_that_was_just_removed(
    make_storage: MakeStorage,
) -> None:
    storage = make_storage()
    await storage.store("x")
    with take_lock(storage.folder.database, time.monotonic() + 5, threading.Event()):
        removal = asyncio.create_task(maintenance.place(storage.backend).remove(lambda _: True))
        await asyncio.sleep(0.2)
        later = asyncio.create_task(storage.store("y"))
        await asyncio.sleep(0.2)
    removed, stored = await asyncio.gather(removal, later, return_exceptions=True)
    # Where it took so long that it came only after the removal, it is stored in a store of its own.
    assert removed is True and await storage.count() == int(isinstance(stored, str))


async def test_a_process_that_waits_while_the_store_is_removed_stores_nothing_in_it(
    root: Path, make_storage: MakeStorage
) -> None:
    await make_storage().store("x")
    database = root / "sam" / "qdrant.db"
    with take_lock(database, time.monotonic() + 5, threading.Event()) as lock:
        waiting = start(
            root,
            """
try:
    asyncio.run(storage().store("y"))
except StorageError as error:
    print(error)
""",
        )
        while not lock.wanted():
            await asyncio.sleep(0.005)
        database.rename(database.with_name("qdrant.tmp"))  # as a removal does, before it deletes
    assert finish(waiting) == (
        "The store was deleted or replaced while this call waited for it. Nothing was changed.\n"
    )
    assert await make_storage().count() == 0


def test_a_folder_that_several_remove_at_once_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "old.tmp"
    for number in range(300):
        (folder / str(number) / "deeper").mkdir(parents=True)
    removers = [threading.Thread(target=disk.remove, args=(folder,)) for _ in range(4)]
    for remover in removers:
        remover.start()
    for remover in removers:
        remover.join()
    assert not folder.exists()


async def test_a_lock_that_is_held_too_long_is_an_error_that_names_the_holder(
    root: Path, make_storage: MakeStorage
) -> None:
    await make_storage().store("x")
    holder = start(
        root,
        "from memory_semantic.files.lock import take_lock\n"
        "import pathlib, threading, time\n"
        "folder = pathlib.Path(root, 'sam', 'qdrant.db')\n"
        "with take_lock(folder, time.monotonic() + 5, threading.Event()):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.readline()\n",
    )
    assert holder.stdout and holder.stdout.readline()
    started = time.monotonic()
    with pytest.raises(StorageError, match=rf"process {holder.pid}.*Nothing was changed"):
        await make_storage(lock_timeout=0.3).store("y")
    assert 0.3 <= time.monotonic() - started < 2

    waiting = asyncio.create_task(make_storage().store("z"))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    holder.communicate("\n")
    assert await waiting


async def test_a_call_cancelled_at_any_moment_leaves_a_whole_store(
    make_storage: MakeStorage,
) -> None:
    storage = make_storage()
    stored = 0
    for milliseconds in range(0, 60, 3):
        call = asyncio.create_task(storage.store(f"fact {milliseconds}"))
        await asyncio.sleep(milliseconds / 1000)
        call.cancel()
        try:
            await call
            stored += 1
        except asyncio.CancelledError:
            pass
    assert stored <= await storage.count() <= 20
    assert len(await storage.search("fact", limit=20)) == await storage.count()


def test_a_forked_child_can_use_the_store_and_so_can_its_parent(root: Path) -> None:
    output = run(
        root,
        """
asyncio.run(storage().store("before"))
child = os.fork()
if child == 0:
    asyncio.run(storage().store("in the child"))
    found = asyncio.run(storage().search("before"))
    print(len(found), flush=True)
    os._exit(0)
os.waitpid(child, 0)
asyncio.run(storage().store("in the parent"))
print(asyncio.run(storage().count()))
""",
    )
    assert output.split() == ["2", "3"]


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
    await asyncio.sleep(0.2)  # the engine's threads end a moment after the call
    before = count()
    for i in range(40):
        await storage().search("x")
    await asyncio.sleep(0.2)
    print(json.dumps([before, count()]))
asyncio.run(main())
""",
    )
    (descriptors, _, others), (descriptors_after, ours, others_after) = json.loads(output)
    assert descriptors_after == descriptors
    assert ours <= 1 + WORKERS  # an idle worker may be used again before all were started
    assert others_after <= others


async def test_the_event_loop_runs_while_a_call_waits(
    root: Path, make_storage: MakeStorage
) -> None:
    storage = make_storage()
    await storage.store("x")
    with take_lock(root / "sam" / "qdrant.db", time.monotonic() + 5, threading.Event()):
        calls = [asyncio.create_task(storage.search("x")) for _ in range(20)]
        before = time.monotonic()
        await asyncio.to_thread(os.getpid)  # the host's threads are free as well
        assert time.monotonic() - before < 0.5
    assert all(await asyncio.gather(*calls))


async def test_the_lock_of_one_agent_does_not_stop_another(
    make_storage: MakeStorage, root: Path
) -> None:
    await make_storage("sam").store("x")
    with take_lock(root / "sam" / "qdrant.db", time.monotonic() + 5, threading.Event()):
        assert await make_storage("alice", lock_timeout=1).store("y")


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
