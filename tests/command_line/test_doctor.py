"""`doctor`: names each problem and what fixes it, and its repair does fix it."""

import asyncio
import json
import os
import resource
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import cli
from click.testing import CliRunner
from command import Command, settings
from conftest import Clock, MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import MemoryStorage
from memory_semantic.files.shard import ENGINE
from memory_semantic.memory import Memory
from memory_semantic.store import Store
from store_files import copy_sparse, cut, empty, garble, remove

REPAIR = "agent-memory doctor --repair"


@pytest.fixture
def memories(make_storage: MakeStorage, clock: Clock) -> list[Memory]:
    storage = make_storage()

    async def fill() -> list[Memory]:
        for number in range(12):
            clock.advance(days=1)
            await storage.store(f"Fact number {number} is kept.", [f"tag {number}"])
        return await storage.get_recent(100)

    return asyncio.run(fill())


def findings(command: Command, *arguments: str, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    """The findings that are not ok, by subject."""
    unwell: dict[str, list[dict[str, Any]]] = {}
    for finding in command.json("doctor", *arguments, code=code):
        if finding["state"] != "ok":
            unwell.setdefault(finding["subject"], []).append(finding)
    return unwell


def shard(storage: MemoryStorage) -> Path:
    manifest = storage.folder.manifest()
    assert manifest
    return storage.folder.database / manifest.shard


def file_in(storage: MemoryStorage, name: str) -> Path:
    [path] = shard(storage).glob(f"segments/*/{name}")
    return path


class TestWell:
    def test_a_healthy_store(self, command: Command, memories: list[Memory]) -> None:
        settings(agent_identity="sam")
        result = command.run("doctor")
        assert "✗" not in result.stdout and "!" not in result.stdout
        assert "12 memories: hashes, vectors and indexes agree" in result.stdout
        assert "Amplifier's sessions here run as 'sam'" in result.stdout
        assert (
            "There is nothing that a repair could fix" in command.run("doctor", "--repair").stderr
        )

    def test_an_agent_without_a_store(self, command: Command) -> None:
        [store] = findings(command)["store"]
        assert store["state"] == "warning" and "has no memory" in store["text"]
        assert not command.root.exists()


class TestSettings:
    def test_an_identity_that_nobody_set(self, command: Command, memories: list[Memory]) -> None:
        [identity] = findings(command)["identity"]
        assert identity["state"] == "warning" and "settings.yaml" in identity["mend"]

    def test_an_invalid_identity(self, command: Command, memories: list[Memory]) -> None:
        settings(agent_identity="Sam")
        [identity] = findings(command, code=1)["identity"]
        assert "lower case: sam" in identity["text"]

    def test_without_an_agent_the_settings_are_examined(
        self, command: Command, memories: list[Memory]
    ) -> None:
        command.run("store", "one", "--agent", "alice")
        for config, said in (({}, "alice, sam"), ({"agent_identity": "Sam"}, "lower case")):
            settings(**config)
            result = CliRunner().invoke(cli, ["doctor", "--root", str(command.root)])
            assert result.exit_code == 1 and said in result.stdout
            assert "Not examined" in result.stdout and "settings.yaml" in result.stdout

    def test_an_invalid_setting(self, command: Command, memories: list[Memory]) -> None:
        settings(agent_identity="sam", lock_timeout="soon")
        assert "lock_timeout" in findings(command, code=1)["store"][0]["text"]

    def test_an_agent_other_than_that_of_the_sessions(
        self, command: Command, memories: list[Memory], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AMPLIFIER_AGENT_IDENTITY", "alice")
        [identity] = findings(command)["identity"]
        assert "'sam' instead" in identity["text"]

    def test_a_settings_file_that_is_not_yaml(
        self, command: Command, memories: list[Memory]
    ) -> None:
        path = settings(agent_identity="sam")
        path.write_text("overrides: [\n")
        [problem] = findings(command, code=1)["settings"]
        assert str(path) in problem["text"] and "line 2" in problem["text"]


class TestModel:
    def test_a_missing_key(
        self, command: Command, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        command.run("store", "one")
        monkeypatch.delenv("OPENAI_BASE_URL")
        settings(agent_identity="sam", base_url=server.base_url)
        assert findings(command) == {}
        server.script = [(401, {}, b'{"error": {"message": "wrong key: a-key"}}')]
        [model] = findings(command, code=1)["model"]
        assert "Check OPENAI_API_KEY" in model["text"] and "a-key" not in json.dumps(model)
        assert "reembed --model local" in model["mend"]

    def test_a_service_that_is_down(self, command: Command, server: EmbeddingsServer) -> None:
        settings(agent_identity="sam", base_url=server.base_url, embedding_model="m")
        command.run("store", "one")
        settings(agent_identity="sam", base_url="http://127.0.0.1:9/v1", embedding_model="m")
        [model] = findings(command, code=1)["model"]
        assert "could not be reached" in model["text"]
        assert findings(command, "--offline") == {}

    def test_a_model_other_than_that_of_the_store(
        self, command: Command, memories: list[Memory]
    ) -> None:
        settings(agent_identity="sam", embedding_model="text-embedding-3-small")
        [model] = findings(command, code=1)["model"]
        assert "reembed --model text-embedding-3-small" in model["mend"]


class TestFolder:
    def test_files_that_others_can_read(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        folder = make_storage().folder.path
        folder.chmod(0o755)
        result = command.run("doctor")
        assert "tightened to the owner alone" in result.stdout
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_a_root_that_everyone_can_write_to(
        self, command: Command, memories: list[Memory], root: Path
    ) -> None:
        root.chmod(0o777)
        [store] = findings(command, code=1)["store"]
        assert "chmod o-w" in store["text"] and store["mend"] == ""

    def test_a_store_in_use(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        database = make_storage().folder.database
        holder = subprocess.Popen(["flock", database / "lock", "sleep", "30"])
        while subprocess.call(["flock", "-n", database / "lock", "true"]) == 0:
            pass
        settings(agent_identity="sam", lock_timeout="0.5")
        found = findings(command, code=1)
        assert "in use" in found["lock"][0]["text"]
        assert all(finding["mend"] != REPAIR for finding in found["store"])  # nothing is damaged
        holder.terminate()
        holder.wait()

    def test_a_full_disk(
        self, command: Command, memories: list[Memory], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import shutil

        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
        [disk] = findings(command, code=1)["disk"]
        assert "1.0 MB are free; 67.1 MB are needed" in disk["text"]

    def test_an_interrupted_rebuild(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        (make_storage().folder.path / "rebuild").mkdir()
        assert "reembed" in findings(command)["rebuild"][0]["mend"]


# The code that every Python process of a test runs first.
FAILS_TO_SET = """
import resource
def setrlimit(*_):
    raise {error}("it cannot be set")
resource.setrlimit = setrlimit
"""


class TestCheckingApart:
    """The check runs in a separate process, with a limit on its memory if one can be set."""

    def test_a_limit_that_is_lower_already(self, command: Command, memories: list[Memory]) -> None:
        result = command.limited("-v 4000000", "doctor")
        assert result.returncode == 0, result.stdout
        assert "12 memories: hashes, vectors and indexes agree" in result.stdout

    @pytest.mark.parametrize("error", ["ValueError", "OSError"])
    def test_a_system_that_cannot_set_a_bound(
        self, command: Command, memories: list[Memory], tmp_path: Path, error: str
    ) -> None:
        (tmp_path / "sitecustomize.py").write_text(FAILS_TO_SET.format(error=error))
        process = command.start("doctor", PYTHONPATH=str(tmp_path))
        output, _ = process.communicate()
        assert process.returncode == 0 and "vectors and indexes agree" in output

    def test_a_check_that_fails_is_not_damage(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage, tmp_path: Path
    ) -> None:
        (tmp_path / "sitecustomize.py").write_text(FAILS_TO_SET.format(error="RuntimeError"))
        process = command.start("doctor", "--repair", "--yes", PYTHONPATH=str(tmp_path))
        output, complaints = process.communicate()
        assert process.returncode == 1 and "The check failed" in output
        assert REPAIR not in output and "nothing that a repair could fix" in complaints
        assert not list(make_storage().folder.path.glob("damaged-*"))


class TestFoldersOfOurOwn:
    """The doctor knows what a repair, a rebuild or a removal leaves behind."""

    @pytest.mark.parametrize("name", ["damaged-20260101-000000", "rebuild", "rebuild.tmp"])
    def test_a_store_can_be_created_beside_them(
        self, command: Command, make_storage: MakeStorage, name: str
    ) -> None:
        folder = make_storage().folder.path / name
        (folder / "sam").mkdir(parents=True)
        [left] = [each for each in command.json("doctor") if str(folder) in each["mend"]]
        assert left["state"] == "warning"
        command.run("store", "A new beginning.")
        assert len(command.json("list")) == 1
        assert folder.exists() or name.endswith(".tmp")

    def test_those_of_others_are_left_alone(
        self, command: Command, make_storage: MakeStorage
    ) -> None:
        (make_storage().folder.path / "topics").mkdir(parents=True)
        assert "Unexpected file topics" in command.run("store", "A new beginning.", code=1).stderr


DAMAGE = [
    ("mutable_id_tracker.mappings", remove),
    ("mutable_id_tracker.versions", cut),
    ("version.info", remove),
    ("segment.json", garble),
    ("payload_storage/tracker.dat", remove),
    ("vector_storage/vectors/status.dat", empty),
    ("vector_storage/vectors/chunk_0.mmap", garble),
]


class TestErasure:
    """After an interruption the memory is in no answer, but its bytes are not erased yet."""

    @pytest.fixture
    def hidden(self, memories: list[Memory], make_storage: MakeStorage) -> Memory:
        def hide(store: Store) -> None:
            store.delete(store.newest(1))

        asyncio.run(make_storage().run(hide, None))
        return memories[0]

    def is_on_disk(self, memory: Memory, root: Path) -> bool:
        files = [path for path in root.rglob("*") if path.is_file()]
        return any(memory.id.encode() in path.read_bytes() for path in files)

    def test_the_doctor_warns_and_its_repair_finishes_it(
        self, command: Command, hidden: Memory, root: Path
    ) -> None:
        [warning] = findings(command)["forgotten"]
        assert (warning["state"], warning["mend"]) == ("warning", REPAIR)
        assert "may still be on disk" in warning["text"] and self.is_on_disk(hidden, root)
        refused = command.run("doctor", "--repair", input="n\n", code=1)
        assert "Erase what is left" in refused.stderr and self.is_on_disk(hidden, root)
        command.run("doctor", "--repair", "--yes")
        assert not self.is_on_disk(hidden, root)
        assert "forgotten" not in findings(command) and len(command.json("list")) == 11
        assert not list(root.rglob("damaged-*"))

    def test_the_next_forget_finishes_it(
        self, command: Command, hidden: Memory, root: Path
    ) -> None:
        result = command.run("forget", hidden.id, "--yes", code=1)
        assert f"no memory {hidden.id}" in result.stderr and "now erased" in result.stderr
        assert not self.is_on_disk(hidden, root) and len(command.json("list")) == 11


class TestRepair:
    @pytest.mark.parametrize(("name", "harm"), DAMAGE)
    def test_every_memory_comes_back(
        self,
        command: Command,
        memories: list[Memory],
        make_storage: MakeStorage,
        name: str,
        harm: Callable[[Path], None],
    ) -> None:
        storage = make_storage()
        harm(file_in(storage, name))
        found = findings(command, code=1)["store"]
        assert all(finding["mend"] == REPAIR for finding in found)
        result = command.run("doctor", "--repair", input="y\n")
        assert "12 can be read and 0 cannot" in result.stderr
        assert asyncio.run(storage.get_recent(100)) == memories
        assert asyncio.run(storage.check()) == []
        assert "memories: hashes, vectors and indexes agree" in result.stdout
        [kept] = storage.folder.path.glob("damaged-*")
        assert {"page_0.dat", "chunk_0.mmap"} <= {path.name for path in kept.rglob("*")}
        assert stat.S_IMODE(kept.stat().st_mode) == 0o700
        [left] = findings(command)["kept files"]
        assert f"rm -r {kept}" in left["mend"]

    @pytest.mark.parametrize("place", [1_000_000_000, 4_000_000_000])
    def test_an_engine_that_asks_for_too_much_memory(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage, place: int
    ) -> None:
        mappings = file_in(make_storage(), "mutable_id_tracker.mappings")
        whole = mappings.read_bytes()
        mappings.write_bytes(whole[:101] + place.to_bytes(4, "little") + whole[105:])
        [store] = findings(command, code=1)["store"]
        assert store["mend"] == REPAIR
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20  # in kB
        command.run("doctor", "--repair", "--yes")
        texts = {memory.content for memory in asyncio.run(make_storage().get_recent(100))}
        assert texts == {memory.content for memory in memories}

    @pytest.mark.parametrize("harm", [remove, empty, cut, garble])
    def test_a_lost_manifest(
        self,
        command: Command,
        memories: list[Memory],
        make_storage: MakeStorage,
        harm: Callable[[Path], None],
    ) -> None:
        storage = make_storage()
        harm(storage.folder.database / "manifest.json")
        [store] = findings(command, code=1)["store"]
        assert store["mend"] == REPAIR and "Run `agent-memory doctor`" not in store["text"]
        command.run("doctor", "--repair", "--yes")
        assert asyncio.run(storage.get_recent(100)) == memories
        assert asyncio.run(storage.check()) == []

    def test_a_shard_of_another_series_of_the_engine(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        storage = make_storage()
        path = storage.folder.database / "manifest.json"
        path.write_text(path.read_text().replace(ENGINE, "qdrant-edge 0.1"))
        assert "qdrant-edge 0.1" in command.run("list", code=1).stderr
        [store] = findings(command, code=1)["store"]
        assert store["mend"] == REPAIR and "qdrant-edge 0.1" in store["text"]
        command.run("doctor", "--repair", "--yes")
        assert asyncio.run(storage.get_recent(100)) == memories
        assert ENGINE in path.read_text()

    def test_such_a_shard_keeps_its_model_whatever_the_settings_say(
        self, command: Command, make_storage: MakeStorage, server: EmbeddingsServer
    ) -> None:
        settings(embedding_model="m", base_url=server.base_url)
        command.run("store", "one")
        path = make_storage().folder.database / "manifest.json"
        path.write_text(path.read_text().replace(ENGINE, "qdrant-edge 0.1"))
        settings(embedding_model="local", base_url=server.base_url)
        command.run("doctor", "--repair", "--yes", code=1)  # the settings are still another's
        [row] = command.json("agents")
        assert (row["memories"], row["model"]) == (1, "m")

    def test_two_memories_with_one_id(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        storage, old, new = make_storage(), memories[-1], memories[0]

        def share(store: Store) -> None:
            [doubled] = store.get([new.key]).values()
            store.delete([doubled])
            store.update([doubled.model_copy(update={"id": old.id})])

        asyncio.run(storage.run(share, None))
        [found] = findings(command, code=1)["store"]
        assert f"The id {old.id} belongs to 2 memories" in found["text"] and found["mend"] == REPAIR
        assert "doctor --repair" in command.run("show", old.id, code=1).stderr
        assert "1 memory with a new id" in command.run("doctor", "--repair", "--yes").stderr
        assert command.json("show", old.id)["content"] == old.content
        assert len({memory.id for memory in asyncio.run(storage.get_recent(100))}) == 12
        assert not list(storage.folder.path.glob("damaged-*"))

    def test_what_cannot_be_read_is_counted(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        page = file_in(make_storage(), "payload_storage/page_0.dat")
        data = bytearray(page.read_bytes())
        at = data.index(memories[3].id.encode()) // 128 * 128
        data[at : at + 128] = os.urandom(128)
        page.write_bytes(data)
        result = command.run("doctor", "--repair", "--yes")
        assert "11 can be read and 1 cannot" in result.stderr
        texts = {memory.content for memory in asyncio.run(make_storage().get_recent(100))}
        assert texts == {memory.content for memory in memories} - {memories[3].content}

    def test_what_was_forgotten_stays_forgotten(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        storage = make_storage()
        old = shard(storage)
        kept = command.root.with_name("kept")
        copy_sparse(old, kept)
        command.run("forget", memories[0].id, "--yes")
        kept.rename(old)  # as if the process had been killed before it was removed
        file_in(storage, "version.info").unlink()
        command.run("doctor", "--repair", "--yes")
        assert {m.id for m in asyncio.run(storage.get_recent(99))} == {m.id for m in memories[1:]}

    def test_a_refusal_changes_nothing(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        manifest = make_storage().folder.database / "manifest.json"
        manifest.write_text("{")
        command.run("doctor", "--repair", input="n\n", code=1)
        assert manifest.read_text() == "{"

    def test_where_nothing_can_be_read_nothing_is_changed(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        page = file_in(make_storage(), "payload_storage/page_0.dat")
        page.write_bytes(os.urandom(page.stat().st_size))
        result = command.run("doctor", "--repair", "--yes", code=1)
        assert "nothing to make a new store from" in result.stderr
        assert not list(make_storage().folder.path.glob("damaged-*"))

    def test_a_newer_versions_store_is_left_alone(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage
    ) -> None:
        path = make_storage().folder.database / "manifest.json"
        path.write_text(path.read_text().replace('"format": 2', '"format": 99'))
        [store] = findings(command, "--repair", "--yes", code=1)["store"]
        assert "Upgrade" in store["text"] and store["mend"] == ""
        assert '"format": 99' in path.read_text()

    def test_another_agents_store_is_left_alone(
        self, command: Command, memories: list[Memory], make_storage: MakeStorage, root: Path
    ) -> None:
        (root / "sam").rename(root / "alice")
        result = command.run("doctor", "--repair", "--yes", "--agent", "alice", code=1)
        assert "Move it back" in result.stdout
        (root / "alice").rename(root / "sam")
        assert asyncio.run(make_storage().count()) == 12
