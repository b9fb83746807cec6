"""`doctor`: names each problem and what fixes it, and its repair does fix it."""

import asyncio
import json
import os
import random
import re
import resource
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import Result
from command import Command, invoke, settings
from conftest import Clock
from embeddings_server import EmbeddingsServer
from memory_semantic import Memory, MemoryStorage
from memory_semantic.files.door import take_lock
from memory_semantic.limits import EMBEDDED_AT_ONCE, ENGINE, INDEXED
from processes import start
from store_files import bytes_of, copy_sparse, garble

REPAIR = "agent-memory doctor --repair"
# What it adds to a command, so that it is about the same store.
OPTIONS = re.compile(r" --agent \S+ --root \S+")


class Doctor(Command):
    """The doctor, and the store of `sam` that it examines."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage.folder.root)
        self.storage = storage
        self.folder, self.database = storage.folder.path, storage.folder.database
        self.manifest = self.database / "manifest.json"
        self.journal = self.folder / "memories.jsonl"

    def findings(self, *arguments: str, code: int = 0) -> dict[str, list[dict[str, Any]]]:
        """Those that are not ok, by subject."""
        unwell: dict[str, list[dict[str, Any]]] = {}
        for finding in self.json("doctor", *arguments, code=code):
            finding["mend"] = OPTIONS.sub("", finding["mend"])
            if finding["state"] != "ok":
                unwell.setdefault(finding["subject"], []).append(finding)
        return unwell

    def finding(self, subject: str, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The only one on this subject that is not ok."""
        [finding] = self.findings(*arguments, code=code)[subject]
        return finding

    def file(self, name: str) -> Path:
        """This file of the newest shard, or the manifest."""
        if name == self.manifest.name:
            return self.manifest
        [path] = self.storage.folder.shards[-1].glob(f"segments/*/{name}")
        return path

    def memories(self) -> list[Memory]:
        return asyncio.run(self.storage.get_recent(None))


@pytest.fixture
def fresh(storage: MemoryStorage) -> Doctor:
    """Before there is a store."""
    return Doctor(storage)


@pytest.fixture
def doctor(fresh: Doctor, clock: Clock) -> Doctor:
    """With twelve memories."""
    memories = [
        Memory(
            agent_id="sam",
            content=f"Fact number {day} is kept.",
            tags=[f"tag {day}"],
            timestamp=clock.now + timedelta(days=day),
        )
        for day in range(12)
    ]
    asyncio.run(fresh.storage.restore(memories))
    return fresh


def test_a_healthy_store(doctor: Doctor) -> None:
    settings(agent_identity="sam")
    result = doctor.run("doctor")
    package = version("amplifier-module-tool-memory-semantic")
    assert result.stdout == f"sam: 12 memories, all well (agent-memory {package})\n"
    assert result.stderr == ""
    everything = doctor.run("doctor", "--verbose").stdout
    assert "✗" not in everything and "!" not in everything
    assert "12 memories: hashes, vectors, indexes and the journal agree" in everything
    assert "Amplifier's sessions here run as 'sam'" in everything
    assert everything.endswith(result.stdout)
    assert "There is nothing that a repair could fix" in doctor.run("doctor", "--repair").stderr


def test_an_agent_without_a_store_and_a_fresh_machine(fresh: Doctor) -> None:
    said = invoke("doctor").stdout
    assert " has no store in" in said and "identity" not in said  # perhaps there is no Amplifier
    assert not Path("~/.amplifier").expanduser().exists()
    for config in ({"agent_identity": "alice"}, {}, {"agent_identity": "sam"}):
        settings(**config)
        said = fresh.run("doctor").stdout
        assert f"'sam' has no store in {fresh.root}. The first memory makes one." in said
    assert len(said.splitlines()) == 1 and not fresh.root.exists()


def test_problems_come_first_and_what_is_well_only_if_asked(doctor: Doctor) -> None:
    (doctor.folder / "damaged-7").mkdir()
    settings(agent_identity="sam", embedding_model="text-embedding-3-small")
    result = doctor.run("doctor", code=1)
    marks = [line[0] for line in result.stdout.splitlines() if line[0] != " "]
    assert marks == ["✗", "!"] and "agent-memory doctor --verbose" in result.stderr
    assert "reembed" in result.stdout.splitlines()[0] and "→" not in result.stdout.splitlines()[1]
    everything = doctor.run("doctor", "-v", code=1)
    assert everything.stdout.startswith(result.stdout) and "✓ disk" in everything.stdout
    assert everything.stderr.startswith("To the commands above, add --agent sam --root")
    states = [finding["state"] for finding in doctor.json("doctor", code=1)]
    assert states[-1] == "problem" and states.count("ok") > 4  # as they were found


class TestSettings:
    @pytest.mark.parametrize(
        ("config", "state", "subject", "said"),
        [
            ({}, "warning", "identity", "settings.yaml"),
            ({"agent_identity": "Sam"}, "problem", "identity", "lower case: sam"),
            ({"lock_timeout": "soon"}, "problem", "store", "lock_timeout"),
            ({"embedding_model": "m"}, "problem", "model", "reembed --model m"),
        ],
    )
    def test_a_wrong_one_is_named(
        self, doctor: Doctor, config: dict[str, str], state: str, subject: str, said: str
    ) -> None:
        settings(**config)
        finding = doctor.finding(subject, code=int(state == "problem"))
        assert finding["state"] == state and said in finding["text"] + finding["mend"]

    def test_without_an_agent_they_are_examined(self, doctor: Doctor) -> None:
        doctor.run("store", "one", "--agent", "alice")
        for config, said in (({}, "alice, sam"), ({"agent_identity": "Sam"}, "lower case: sam")):
            settings(**config)
            result = invoke("doctor", "--root", str(doctor.root), code=1)
            assert said in result.stdout and "✗ store" in result.stdout

    def test_an_identity_in_the_environment(
        self, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AMPLIFIER_AGENT_IDENTITY", "alice")
        everything = doctor.run("doctor", "--verbose").stdout  # it was asked for
        assert "'sam' instead" in everything and "sam: 12 memories, all well" in everything
        path = settings(agent_identity="sam")
        identity = doctor.finding("identity")
        assert identity["state"] == "warning" and str(path) in identity["mend"]
        assert "AMPLIFIER_AGENT_IDENTITY names 'alice', but is not used" in identity["text"]


def test_a_service_that_is_down_or_refuses_is_named_and_no_short_outage_changes_the_store(
    fresh: Doctor, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    settings(agent_identity="sam", base_url=server.base_url, embedding_model="m")
    fresh.run("store", "one")
    assert fresh.findings() == {}  # seven examinations of a store in a child take seconds
    refused, busy = (401, "Check OPENAI_API_KEY", "reembed"), (503, "Try again later", "")
    for status, said, mend in (refused, busy):
        server.script = [(status, {"retry-after": "0"}, b'{"error": {"message": "a-key"}}')] * 3
        model = fresh.finding("model", code=1)
        assert said in model["text"] and "a-key" not in json.dumps(model)
        assert mend in model["mend"] and bool(mend) == bool(model["mend"])
        server.script.clear()
    server.drip_seconds = 0.01
    with monkeypatch.context() as impatient:
        impatient.setattr("agent_memory.examination._SERVICE_SECONDS", 0.2)
        model = fresh.finding("model", code=1)
    assert model["text"].startswith(f"m at {urlsplit(server.base_url).netloc} gave no answer")
    assert "reembed" not in model["mend"]
    settings(agent_identity="sam", base_url="http://127.0.0.1:9/v1", embedding_model="m")
    model = fresh.finding("model", code=1)
    assert "could not be reached" in model["text"] and model["mend"] == ""
    assert fresh.findings("--offline") == {}


class TestFolder:
    def test_what_others_can_read_or_write_to(self, doctor: Doctor) -> None:
        doctor.folder.chmod(0o755)
        result = doctor.run("doctor", "--verbose")
        assert "tightened to the owner alone" in result.stdout
        assert stat.S_IMODE(doctor.folder.stat().st_mode) == 0o700
        doctor.root.chmod(0o777)
        store = doctor.finding("store", code=1)
        assert "chmod o-w" in store["text"] and store["mend"] == ""

    def test_a_store_in_use(self, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
        """However long it is waited for, that is not the engine's time."""
        settings(agent_identity="sam", lock_timeout="3")
        monkeypatch.setattr("memory_semantic.files.doctor._SECONDS", 2)
        with take_lock(doctor.database, time.monotonic()):  # as another process may
            found = doctor.findings(code=1)
        assert "in use" in found["store"][0]["text"]  # once
        assert all(finding["mend"] != REPAIR for finding in found["store"])  # nothing is damaged

    def test_a_full_disk(self, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
        store = doctor.finding("store", code=1)
        assert "1.0 MB are free, but it takes 67.1 MB" in store["text"]
        assert "Free 66.1 MB there" in store["text"] and store["mend"] == ""

    @pytest.mark.parametrize(
        ("name", "mend"),
        [
            ("damaged-7", "When you no longer need it"),
            ("qdrant.db/0123456789abcdef-8.vectors", "Run the same one again, or discard"),
        ],
    )
    def test_what_a_repair_or_a_reembed_leaves_is_named_and_stops_no_store(
        self, fresh: Doctor, name: str, mend: str
    ) -> None:
        left = fresh.folder / name
        left.parent.mkdir(parents=True)
        left.touch()
        for _ in range(2):  # without a store and with one
            [found] = [each for each in fresh.json("doctor") if str(left) in each["mend"]]
            assert found["state"] == "warning" and mend in found["mend"]
            fresh.run("store", "A new beginning.")
        assert len(fresh.json("list")) == 1 and left.exists()


def test_a_manifest_that_cannot_be_read_is_told_like_all_else(doctor: Doctor) -> None:
    doctor.manifest.unlink()
    doctor.manifest.mkdir()
    assert "Is a directory (EISDIR)" in doctor.finding("store", code=1)["text"]


def test_a_repair_that_is_named_says_whose(doctor: Doctor) -> None:
    doctor.run("store", "Tea is at four.", "--agent", "bob")
    doctor.manifest.write_text("")
    where = f" --agent sam --root {doctor.root}"
    told = doctor.run("search", "Where?", code=1).stderr
    assert told.count(REPAIR) == 1 and told.endswith(f"To the command above, add{where}\n")
    told = invoke("doctor", "--repair", "--root", str(doctor.root), code=2).output
    assert "Whose memories?" in told and "that a repair could fix" not in told


def test_a_check_that_fails_is_not_damage(doctor: Doctor, tmp_path: Path) -> None:
    """It runs in a child, whose memory is bounded; here, that fails in a way nobody expects."""
    fails = "import resource\ndef fail(*_): raise RuntimeError\nresource.setrlimit = fail\n"
    (tmp_path / "sitecustomize.py").write_text(fails)
    process = doctor.start("doctor", "--repair", "--yes", PYTHONPATH=str(tmp_path))
    output, complaints = process.communicate()
    assert process.returncode == 1 and "The check failed" in output
    assert " --repair" not in output and "nothing that a repair could fix" in complaints
    assert not list(doctor.folder.glob("damaged-*"))


# In bursts, so that the store stays open in between.
BUSY = """
async def main():
    for number in range(1, 1_000_000):
        await storage().store(f"Fact number {number} of a busy session.")
        if number % 5 == 0:
            forgotten = await storage().store("Something to forget.")
            await storage().delete([forgotten])
        if number == 10:
            print("busy", flush=True)
asyncio.run(main())
"""


def test_during_a_busy_session_it_tells_of_one_moment(doctor: Doctor) -> None:
    settings(agent_identity="sam")
    session = start(doctor.root, BUSY)
    assert session.stdout and session.stdout.readline() == "busy\n"
    found = doctor.json("doctor")
    counts = [n for each in found for n in re.findall(r"([0-9,]+) memories", each["text"])]
    assert len(counts) == 1
    [permissions] = [each for each in found if each["subject"] == "permissions"]
    assert (permissions["state"], permissions["text"]) == ("ok", "the owner alone")
    assert not [each for each in found if each["state"] == "problem"]
    said = doctor.run("doctor", "--verbose").stdout
    assert len(set(re.findall(r"([0-9,]+) memories", said))) == 1
    assert session.poll() is None  # it was disturbed by nothing
    session.kill()
    session.communicate()


def far_away(mappings: Path) -> None:
    """Let a list of ids put one so far that the engine asks for too much memory."""
    whole = mappings.read_bytes()
    mappings.write_bytes(whole[:101] + (4_000_000_000).to_bytes(4, "little") + whole[105:])


def without_end(path: Path) -> None:
    """The engine waits for its content, and meanwhile no Python runs in its process."""
    path.unlink()
    os.mkfifo(path)


def said(result: Result) -> str:
    """What a command told beside its output, on one line."""
    return " ".join(result.stderr.split())


class TestRepair:
    """Each case takes seconds: the checks and the repair run in children."""

    @pytest.mark.parametrize(
        ("name", "harm", "problem", "whole"),
        [
            ("mutable_id_tracker.mappings", far_away, "The vector engine crashes on", False),
            ("segment.json", without_end, "The vector engine hangs on", False),
            ("vector_storage/vectors/chunk_0.mmap", garble, "its vector is not whole", True),
        ],
    )
    def test_every_memory_comes_back(
        self,
        doctor: Doctor,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        harm: Callable[[Path], None],
        problem: str,
        whole: bool,
    ) -> None:
        """With the words of its text, whatever the settings want of new stores. A shard that could
        not be read whole is kept.
        """
        settings(lexical_weight="0", lock_timeout="1")
        monkeypatch.setattr("memory_semantic.files.doctor._SECONDS", 3)
        memories = doctor.memories()
        harm(doctor.file(name))
        found = doctor.findings(code=1)["store"]
        assert problem in found[0]["text"] and all(each["mend"] == REPAIR for each in found)
        assert not any("Run `agent-memory doctor`" in each["text"] for each in found)
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20  # in kB
        with take_lock(doctor.database, time.monotonic()):  # the child has ended
            pass
        result = doctor.run("doctor", "--repair", input="y\n")
        assert "Of at least 12 that were stored, 12 will be there" in said(result)
        assert doctor.memories() == memories and asyncio.run(doctor.storage.check()) == []
        assert "sam: 12 memories, all well" not in result.stdout  # the settings name no agent
        info = asyncio.run(doctor.storage.info())
        assert info and info.words == INDEXED
        kept = doctor.folder / "damaged-1"
        assert kept.exists() != whole
        if not whole:
            assert {"page_0.dat", "chunk_0.mmap"} <= {path.name for path in kept.rglob("*")}
            assert stat.S_IMODE(kept.stat().st_mode) == 0o700
            assert f"rm -r {kept}" in said(result)
            assert f"rm -r {kept}" in doctor.finding("kept files")["mend"]

    def test_of_a_service_only_what_cannot_be_read_is_embedded_and_nothing_twice(
        self, fresh: Doctor, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Killed when it asks for the second part, it goes on with that. The store keeps its model,
        whatever the settings say.
        """
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        server.dimensions = 8
        config = {"base_url": server.base_url, "embedding_model": "m", "lexical_weight": "1"}
        settings(agent_identity="sam", **config)
        lines = "".join(f"Fact number {n}.\n" for n in range(EMBEDDED_AT_ONCE + 30))
        fresh.run("import", "-", input=lines)
        texts = [memory.content for memory in fresh.memories()]
        vectors, first = fresh.file("vector_storage/vectors/chunk_0.mmap"), 10 * 2 * 8
        lost = bytearray(vectors.read_bytes())
        assert any(lost[:first]) and any(lost[first:])  # those of ten memories, and the others
        lost[first:] = bytes(len(lost) - first)
        vectors.write_bytes(lost)
        other = fresh.manifest.read_text().replace(ENGINE, "qdrant-edge 0.1")
        fresh.manifest.write_text(other)
        asked: list[str] = []
        killed: list[subprocess.Popen[str]] = []

        def answer(request: dict[str, Any]) -> Any:
            asked.extend(text for text in request["input"] if text in texts)
            if len(asked) > EMBEDDED_AT_ONCE and killed:
                killed[0].kill()
            return EmbeddingsServer.vectors(server, request)

        monkeypatch.setattr(server, "vectors", answer)
        refused = said(fresh.run("doctor", "--repair", input="n\n"))
        left = len(texts) - 10
        assert f"At most {left} memories to embed, about" in refused and asked == []
        assert not (fresh.folder / "damaged-1").exists() and "Nothing was changed" in refused
        server.script = [server.vectors, *[(500, {"retry-after": "0"}, b"")] * 99]
        failed = said(fresh.run("doctor", "--repair", "--yes", code=1))
        assert "out of use until a repair is complete" in failed and "was changed" not in failed
        server.script.clear()
        killed.append(fresh.start("doctor", "--repair", "--yes"))
        killed[0].communicate()
        assert len({*asked}) == left == len(asked)
        again = {*asked[EMBEDDED_AT_ONCE:]}
        killed.clear()
        asked.clear()
        settings(agent_identity="sam", **config | {"embedding_model": "local"})
        assert fresh.finding("kept files", code=1)["mend"] == REPAIR
        fresh.run("doctor", "--repair", "--yes", code=1)  # the settings name another model
        assert {*asked} == again and len(asked) == len(again)
        settings(agent_identity="sam", **config)
        assert {memory.content for memory in fresh.memories()} == {*texts}
        assert fresh.findings() == {} and not (fresh.folder / "damaged-1").exists()

    def test_what_only_one_of_the_two_has_and_what_neither_has_is_counted(
        self, doctor: Doctor
    ) -> None:
        memories = doctor.memories()
        page, journal = doctor.file("payload_storage/page_0.dat"), doctor.folder / "memories.jsonl"
        whole, lines = page.read_bytes(), journal.read_text().splitlines(True)

        def lose(in_shard: Sequence[Memory], in_journal: Sequence[Memory]) -> None:
            data = bytearray(whole)
            for memory in in_shard:
                at = data.index(memory.id.encode()) // 128 * 128
                data[at : at + 128] = bytes(128)  # at random ones, the engine crashes now and then
            page.write_bytes(data)
            ids = {memory.id for memory in in_journal}
            kept = [line for line in lines[1:] if json.loads(line)["id"] not in ids]
            journal.write_text("".join((lines[0], *kept)))

        lose(memories, memories)
        nothing = doctor.run("doctor", "--repair", "--yes", code=1)
        assert "nothing to make a new store from. Nothing was changed." in said(nothing)
        assert not list(doctor.folder.glob("damaged-*"))
        lose(memories[5:7], memories[6:9])
        assert (
            "The engine can read 10 memories, and the journal has 9. Of at least 12 that were "
            "stored, 11 will be there: 1 from the journal alone, 2 from the shard alone, 8 from "
            "both." in said(doctor.run("doctor", "--repair", "--yes"))
        )
        assert doctor.memories() == memories[:6] + memories[7:]
        assert (doctor.folder / "damaged-1").exists()

    def test_what_was_forgotten_stays_forgotten(self, doctor: Doctor) -> None:
        [forgotten, *others] = doctor.memories()
        [shard] = doctor.database.glob("shard-*")
        kept = doctor.root.with_name("kept")
        copy_sparse(shard, kept)
        doctor.run("forget", forgotten.id, "--yes")
        doctor.file("version.info").unlink()
        kept.rename(shard)  # as if the process had been killed before it was removed
        doctor.run("doctor", "--repair", "--yes")
        assert {memory.id for memory in doctor.memories()} == {memory.id for memory in others}
        assert forgotten.id.encode() not in bytes_of(doctor.folder)

    def test_a_backup_that_was_put_back_counts(self, doctor: Doctor) -> None:
        """And not the shard that an interrupted repair had put aside before."""
        [shard], kept = doctor.database.glob("shard-*"), doctor.root.with_name("kept")
        copy_sparse(doctor.folder, kept)
        doctor.storage.folder.put_aside(shard)
        shutil.rmtree(doctor.database)
        copy_sparse(kept / "qdrant.db", doctor.folder)
        doctor.run("store", "After that.")
        memories = doctor.memories()
        assert doctor.finding("kept files")["mend"].startswith("When you no longer need it")
        doctor.file("version.info").unlink()
        aside = doctor.folder / "damaged-1"
        told = said(doctor.run("doctor", "--repair", "--yes", code=1))
        assert f"has left {aside}. Move it away, and try again. Nothing was changed." in told
        aside.rename(doctor.root.with_name("away"))
        doctor.run("doctor", "--repair", "--yes")
        assert doctor.memories() == memories and len(memories) == 13

    @pytest.mark.parametrize("left", ["manifest", "journal"])
    def test_vectors_of_another_model_are_not_taken_for_those_of_the_store(
        self, fresh: Doctor, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch, left: str
    ) -> None:
        """Of the model before, the manifest is back, or the journal, and no manifest."""

        def answer(request: dict[str, Any]) -> Any:
            dice = [random.Random(f"{request['model']} {text}") for text in request["input"]]
            vectors = [[each.gauss() for _ in range(99)] for each in dice]
            return server.answer([{"index": n, "embedding": v} for n, v in enumerate(vectors)])

        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setattr(server, "vectors", answer)
        config = {"base_url": server.base_url, "lexical_weight": "0", "agent_identity": "sam"}
        settings(embedding_model="one", **config)
        texts = [f"Fact number {n}." for n in range(3)]
        fresh.run("import", "-", input="\n".join(texts))
        old = {path: path.read_bytes() for path in (fresh.manifest, fresh.journal)}
        fresh.run("reembed", "--model", "two", "--yes")
        fresh.manifest.unlink()
        kept = fresh.manifest if left == "manifest" else fresh.journal
        kept.write_bytes(old[kept])
        settings(embedding_model="two" if left == "manifest" else "one", **config)
        fresh.run("doctor", "--repair", "--yes")
        for text in texts:
            [found] = fresh.json("search", text, "-n", "1")
            assert found["content"] == text and found["score"] > 0.9

    @pytest.mark.parametrize("has_shard", [True, False])
    def test_a_repair_is_named_where_something_is_left(
        self, doctor: Doctor, has_shard: bool
    ) -> None:
        memories = doctor.memories()
        doctor.manifest.unlink()
        doctor.journal.write_text("")
        if not has_shard:
            shutil.rmtree(doctor.database)
        told = doctor.run("list", code=1).stderr
        assert f"begin anew, move {doctor.folder} away" in told and (REPAIR in told) == has_shard
        if has_shard:
            doctor.run("doctor", "--repair", "--yes")
            assert doctor.memories() == memories

    def test_after_a_no_and_where_it_cannot_help_all_is_left_alone(self, doctor: Doctor) -> None:
        whole = doctor.manifest.read_text()
        doctor.manifest.write_text("{")
        doctor.run("doctor", "--repair", input="n\n")
        assert doctor.manifest.read_text() == "{" and doctor.file("segment.json").exists()
        newer = re.sub('"format": [0-9]+', '"format": 99', whole)
        doctor.manifest.write_text(newer)
        store = doctor.finding("store", "--repair", "--yes", code=1)
        assert "made by a newer version (format 99). Upgrade" in store["text"]
        assert store["mend"] == "" and doctor.manifest.read_text() == newer != whole
        doctor.manifest.write_text(whole)
        doctor.folder.rename(doctor.root / "alice")  # a store of another agent
        result = doctor.run("doctor", "--repair", "--yes", "--agent", "alice", code=1)
        assert "Move it back" in result.stdout
        (doctor.root / "alice").rename(doctor.folder)
        assert len(doctor.memories()) == 12
