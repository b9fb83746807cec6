"""The door: the calls of a process on one store line up, and processes take turns."""

import asyncio
import fcntl
import gc
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any

import hypothesis
import processes
import pytest
from conftest import MakeStorage
from counting import Counting, CountingDoor
from hypothesis import example, given
from hypothesis import strategies as st
from memory_semantic import StorageError
from memory_semantic.files import door as door_module
from memory_semantic.files.door import NAMES, Lock, door_of, take_lock
from store_files import is_taken

SCRIPT = f"""
sys.path.insert(0, {str(Path(processes.__file__).parent)!r})
import pathlib, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: they are tested here
from memory_semantic.files import door as door_module
from memory_semantic.files.door import take_lock
from counting import Counting, CountingDoor
folder = pathlib.Path(root)
door = CountingDoor(folder)
async def burst():
    for _ in range(3):
        await door.run(Counting.add, 5)
"""

HOLD = """
with take_lock(folder, time.monotonic() + 5):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def no_worker_is_left() -> None:
    for thread in threading.enumerate():
        if thread.name == "agent-memory":  # it may be about to end
            thread.join()


@pytest.fixture
def door(folder: Path) -> Iterator[CountingDoor]:
    Counting.entered, Counting.closed, Counting.is_valid = 0, 0, True
    door = CountingDoor(folder)
    yield door
    door.close()
    assert Counting.entered == Counting.closed
    no_worker_is_left()


def start(folder: Path, script: str) -> "subprocess.Popen[str]":
    return processes.start(folder, SCRIPT + script)


def run(folder: Path, script: str) -> str:
    return processes.finish(start(folder, script))


def take(folder: Path, seconds: float = 5) -> Lock:
    return take_lock(folder, time.monotonic() + seconds)


def is_free(folder: Path) -> bool:
    return not is_taken(folder / "lock")


def somebody_waits(folder: Path) -> bool:
    return is_taken(folder / "queue")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # the suite's time-out ends it
        await asyncio.sleep(0.005)


# The line


def fail(opened: Counting) -> int:
    raise KeyError(opened.add())


def replace(opened: Counting) -> int:
    Counting.is_valid = False
    return opened.add()


TAKEN, FREED, PAUSE = "others take it", "others let it go", "a moment passes"
STEPS = st.one_of(
    st.tuples(st.sampled_from([Counting.add, fail, replace]), st.sampled_from([0, 0.2, 30])),
    st.integers(0, 9),  # cancels the call of this number, if it was made
    st.sampled_from([TAKEN, FREED, PAUSE]),
)


async def play(door: CountingDoor, folder: Path, steps: list[Any]) -> list[Any]:
    """What each call returns or raises, in their order."""
    calls: list[asyncio.Task[int]] = []
    with ExitStack() as held:
        for step in steps:
            if isinstance(step, tuple):
                calls.append(asyncio.create_task(door.run(*step)))
            elif isinstance(step, int) and step < len(calls):
                calls[step].cancel()
                await asyncio.wait([calls[step]])  # and that is at once
            elif step == TAKEN:
                held.close()
                held.enter_context(await asyncio.to_thread(take, folder))
            elif step == FREED:
                held.close()
            elif step == PAUSE:
                await asyncio.sleep(0.12)
            await asyncio.sleep(0)
    return await asyncio.gather(*calls, return_exceptions=True)


@hypothesis.settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=20), st.sampled_from([0, 30]))
@example([TAKEN, (Counting.add, 0.2), PAUSE, (Counting.add, 30), *[PAUSE] * 3], 0)
@example([TAKEN, (Counting.add, 0.2), PAUSE, (Counting.add, 0.2), *[PAUSE] * 3], 0)
@example([TAKEN, (Counting.add, 30), PAUSE, 0, (Counting.add, 30), PAUSE], 0)
def test_each_call_runs_once_in_its_order_or_not_at_all(steps: list[Any], linger: float) -> None:
    Counting.entered, Counting.closed, Counting.is_valid = 0, 0, True
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "LINGER_SECONDS", linger)
        folder = Path(name)
        door = CountingDoor(folder)
        outcomes = asyncio.run(play(door, folder, steps))
        door.close()
        count = int((folder / "count").read_text()) if (folder / "count").exists() else 0
    served, cancelled = [], 0
    for (_, patience), outcome in zip(
        (step for step in steps if isinstance(step, tuple)), outcomes, strict=True
    ):
        if isinstance(outcome, asyncio.CancelledError):
            cancelled += 1
        elif isinstance(outcome, StorageError):
            assert patience < 30 and f"for {patience} seconds" in str(outcome)
        else:
            served.append(outcome.args[0] if isinstance(outcome, KeyError) else outcome)
    assert served == sorted(set(served))
    assert len(served) <= count <= len(served) + cancelled
    assert cancelled <= sum(isinstance(step, int) for step in steps)
    assert Counting.entered == Counting.closed
    no_worker_is_left()


async def test_what_fails_to_open_or_to_close_stops_nobody(
    door: CountingDoor,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def enter(_deadline: float, _cancelled: Callable[[], bool]) -> Counting:
        raise StorageError("broken")

    broken = door_of(folder / "broken")
    calls = [broken.run(Counting.add, enter, 5) for _ in range(10)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(result) for result in results] == ["broken"] * 10
    close = Counting.close

    def fail(opened: Counting) -> None:
        close(opened)
        raise OSError("no more")

    monkeypatch.setattr(Counting, "close", fail)
    assert await door.run(Counting.add, 0) == 1  # it may not wait, but the store is free
    door.close()
    assert await door.run(Counting.add, 5) == 2
    assert "OSError" in caplog.text


def test_calls_of_several_threads_and_event_loops_but_none_from_inside_another(
    door: CountingDoor,
) -> None:
    def nested(_opened: Counting) -> int:
        return asyncio.run(door.run(Counting.add, 5))

    with pytest.raises(StorageError, match="another one on it"):
        asyncio.run(door.run(nested, 5))

    async def several(_: int) -> list[int]:
        return await asyncio.gather(*(door.run(Counting.add, 5) for _ in range(5)))

    with ThreadPoolExecutor(6) as pool:
        numbers = chain(*pool.map(lambda number: asyncio.run(several(number)), range(6)))
    assert sorted(numbers) == list(range(1, 31))


async def test_a_call_that_is_cancelled_completes_if_it_has_begun_and_else_waits_no_more(
    door: CountingDoor, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    began, end = Event(), Event()

    def work(opened: Counting) -> None:
        began.set()
        end.wait()
        opened.add()
        raise KeyError

    call = asyncio.create_task(door.run(work, 5))
    await until(began.is_set)
    in_use = rf"process {os.getpid()}\) for 0\.3 seconds.*Nothing was changed"
    with pytest.raises(StorageError, match=in_use):
        await door.run(Counting.add, 0.3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    end.set()
    assert await door.run(Counting.add, 5) == 2
    gc.collect()
    assert "never retrieved" not in caplog.text
    with take(folder):
        waiting = asyncio.create_task(door.run(Counting.add, 300))
        await until(lambda: somebody_waits(folder))
        waiting.cancel()
        await until(lambda: not somebody_waits(folder))


async def test_a_line_that_is_never_empty_lets_others_in(door: CountingDoor, folder: Path) -> None:
    async def hammer() -> None:
        nonlocal served
        while not done:
            await door.run(lambda _opened: time.sleep(0.005), 30)
            served += 1

    done, served = False, 0
    calls = [asyncio.create_task(hammer()) for _ in range(5)]
    await until(lambda: served > 5)
    (await asyncio.to_thread(take, folder)).release()
    done = True
    await asyncio.gather(*calls)


async def test_the_event_loop_and_the_hosts_threads_are_free_while_calls_wait(
    root: Path, make_storage: MakeStorage
) -> None:
    storage = make_storage()
    await storage.store("x")
    with take(root / "sam/qdrant.db"):
        calls = [asyncio.create_task(storage.search("x")) for _ in range(20)]
        await asyncio.to_thread(os.getpid)
        assert await make_storage("alice", lock_timeout=1).store("y")  # another agent's
        assert not any(call.done() for call in calls)
    assert all(await asyncio.gather(*calls))


# Lingering


async def test_after_a_burst_the_store_stays_open_until_it_is_wanted_or_closed_or_changed(
    door: CountingDoor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def burst() -> None:
        for _ in range(3):
            await door.run(Counting.add, 5)

    monkeypatch.setattr(door_module, "LINGER_SECONDS", 3600)
    await door.run(Counting.add, 5)
    await until(lambda: is_free(folder))  # the first call is no burst yet
    for _ in range(2):
        await burst()
        times = Counting.entered
        await burst()
        assert Counting.entered == times and not is_free(folder)
        assert "held" in run(folder, HOLD)  # whose input is at its end
    await burst()
    door.close()
    assert is_free(folder)
    await burst()
    times = Counting.entered
    Counting.is_valid = False
    await door.run(Counting.add, 5)
    assert Counting.entered == times + 1
    Counting.is_valid = True
    with pytest.raises(KeyError):
        await door.run(fail, 5)
    assert is_free(folder)
    monkeypatch.setattr(door_module, "LINGER_SECONDS", 0.1)
    await burst()
    await until(lambda: is_free(folder))  # or the time is over


# Forks, and the end of the interpreter


def test_a_child_and_its_busy_parent_go_on_after_a_fork(folder: Path) -> None:
    output = run(
        folder,
        """
door_module.LINGER_SECONDS = 30
began, end = threading.Event(), threading.Event()
def work(opened):
    began.set()
    end.wait()
    return opened.add()
def tell(work):
    os.write(1, f"{asyncio.run(door.run(work, 5))}\\n".encode())
asyncio.run(burst())
thread = threading.Thread(target=tell, args=[work])
thread.start()
began.wait()
child = os.fork()
if child == 0:
    tell(Counting.add)
    door.close()
    os._exit(0)
end.set()
thread.join()
os.waitpid(child, 0)
tell(Counting.add)
""",
    )
    assert sorted(output.split()) == ["4", "5", "6"]  # the processes print when they like


def test_an_interpreter_that_ends_finishes_what_has_begun_and_does_not_linger(
    folder: Path,
) -> None:
    output = run(
        folder,
        """
door_module.LINGER_SECONDS = 3600
began = threading.Event()
def work(opened):
    began.set()
    time.sleep(0.2)
    opened.add()
async def main():
    await burst()
    print(Counting.entered - Counting.closed)
    call = asyncio.create_task(door.run(work, 5))
    while not began.is_set():
        await asyncio.sleep(0.005)
    call.cancel()
asyncio.run(main())
""",
    )
    assert output == "1\n" and is_free(folder)
    assert (folder / "count").read_text() == "4"


# The lock


async def test_who_holds_it_too_long_or_is_stopped_in_the_line_is_named(
    root: Path, make_storage: MakeStorage
) -> None:
    await make_storage().store("x")
    database = root / "sam/qdrant.db"
    with (database / NAMES[0]).open("r+") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        queue.write(f"{4711:<20}")
        queue.flush()
        with pytest.raises(StorageError, match="process 4711"):
            take(database, 0)
    holder = start(database, HOLD)
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


def test_a_child_neither_keeps_nor_releases_the_lock_of_its_parent(folder: Path) -> None:
    parent = start(
        folder,
        """
lock = take_lock(folder, time.monotonic() + 5)
if os.fork() == 0:
    lock.release()
    print("child", flush=True)
    sys.stdin.readline()
    os._exit(0)
threading.Event().wait()
""",
    )
    assert parent.stdout and parent.stdout.readline()
    assert not is_free(folder)
    parent.kill()
    parent.wait()
    assert is_free(folder)
    parent.communicate("\n")  # the child ends


def test_a_folder_that_was_replaced_and_a_link_instead_of_the_lock_are_noticed(
    folder: Path,
) -> None:
    store = folder / "store"
    store.mkdir()
    with ThreadPoolExecutor() as pool, take(store):
        waiting = pool.submit(take, store)
        while len(door_module._held) < 3:  # it has opened the lock, too
            time.sleep(0.005)
        store.rename(folder / "old")
        store.mkdir()
        (store / NAMES[1]).touch()
    with pytest.raises(StorageError, match="was deleted or replaced while this call waited for it"):
        waiting.result()
    (folder / NAMES[1]).symlink_to(folder / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        take(folder)
    assert not (folder / "elsewhere").exists()
