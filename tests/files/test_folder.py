"""Where stores are, who may read them there, and what becomes of one that was moved."""

import errno
import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import AS_ANYBODY, Command, invoke, settings
from conftest import MakeStorage
from memory_semantic import MemoryStorage, StorageError, glance
from processes import finish, release, run, start
from store_files import OF_A_STORE, copy_sparse


def modes(folder: Path) -> set[str]:
    return {
        f"{'folder' if path.is_dir() else 'file'} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in (folder, *folder.rglob("*"))
    }


def test_by_default_it_is_under_the_current_home_and_without_one_in_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert MemoryStorage("sam").config.storage_root == f"{tmp_path}/.amplifier/memory"
    monkeypatch.delenv("HOME")
    own = pwd.getpwuid(os.getuid()).pw_dir
    assert MemoryStorage("sam").config.storage_root == f"{own}/.amplifier/memory"


@pytest.mark.parametrize("umask", ["0o000", "0o022", "0o077"])
def test_only_the_owner_may_read_whatever_the_umask(root: Path, umask: str) -> None:
    root /= "made/as well"
    script = f"""
async def main():
    await storage().store("x")
    memory_id = await storage().store("y")
    await storage().delete([memory_id])
    await storage().search("x")
os.umask({umask})
asyncio.run(main())
print(oct(os.umask(0)))
"""
    assert run(root, script).strip() == oct(int(umask, 8))
    assert modes(root / "sam") == {"folder 700", "file 600"}
    for made in (root, *root.parents[:2]):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


async def test_a_root_may_be_a_link_but_an_agent_folder_may_not(
    make_storage: MakeStorage, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    root.symlink_to(tmp_path / "real")
    await make_storage().store("x")
    (root / "bob").symlink_to(root / "sam")
    for call in (make_storage("bob").store, make_storage("bob").search):
        with pytest.raises(StorageError, match=r"is a link.*Put the folder itself"):
            await call("y")
    (root / "carol").touch()
    with pytest.raises(StorageError, match="is a file"):
        await make_storage("carol").store("z")


async def test_a_root_that_all_may_write_to_is_refused_any_other_left_alone_and_a_folder_tightened(
    storage: MemoryStorage, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(StorageError, match="Every user"):
        await storage.store("x")
    assert list(root.iterdir()) == []
    root.chmod(0o1777)
    assert await storage.store("x")
    (root / "sam").chmod(0o755)
    await storage.search("x")
    assert stat.S_IMODE((root / "sam").stat().st_mode) == 0o700
    assert stat.S_IMODE(root.stat().st_mode) == 0o1777
    assert "Tightened" in caplog.text


# Runs each command line that it is given, and prints the exit codes and what was said.
RUN = """
import json, sys
from agent_memory.cli import cli
from click.testing import CliRunner
results = [CliRunner().invoke(cli, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.output] for result in results]))
"""

OF_AN_AGENT = [("list",), ("search", "x"), ("export", "-"), ("store", "x"), ("doctor",)]


def commands(*lines: tuple[str, ...]) -> list[tuple[int, str]]:
    """The exit codes of commands and what they say to a user who is not root."""
    process = [*AS_ANYBODY, sys.executable, "-c", RUN, json.dumps(lines)]
    return json.loads(subprocess.run(process, capture_output=True, text=True, check=True).stdout)


def agents(root: Path) -> dict[str, str]:
    [(code, said)] = commands(("list", "--agents", "--json", "--root", str(root)))
    [row] = json.loads(said)
    assert code == 0 and row["agent"] == "sam"
    return row


def refuses(root: Path, reason: str) -> None:
    """Every command for an agent says why, and claims neither damage nor that there is nothing."""
    where = ("--root", str(root), "--agent", "sam")
    for code, said in commands(*((*words, *where) for words in OF_AN_AGENT)):
        assert code == 1 and reason in said
        for wrong in ("no memory", "damaged", "--repair", "has no locks"):
            assert wrong not in said, said


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user's folder")
async def test_folders_of_other_users_are_refused(make_storage: MakeStorage, root: Path) -> None:
    root.mkdir()
    os.chown(root, 12345, 12345)
    with pytest.raises(StorageError, match="another user"):
        await make_storage().store("x")
    os.chown(root, 0, 0)
    await make_storage().store("x")
    os.chown(root / "sam", 12345, 12345)
    with pytest.raises(StorageError, match="another user") as told:
        await make_storage().store("y")
    assert "Remove" not in str(told.value) and "uid 12345" in str(told.value)
    assert glance.memories(root, "sam") is None  # nor does a start show it
    assert "belongs to another user" in agents(root)["problem"]
    refuses(root, "belongs to another user")
    [advice] = re.findall("`sudo (.*)`", str(told.value))
    subprocess.run(advice, shell=True, check=True)
    assert await make_storage().count() == 1


@pytest.mark.parametrize("what", ["memory", "sam", "lock", "page_0.dat"])
def test_the_unreadable_is_not_taken_for_missing(command: Command, root: Path, what: str) -> None:
    """The root, an agent's folder, or a file of a store, as a command run with sudo leaves it."""
    command.run("store", "one")
    (root / "lost+found").mkdir(0)
    shutil.copytree(root / "sam", root / "sam.bak")  # no agent's, and in nobody's way
    where = ("--root", str(root))
    for path in [root] if what == root.name else list(root.rglob(what)):
        path.chmod(0)
    try:
        refuses(root, "Permission denied")
        if what == "sam":
            assert "Permission denied" in agents(root)["problem"]
        if what == root.name:
            for mode in (0o000, 0o100):
                root.chmod(mode)
                for code, said in commands(("list", "--agents", *where), ("list", *where)):
                    assert code == 1 and "Permission denied" in said
            # By its name the agent can be reached.
            [(code, said)] = commands(("list", *where, "--agent", "sam"))
            assert code == 0 and "one" in said
    finally:
        root.chmod(0o700)


async def test_rejects_a_root_that_is_no_folder(make_storage: MakeStorage, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("a file", "loop", "x" * 5000, "/dev/null"):
        storage = make_storage(storage_root=str(tmp_path / name))
        for call in (storage.store("x"), storage.search("x"), storage.count()):
            with pytest.raises(StorageError, match="Nothing was changed"):
                await call
    settings(storage_root=str(tmp_path / "a file"))
    for code, said in commands(("list", "--agents"), ("list",), ("list", "--agent", "sam")):
        assert code == 1 and "Not a directory" in said


def test_a_read_only_store_is_exported_from_its_journal_and_all_else_says_how(
    command: Command, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.run("store", "in the snapshot")
    # Tests may run as root, who may write anywhere.
    monkeypatch.setattr("memory_semantic.files.folder.os.access", lambda *_: False)
    result = command.run("export", "-")
    assert json.loads(result.stdout.splitlines()[1])["content"] == "in the snapshot"
    assert "read-only" in result.stderr and "its journal, which is whole" in result.stderr
    for words in (("list",), ("store", "x"), ("search", "x"), ("doctor",)):
        said = command.run(*words, code=1).output
        assert "agent-memory export" in said and "cp -r --no-preserve=mode --sparse=always" in said
    journal = root / "sam/memories.jsonl"
    journal.write_bytes(journal.read_bytes()[:-3])
    assert "some cannot be read" in command.run("export", "-").stderr


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
async def test_a_file_system_without_locks(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    await storage.store("x")
    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(StorageError, match=r"no locks. Move .* disk. Nothing was changed.$"):
        await storage.store("y")
    monkeypatch.undo()
    assert await storage.count() == 1


def test_a_copy_beside_a_store_is_nobodys_store(command: Command, root: Path) -> None:
    command.run("store", "x")
    copy_sparse(root / "sam", root / "sam-backup")
    [(code, said)] = commands(("list", "--root", str(root)))
    assert code == 0 and "x" in said
    assert [each["agent"] for each in command.json("list", "--agents")] == ["sam"]
    shutil.rmtree(root / "sam")
    assert "belongs to 'sam'" in commands(("list", "--root", str(root)))[0][1]


THEIRS = ["notes.txt", "draft.tmp", "shard-1.bak", "shard-copy-2", "meta.json", "collection"]


async def test_other_products_in_the_same_root_and_files_beside_a_store_refuse_nothing_and_stay(
    make_storage: MakeStorage, root: Path
) -> None:
    (root / "events").mkdir(parents=True)
    (root / "events").chmod(0o755)
    (root / "sam/qdrant.db").mkdir(parents=True)
    places = [root / "sam/qdrant.db" / name for name in THEIRS]
    places += [root / "sam" / name for name in [*THEIRS, ".gitignore"]]
    places += [root / "events/2026.jsonl", root / "MEMORY.md"]
    for place in places:
        place.write_text("theirs")
    assert await make_storage("events").search("x") == []
    storage = make_storage()
    assert await storage.search("x") == []
    forgotten = await storage.store("x")
    assert await storage.store("y") and await storage.delete([forgotten]) == 1
    assert await storage.check() == [] and await storage.count() == 1
    (root / "sam/qdrant.db/manifest.json").unlink()
    with pytest.raises(StorageError, match="has lost its manifest"):
        await storage.store("z")
    assert {place.read_text() for place in places} == {"theirs"}
    assert stat.S_IMODE((root / "events").stat().st_mode) == 0o755
    assert {path.name for path in (root / "events").iterdir()} == {"2026.jsonl"}


def half_created(database: Path, sound: Path) -> None:
    shutil.copytree(sound / "shard-2", database / "shard-1.tmp")
    (database / "manifest.json.tmp").write_text("{")
    (database.parent / ".gitignore.tmp").touch()


def not_named_by_the_manifest(database: Path, sound: Path) -> None:
    shutil.copytree(sound, database)
    manifest = (database / "manifest.json").read_text()
    (database / "manifest.json").write_text(manifest.replace('"other"', '"sam"'))
    shutil.copytree(database / "shard-2", database / "shard-3")


@pytest.mark.parametrize("leave", [half_created, not_named_by_the_manifest])
async def test_what_an_interruption_left_is_in_nobodys_way_and_cleared(
    make_storage: MakeStorage, root: Path, leave: Callable[[Path, Path], None]
) -> None:
    emptied = make_storage("other")
    await emptied.delete([await emptied.store("x")])  # so its shard is the second
    database = root / "sam/qdrant.db"
    leave(database, root / "other/qdrant.db")
    assert await make_storage().search("x") == []
    assert await make_storage().store("y")
    names = {path.name for path in database.iterdir()}
    assert len(names) == 4 and {"manifest.json", "queue", "lock"} < names
    assert {path.name for path in (root / "sam").iterdir()} <= OF_A_STORE
    assert await make_storage().count() == 1


async def test_a_store_that_could_not_be_made_has_stored_nothing(
    make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr("memory_semantic.files.folder.AgentFolder.clear_debris", fail)
    with pytest.raises(StorageError, match=r"EIO.*Nothing was changed\.$"):
        await make_storage().store("x")
    monkeypatch.undo()
    assert await make_storage().count() == 0


async def test_after_kills_inside_a_flush_nothing_that_is_acknowledged_was_skipped(
    make_storage: MakeStorage, root: Path
) -> None:
    """The engine's count of its operations is the last file of a flush. With an older one, it takes
    the next operations for those that it has seen.
    """
    storage = make_storage()
    memory_id = await storage.store("We deploy on Fridays.")
    await storage.close()
    [last_written] = root.glob("sam/qdrant.db/shard-1/segments/*/segment.json")
    older = last_written.read_bytes()
    for again in ("a", "b", "c"):
        await storage.store("We deploy on Fridays.", [again])
    await storage.close()
    last_written.write_bytes(older)
    await storage.store("We deploy on Fridays.", ["d"])
    found = await storage.get(memory_id)
    assert found and found.tags == ["a", "b", "c", "d"]
    await storage.close()
    last_written.write_bytes(older)
    assert await storage.delete([memory_id]) == 1
    assert await storage.get(memory_id) is None


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
    assert {path.name for path in (root / "sam").iterdir()} == OF_A_STORE
    assert (root / "sam" / ".gitignore").read_text() == "*\n"
    names = {path.name for path in (root / "sam/qdrant.db").iterdir()}
    assert names == {"manifest.json", "queue", "lock", "shard-1"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose name a shell would take apart."""
    home = tmp_path / "it's a $HOME"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AMPLIFIER_AGENT_IDENTITY", "sam")
    return home


def move_away(home: Path) -> None:
    """What the memory bundle does after a yes."""
    (home / ".amplifier/memory").rename(home / ".amplifier-memory")
    (home / ".amplifier-memory/MEMORY.md").write_text("# theirs")


def bring_back(told: str) -> None:
    """Run the one command that an error names."""
    [command] = re.findall("`(mkdir .*)`", told)
    assert command.startswith("mkdir -p ")
    subprocess.run(command, shell=True, check=True)


@pytest.mark.lingers
async def test_a_session_that_had_the_store_open_notices_and_begins_no_new_one(
    home: Path, make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 30)
    storage = MemoryStorage("sam", {"embedding_model": "local"})
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

    alice = MemoryStorage("alice", {"embedding_model": "local"})
    assert await alice.store("y") and await make_storage().store("z")  # which begin as ever
    (home / ".amplifier/memory/sam").mkdir()  # and this is in nobody's way, either
    (home / ".amplifier/memory/sam/usage.jsonl").touch()
    with pytest.raises(StorageError, match="were moved from") as error:
        await storage.store("z")
    bring_back(str(error.value))
    assert await storage.count() == 3 and await storage.get(memory_id)
    assert (home / ".amplifier-memory/MEMORY.md").exists()


@pytest.mark.lingers
async def test_a_copy_that_is_restored_while_the_store_is_open_counts(
    storage: MemoryStorage, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 30)
    await storage.store("x")
    await storage.close()
    shutil.copytree(root / "sam", tmp_path / "copy")
    await storage.store_many(["y", "z"])
    (root / "sam").rename(tmp_path / "away")
    (tmp_path / "copy").rename(root / "sam")
    assert await storage.count() == 1
    await storage.close()


def test_the_command_says_so(home: Path) -> None:
    invoke("store", "x")
    move_away(home)
    where = f"to {home}/.amplifier-memory/sam"
    assert where in invoke("store", "y", code=1).stderr
    [store] = [line for line in invoke("doctor", code=1).stdout.splitlines() if " store " in line]
    assert where in store and store.startswith("✗") and "sam" in invoke("list", "--agents").stdout
    assert not (home / ".amplifier/memory").exists()
    bring_back(store)
    assert "x" in invoke("list").stdout


def test_the_first_text_of_a_new_store_says_that_it_is_new(command: Command) -> None:
    assert command.run("store", "one").stderr == "The store of sam is new: there was none.\n"
    assert command.run("store", "two").stderr == ""
