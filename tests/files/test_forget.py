"""What is forgotten is gone: shown and confirmed before, in no answer and on no disk after."""

import asyncio
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command import Command
from conftest import Clock
from memory_semantic import Memory, MemoryStorage, copying
from memory_semantic.files.info import Manifest
from processes import finish, run, start
from store_files import OF_A_STORE, bytes_of, copy_sparse, traces

Between = Callable[[Callable[[], Any]], None]

SEARCHES = """
gone, number = arguments
async def main():
    found = [await storage(lock_timeout=5).search("fact of many", limit=20) for _ in range(5)]
    await storage().store(f"stored meanwhile {number}")
    print(any(memory.id == gone for each in found for memory in each), len(found[-1]))
asyncio.run(main())
"""

FORGETS = """
from memory_semantic.files.backend import FileBackend
erase = FileBackend.erase
async def erase_later(self):
    print("hidden", flush=True)
    await erase(self)
FileBackend.erase = erase_later
print(asyncio.run(storage().delete(arguments)))
"""


def is_gone(storage: MemoryStorage, forgotten: list[Memory]) -> None:
    """Assert that no byte of them is left, and no debris."""
    assert {path.name for path in storage.folder.path.iterdir()} == OF_A_STORE
    assert traces(storage.folder.path, forgotten) == []


def test_a_memory_is_shown_confirmed_and_gone(
    command: Command, storage: MemoryStorage, root: Path
) -> None:
    command.run("store", "The launch is secretly on the 14th of May.")
    command.run("store", "We deploy on Fridays.")
    [doomed] = [m for m in command.json("list") if "launch" in m["content"]]
    memory = asyncio.run(storage.get(doomed["id"]))
    assert memory and traces(root, [memory]) and memory.key.bytes in bytes_of(root)
    result = command.run("forget", doomed["id"], input="y\n")
    assert "The launch is secretly" in result.stdout
    assert "Delete 1 memory of sam for good?" in result.stderr
    assert "Gone from search and from the files" in result.stdout
    assert [m["content"] for m in command.json("search", "launch")] == ["We deploy on Fridays."]
    assert traces(root, [memory]) == [] and memory.key.bytes not in bytes_of(root)


@pytest.mark.parametrize(
    ("words", "answer", "code", "said"),
    [
        *(
            (["{id}"], answer, int(not answer), "Nothing was changed")
            for answer in ("n\n", "\n", "")
        ),
        (["{id}", "mem-000000000000", "--yes"], None, 1, "no memory mem-000000000000"),
        (["{id}", "--json"], "y\n", 2, "add --yes"),
        (["--tag", "none"], None, 0, "Nothing was changed"),
        (["--tag", "none", "--yes", "--json"], None, 0, '"forgotten": []'),
    ],
)
def test_without_a_yes_or_with_an_unknown_id_nothing_is_deleted(
    command: Command, words: list[str], answer: str | None, code: int, said: str
) -> None:
    stored = command.json("store", "Something dear.")
    words = [word.format(id=stored["memory_id"]) for word in words]
    result = command.run("forget", *words, input=answer, code=code)
    assert said in result.output and "Forgotten" not in result.output
    assert len(command.json("list")) == 1


def test_by_tag_and_by_date(command: Command, storage: MemoryStorage, clock: Clock) -> None:
    for day, tag in ((1, "a"), (2, "a"), (3, "b"), (4, "a")):
        clock.now = datetime(2026, 6, day, tzinfo=UTC)
        asyncio.run(storage.store(f"day {day}", [tag]))
    forgotten = command.json("forget", "--tag", "a", "--before", "2026-06-02T00:00Z", "--yes")
    assert len(forgotten["forgotten"]) == 1
    assert {m["content"] for m in command.json("list")} == {"day 2", "day 3", "day 4"}
    command.run("forget", "--before", "2026-06-04T00:00:00Z", "--yes")
    assert {m["content"] for m in command.json("list")} == {"day 4"}
    command.run("forget", "--tag", "a", "--tag", "b", "--yes")
    assert command.json("list") == []


def test_dates_follow_the_local_clock(
    command: Command, storage: MemoryStorage, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        clock.now = datetime(2026, 6, 2, 2, tzinfo=UTC)  # the evening of the first, there
        asyncio.run(storage.store("evening"))
        assert command.json("list", "--since", "2026-06-02") == []
        assert len(command.json("list", "--since", "2026-06-01")) == 1
        assert "2026-06-01 22:00" in command.run("list").stdout
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_many_at_once_show_the_first(command: Command, storage: MemoryStorage) -> None:
    asyncio.run(storage.store_many([(f"fact {number}", ["x"]) for number in range(30)]))
    asyncio.run(storage.store("kept"))
    result = command.run("forget", "--tag", "x", input="y\n")
    assert "Delete 30 memories" in result.stderr and "and 10 more" in result.stdout
    assert [m["content"] for m in command.json("list")] == ["kept"]


def test_what_stays_on_disk_is_reported(
    command: Command, storage: MemoryStorage, root: Path
) -> None:
    stored = command.json("store", "Kept by an earlier repair.")
    database = storage.folder.database
    kept = database.with_name("damaged-20260101-000000")
    copy_sparse(database, kept)
    result = command.run("forget", stored["memory_id"], "--yes", code=1)
    assert f"rm -r {kept}" in result.stderr and "Deleted from the store" in result.stderr
    assert "Forgotten" not in result.stdout
    assert command.json("list") == []


def test_after_ctrl_c_all_are_gone_or_none(command: Command, storage: MemoryStorage) -> None:
    """At any moment after they are shown, and no debris is left."""
    for moment in range(4):
        asyncio.run(storage.store_many([(f"fact {number}", ["x"]) for number in range(100)]))
        memories = asyncio.run(storage.get_recent(100))
        process = command.start("forget", "--tag", "x", "--yes", PYTHONUNBUFFERED="1")
        assert process.stdout and process.stdout.readline()
        time.sleep(0.1 * moment)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate()
        left = asyncio.run(storage.count())
        assert "Aborted" not in complaints and "Traceback" not in complaints, complaints
        done = process.returncode in (0, -signal.SIGINT)  # Python no longer catches it at its end
        assert left == 0 or (left == 100 and not done)
        assert done or (process.returncode == 1 and "Interrupted" in complaints)
        is_gone(storage, memories if left == 0 else [])


class TestMeanwhile:
    """What others do while the files are rewritten. They wait only for a part of that."""

    @pytest.fixture
    async def ids(self, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Enough memories to be copied in three parts."""
        monkeypatch.setattr(copying, "_COPIED", 250)
        ids = await storage.store_many([f"fact {number} of many" for number in range(600)])
        await storage.close()
        return ids

    @pytest.fixture
    def between(self, monkeypatch: pytest.MonkeyPatch) -> Between:
        """Makes something happen before each part is written."""
        write = copying.put

        def have(happen: Callable[[], Any]) -> None:
            async def put(*arguments: Any) -> None:
                await asyncio.to_thread(happen)
                await write(*arguments)

            monkeypatch.setattr(copying, "put", put)

        return have

    async def test_they_search_and_store(
        self, storage: MemoryStorage, root: Path, ids: list[str], between: Between
    ) -> None:
        found: list[str] = []

        def others() -> None:
            if len(found) < 2:
                found.append(run(root, SEARCHES, ids[0], len(found)))

        between(others)
        assert await storage.delete([ids[0]]) == 1
        assert found == ["False 20\n"] * 2
        contents = {memory.content for memory in await storage.get_recent(1_000)}
        assert "stored meanwhile 0" in contents and "stored meanwhile 1" in contents
        assert len(contents) == 601 and await storage.check() == []

    async def test_another_forgets_and_waits_for_the_first(
        self, storage: MemoryStorage, root: Path, ids: list[str], between: Between
    ) -> None:
        others: list[Any] = []
        doomed = await storage.with_ids(ids[:2])

        def another() -> None:
            if not others:
                process = start(root, FORGETS, ids[1])
                assert process.stdout and process.stdout.readline() == "hidden\n"
                others.append(process)

        between(another)
        assert await storage.delete([ids[0]]) == 1
        assert finish(others[0]) == "1\n"
        await storage.close()
        is_gone(storage, doomed)
        assert await storage.count() == 598 and await storage.check() == []

    async def test_cancelled_it_leaves_a_whole_store_and_the_next_one_finishes(
        self, storage: MemoryStorage, root: Path, ids: list[str], between: Between
    ) -> None:
        first = asyncio.current_task()
        assert first
        loop = asyncio.get_running_loop()
        doomed = await storage.with_ids(ids[:2])
        between(lambda: loop.call_soon_threadsafe(first.cancel))
        with pytest.raises(asyncio.CancelledError):
            await storage.delete([ids[0]])
        info = await storage.info()
        assert isinstance(info, Manifest) and info.erasing
        between(lambda: None)
        assert await storage.delete([ids[0]]) == 0 and await storage.delete([ids[1]]) == 1
        await storage.close()
        is_gone(storage, doomed)
        assert await storage.count() == 598 and await storage.check() == []


def test_the_look_into_the_files_sees_what_is_there(storage: MemoryStorage) -> None:
    """Else the tests here would show nothing."""
    texts = [f"{number} are{' repeated words' * (1 + number * 220)}" for number in range(4)]
    asyncio.run(storage.store_many([*texts, "Grüße aus Köln am Rhein"]))
    memories = asyncio.run(storage.get_recent(100))
    folder = storage.folder.path
    by_id = [memory.model_copy(update={"content": "?"}) for memory in memories]
    by_text = [memory.model_copy(update={"id": "mem-none"}) for memory in memories]
    assert [m for m in (*by_id, *by_text) if not traces(folder, [m])] == []
