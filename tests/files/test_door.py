"""The calls of a process on one store line up, and processes take turns."""

import asyncio
import fcntl
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import hypothesis
import processes
import pytest
from conftest import MakeStorage
from hypothesis import example, given
from hypothesis import strategies as st
from memory_semantic import MemoryStorage, StorageError
from plain_vectors import PlainVectors
from store_files import is_taken

pytestmark = pytest.mark.lingers

LINGERS = "memory_semantic.files.door.LINGER_SECONDS"
FORKING = """
import threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: they are tested here
"""
COUNT = "print(asyncio.run(storage().count()))"


@pytest.fixture
def storage(root: Path) -> Iterator[MemoryStorage]:
    """The store of `sam`, with one memory. It takes calls of any work, which it need not embed."""
    storage = MemoryStorage("sam", {"storage_root": str(root)}, embeddings=PlainVectors())
    asyncio.run(storage.store("x"))
    asyncio.run(storage.close())
    yield storage
    asyncio.run(storage.close())
    for thread in threading.enumerate():
        if thread.name == "agent-memory":  # it may be about to end
            thread.join()


@pytest.fixture
def database(root: Path) -> Path:
    return root / "sam/qdrant.db"


def is_open(database: Path) -> bool:
    return is_taken(database / "lock")


def somebody_waits(database: Path) -> bool:
    return is_taken(database / "queue")


@contextmanager
def held(database: Path) -> Iterator[None]:
    """Somebody else works on the store."""
    with (database / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # the suite's time-out ends it
        await asyncio.sleep(0.005)


def with_patience(storage: MemoryStorage, seconds: float) -> MemoryStorage:
    """The same store, for a session that waits so long for others."""
    settings = {**storage.config.model_dump(), "lock_timeout": seconds}
    return MemoryStorage("sam", settings, embeddings=PlainVectors())


def count(storage: MemoryStorage) -> int:
    return asyncio.run(storage.count())


TAKEN, FREED, PAUSE = "others take it", "others let it go", "a moment passes"
WORKS, FAILS = False, True
STEPS = st.one_of(
    st.tuples(st.sampled_from([WORKS, FAILS]), st.sampled_from([0.1, 0.2, 30])),
    st.integers(0, 9),  # cancels the call of this number, if it was made
    st.sampled_from([TAKEN, FREED, PAUSE]),
)


async def play(storage: MemoryStorage, database: Path, steps: list[Any]) -> tuple[Any, list[int]]:
    """What each call returns or raises, and the numbers of those that ran, in this order."""
    calls, ran = list[asyncio.Task[Any]](), list[int]()

    def work(number: int, fails: bool, _: object) -> int:
        ran.append(number)
        if fails:
            raise KeyError(number)
        return number

    with ExitStack() as others:
        for step in steps:
            if isinstance(step, tuple):
                fails, seconds = step
                new = partial(work, len(calls), fails)
                calls.append(asyncio.create_task(with_patience(storage, seconds).run(new, None)))
            elif isinstance(step, int) and step < len(calls):
                calls[step].cancel()
                await asyncio.wait([calls[step]])  # and that is at once
            elif step == TAKEN:
                others.close()
                await storage.close()
                others.enter_context(held(database))
            elif step == FREED:
                others.close()
            elif step == PAUSE:
                await asyncio.sleep(0.12)
            await asyncio.sleep(0)
    return await asyncio.gather(*calls, return_exceptions=True), ran


def test_each_call_runs_once_in_order_or_not_at_all(storage: MemoryStorage, database: Path) -> None:
    @hypothesis.settings(max_examples=30, deadline=None)
    @given(st.lists(STEPS, max_size=20), st.sampled_from([0, 30]))
    @example([PAUSE, TAKEN, (WORKS, 0.2), PAUSE, (WORKS, 30), *[PAUSE] * 3], 0)
    @example([TAKEN, (WORKS, 0.2), PAUSE, (WORKS, 0.2), *[PAUSE] * 3], 0)
    @example([TAKEN, (WORKS, 30), PAUSE, 0, (WORKS, 30), PAUSE], 0)
    def check(steps: list[Any], linger: float) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LINGERS, linger)
            outcomes, ran = asyncio.run(play(storage, database, steps))
            asyncio.run(storage.close())
        assert ran == sorted(set(ran)) and not is_open(database)
        calls = [step for step in steps if isinstance(step, tuple)]
        for number, ((_, seconds), outcome) in enumerate(zip(calls, outcomes, strict=True)):
            if isinstance(outcome, StorageError):
                assert number not in ran
                assert seconds < 30 and f"for {seconds} seconds" in str(outcome)
            elif not isinstance(outcome, asyncio.CancelledError):
                assert number in ran
                assert (outcome.args[0] if isinstance(outcome, KeyError) else outcome) == number

    check()


def test_calls_of_several_threads_and_event_loops_but_none_from_inside_another(
    storage: MemoryStorage, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(root)  # leads to the same store
    linked = MemoryStorage("sam", {"storage_root": str(tmp_path / "link"), "lock_timeout": 1})
    for inner in (storage, linked):
        with pytest.raises(StorageError, match="another one on it"):  # it would wait for itself
            asyncio.run(storage.run(lambda _, inner=inner: count(inner), 0))
    number = 0

    def work(_: object) -> None:
        nonlocal number
        before = number
        time.sleep(0)  # here, two at once would be mixed up
        number = before + 1

    async def several(_: int) -> None:
        await asyncio.gather(*(storage.run(work, None) for _ in range(5)))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda each: asyncio.run(several(each)), range(6)))
    assert number == 30


def test_a_call_that_is_cancelled_completes_if_it_has_begun_and_else_waits_no_more(
    storage: MemoryStorage, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    began, end, done = Event(), Event(), list[int]()

    def work(_: object) -> None:
        began.set()
        end.wait()
        done.append(1)
        raise KeyError

    async def main() -> None:
        call = asyncio.create_task(storage.run(work, None))
        await asyncio.to_thread(began.wait)
        in_use = rf"process {os.getpid()}\) for 0\.3 seconds.*Nothing was changed"
        with pytest.raises(StorageError, match=in_use):
            await with_patience(storage, 0.3).count()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        end.set()
        assert await storage.count() == 1 and done == [1]
        await storage.close()
        with held(database):
            waiting = asyncio.create_task(with_patience(storage, 300).count())
            await until(lambda: somebody_waits(database))
            waiting.cancel()
            await until(lambda: not somebody_waits(database))

    asyncio.run(main())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_line_that_is_never_empty_lets_others_in(storage: MemoryStorage, root: Path) -> None:
    async def main() -> None:
        async def hammer() -> None:
            while not done:
                await storage.run(lambda _: time.sleep(0.005), None)

        done = False
        calls = [asyncio.create_task(hammer()) for _ in range(5)]
        assert await asyncio.to_thread(processes.run, root, COUNT) == "1\n"
        done = True
        await asyncio.gather(*calls)

    asyncio.run(main())


def test_the_event_loop_and_the_hosts_threads_are_free_while_calls_wait(
    storage: MemoryStorage, database: Path, make_storage: MakeStorage
) -> None:
    async def main() -> None:
        with held(database):
            calls = [asyncio.create_task(storage.search("x")) for _ in range(20)]
            await asyncio.to_thread(os.getpid)
            assert await make_storage("alice", lock_timeout=1).store("y")  # another agent's
            assert not any(call.done() for call in calls)
        assert all(await asyncio.gather(*calls))

    asyncio.run(main())


def test_after_a_burst_the_store_stays_open_until_it_is_wanted_or_closed_or_the_time_is_over(
    storage: MemoryStorage, root: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise KeyError

    async def burst() -> None:
        for _ in range(3):
            await storage.count()
        assert is_open(database)

    async def main() -> None:
        await storage.count()
        await until(lambda: not is_open(database))
        monkeypatch.setattr(LINGERS, 3600)
        for _ in range(2):
            await burst()
            assert await asyncio.to_thread(processes.run, root, COUNT) == "1\n"
        await burst()
        await storage.close()
        assert not is_open(database)
        await burst()
        with pytest.raises(KeyError):
            await storage.run(fail, None)
        await until(lambda: not is_open(database))
        await burst()
        monkeypatch.setattr(LINGERS, 0)
        await storage.count()
        await until(lambda: not is_open(database))

    monkeypatch.setattr(LINGERS, 0)
    asyncio.run(main())


def test_a_child_and_its_busy_parent_go_on_after_a_fork(storage: MemoryStorage, root: Path) -> None:
    script = f"""{FORKING}
ours, began, end = storage(), threading.Event(), threading.Event()
def work(_):
    began.set()
    end.wait()
thread = threading.Thread(target=lambda: asyncio.run(ours.run(work, None)))
thread.start()
began.wait()
child = os.fork()
if child == 0:
    os.write(1, b"child %d\\n" % asyncio.run(ours.count()))
    asyncio.run(ours.close())
    os._exit(0)
end.set()
thread.join()
os.waitpid(child, 0)
print("parent", asyncio.run(ours.count()))
"""
    assert processes.run(root, script) == "child 1\nparent 1\n"


def test_an_interpreter_that_ends_finishes_what_has_begun_and_does_not_linger(
    storage: MemoryStorage, root: Path, database: Path
) -> None:
    script = """
import threading, time
from memory_semantic.files import door
door.LINGER_SECONDS = 3600
began = threading.Event()
def work(_):
    began.set()
    time.sleep(0.2)
    os.write(1, b"finished")
async def main():
    for _ in range(3):
        await storage().count()
    call = asyncio.create_task(storage().run(work, None))
    while not began.is_set():
        await asyncio.sleep(0.005)
    call.cancel()
asyncio.run(main())
"""
    assert processes.run(root, script) == "finished" and not is_open(database)


def test_names_who_holds_up_the_line(storage: MemoryStorage, root: Path, database: Path) -> None:
    impatient = with_patience(storage, 0.3)
    with (database / "queue").open("r+") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        queue.write(f"{4711:<20}")
        queue.flush()
        with pytest.raises(StorageError, match="process 4711"):
            count(impatient)
    script = """
def hold(_):
    print("held", flush=True)
    sys.stdin.readline()
asyncio.run(storage().run(hold, None))
"""
    holder = processes.start(root, script)
    assert holder.stdout and holder.stdout.readline() == "held\n"
    with pytest.raises(StorageError, match=rf"process {holder.pid}\) for 0\.3 .*Nothing was"):
        count(impatient)
    if Path("/proc/self/stat").exists():  # only Linux tells that it is stopped
        holder.send_signal(signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)
        stopped = rf"^Process {holder.pid}, which is stopped .* for 0\.3 seconds.*`fg`.*`kill -9 "
        with pytest.raises(StorageError, match=rf"{stopped}{holder.pid}`.* Nothing was changed\.$"):
            count(impatient)
    holder.kill()
    holder.communicate()
    assert count(impatient) == 1


def test_no_child_keeps_a_parents_lock(storage: MemoryStorage, root: Path, database: Path) -> None:
    script = f"""{FORKING}
def work(_):
    if os.fork() == 0:
        print("child", flush=True)
        sys.stdin.readline()
        os._exit(0)
    threading.Event().wait()
asyncio.run(storage().run(work, None))
"""
    parent = processes.start(root, script)
    assert parent.stdout and parent.stdout.readline()
    assert is_open(database)
    parent.kill()
    parent.wait()
    assert not is_open(database) and count(storage) == 1
    parent.communicate("\n")  # the child ends


def test_a_folder_that_was_replaced_and_a_link_instead_of_the_lock_are_noticed(
    storage: MemoryStorage, database: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        with held(database):
            waiting = asyncio.create_task(storage.count())
            await until(lambda: somebody_waits(database))
            database.rename(tmp_path / "old")
            database.mkdir()
        with pytest.raises(StorageError, match="was deleted or replaced while this call waited"):
            await waiting

    asyncio.run(main())
    database.rmdir()
    (tmp_path / "old").rename(database)
    (database / "lock").unlink()
    (database / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="symbolic links"):
        count(storage)
    assert not (tmp_path / "elsewhere").exists()
