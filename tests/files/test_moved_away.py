"""Another bundle moves the default root: no store begins anew, and one command brings it back. If
a person moves a store, the first text of the new one says that it is new.
"""

import asyncio
import re
import subprocess
from pathlib import Path

import pytest
from command import Command, invoke
from conftest import MakeStorage, Tools
from memory_semantic import MemoryStorage, StorageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose name a shell would take apart."""
    home = tmp_path / "it's a $HOME"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AMPLIFIER_AGENT_IDENTITY", "sam")
    return home


@pytest.fixture
def storage(home: Path) -> MemoryStorage:
    return MemoryStorage("sam", {"embedding_model": "local"})


def move_away(home: Path) -> None:
    """What the memory bundle does after a yes."""
    (home / ".amplifier/memory").rename(home / ".amplifier-memory")
    (home / ".amplifier-memory/MEMORY.md").write_text("# theirs")


def bring_back(told: str) -> None:
    """Run the one command that an error names."""
    [command] = re.findall("`(mkdir .*)`", told)
    assert command.startswith("mkdir -p ")
    subprocess.run(command, shell=True, check=True)


async def test_a_session_that_had_the_store_open_notices_and_begins_no_new_one(
    storage: MemoryStorage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 30)
    memory_id = ""
    for number in range(3):
        memory_id = await storage.store(f"fact {number}")
    move_away(home)
    told = ""
    for call in (storage.store, storage.search, storage.get, lambda id: storage.delete([id])):
        with pytest.raises(StorageError, match="were moved from") as error:
            await call(memory_id)
        told = str(error.value)
    assert f"to {home}/.amplifier-memory/sam, probably by" in told
    assert told.endswith("`. Nothing was changed.")
    assert not (home / ".amplifier/memory").exists()
    await storage.close()

    bring_back(told)
    assert await storage.count() == 3 and await storage.get(memory_id)
    assert not (home / ".amplifier-memory/sam").exists()
    assert (home / ".amplifier-memory/MEMORY.md").exists()


async def test_what_was_made_meanwhile_is_not_in_the_way(
    storage: MemoryStorage, home: Path, make_storage: MakeStorage
) -> None:
    alice = MemoryStorage("alice", {"embedding_model": "local"})
    await storage.store("x")
    move_away(home)
    assert await alice.store("y") and await make_storage().store("z")  # which begin as ever
    (home / ".amplifier/memory/sam").mkdir()
    (home / ".amplifier/memory/sam/usage.jsonl").touch()
    with pytest.raises(StorageError, match="were moved from") as error:
        await storage.store("z")
    bring_back(str(error.value))
    assert await storage.count() == 1
    assert {path.name for path in (home / ".amplifier-memory").iterdir()} == {"sam", "MEMORY.md"}


def test_what_another_bundle_keeps_in_its_own_place_is_in_nobodys_way(home: Path) -> None:
    (home / ".amplifier-memory").write_text("even a file")
    invoke("store", "x")
    assert "sam" in invoke("list", "--agents").stdout and "x" in invoke("list").stdout
    assert "✗" not in invoke("doctor").stdout


def test_the_command_says_so(home: Path) -> None:
    invoke("store", "x")
    move_away(home)
    where = f"to {home}/.amplifier-memory/sam"
    for arguments in (["list"], ["export", "-"], ["store", "y"], ["reembed", "--model", "local"]):
        assert where in invoke(*arguments, code=1).stderr, arguments
    [store] = [line for line in invoke("doctor", code=1).stdout.splitlines() if " store " in line]
    assert where in store and store.startswith("✗")
    assert "sam" in invoke("list", "--agents").stdout
    assert not (home / ".amplifier/memory").exists()
    bring_back(store)
    assert "x" in invoke("list").stdout


async def test_the_first_text_of_a_new_store_says_that_it_is_new(
    command: Command, root: Path, tmp_path: Path, tools: Tools
) -> None:
    def store(text: str) -> str:
        return command.run("store", text).stderr

    assert await asyncio.to_thread(store, "one") == "The store of sam is new: there was none.\n"
    assert await asyncio.to_thread(store, "two") == ""
    (root / "sam").rename(tmp_path / "sam")
    assert (await tools.call("memory_store", content="three"))["new_store"]
    assert "new_store" not in await tools.call("memory_store", content="four")
