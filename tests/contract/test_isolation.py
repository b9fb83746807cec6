"""No agent sees what another one stored, whatever it asks."""

import threading
import time
from pathlib import Path

import pytest
from conftest import MakeStorage
from memory_semantic import StorageError
from memory_semantic.files.lock import take_lock


async def test_no_way_of_reading_crosses_over(make_storage: MakeStorage) -> None:
    sam, alice = make_storage("sam"), make_storage("alice")
    memory_id = await sam.store("The API key of the payments sandbox is in the vault.", ["api"])
    await alice.store("Alice likes tea.")
    assert [memory.content for memory in await alice.search("payments API key", limit=20)] == [
        "Alice likes tea."
    ]
    assert await alice.search("payments", tags=["api"]) == []
    assert await alice.get(memory_id) is None
    assert await alice.delete([memory_id]) == 0
    assert [memory.agent_id for memory in await alice.get_recent(10)] == ["alice"]
    assert await sam.count() == 1


async def test_the_same_text_belongs_to_each_agent_that_stored_it(
    make_storage: MakeStorage,
) -> None:
    sam, alice = make_storage("sam"), make_storage("alice")
    assert await sam.store("shared fact") and await alice.store("shared fact")
    [memory] = await sam.get_recent(5)
    assert await sam.delete([memory.id]) == 1
    assert await sam.count() == 0 and await alice.count() == 1


async def test_a_store_that_was_copied_to_another_agent_is_refused(
    make_storage: MakeStorage, root: Path
) -> None:
    await make_storage("sam").store("private")
    (root / "sam").rename(root / "bob")
    for call in (make_storage("bob").search("x"), make_storage("bob").get_recent(1)):
        with pytest.raises(StorageError, match="belongs to 'sam'"):
            await call


async def test_one_agent_s_lock_does_not_stop_another(make_storage: MakeStorage) -> None:
    storage = make_storage("sam")
    await storage.store("x")
    folder = Path(storage.config.storage_root) / "sam" / "qdrant.db"
    with take_lock(folder, time.monotonic() + 5, threading.Event()):
        assert await make_storage("alice", lock_timeout=1).store("y")
