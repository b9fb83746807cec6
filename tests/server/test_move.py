"""A store that moves to a server and back: all of it arrives, and nothing is lost on the way."""

import asyncio
import json
import os
import shutil
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import command
import pytest
from agent_memory.cli import cli
from click.testing import CliRunner, Result
from command import invoke
from conftest import Clock, MakeStorage, MakeTools
from embeddings_server import EmbeddingsServer
from memory_semantic import Memory, MemoryStorage, StorageError
from memory_semantic.files import disk
from memory_semantic.store import Record
from plain_vectors import PlainVectors
from qdrant_server import QdrantServer, Rule
from store_files import bytes_of

pytestmark = pytest.mark.usefixtures("no_waiting")

ALIAS = "agent-memory.sam"
UPSERT = f"PUT /collections/{ALIAS}/points"
SHARD = "DELETE /collections/agent-memory.sam.shard-1"
AGAIN = "Run it again to resume"


@pytest.fixture
def here(make_storage: MakeStorage) -> MemoryStorage:
    settings()
    return make_storage()


@pytest.fixture
def there(make_storage: MakeStorage, qdrant: QdrantServer, tmp_path: Path) -> MemoryStorage:
    """The store on the server, as another machine sees it."""
    return make_storage(qdrant_url=qdrant.url, storage_root=str(tmp_path / "other"))


def settings(**config: str) -> Path:
    """The settings of the person who moves; this machine's stores are where the tests put them."""
    root = Path("~").expanduser().parent / "memory"
    return command.settings(agent_identity="sam", storage_root=str(root), **config)


def move(*arguments: str, answers: str | None = None, code: int = 0) -> Result:
    """With --yes, unless there are `answers`."""
    options = [*arguments] if answers is not None else [*arguments, "--yes"]
    return invoke("move", *options, input=answers, code=code)


def fill(storage: MemoryStorage, number: int) -> dict[str, Memory]:
    """This many memories, an hour apart, with and without tags."""

    async def restore() -> None:
        for start in range(0, number, 1_000):
            facts = range(start, min(number, start + 1_000))
            await storage.restore([fact(each) for each in facts])

    def fact(each: int) -> Memory:
        tags = [f"tag {n}" for n in range(each % 4)]
        time = Clock().now + timedelta(hours=each, microseconds=each)
        return Memory(agent_id="sam", content=f"fact {each}", tags=tags, timestamp=time)

    asyncio.run(restore())
    return memories(storage)


def memories(storage: MemoryStorage) -> dict[str, Memory]:
    return {memory.content: memory for memory in asyncio.run(storage.get_recent(10_000))}


def manifest(storage: MemoryStorage) -> Any:
    return asyncio.run(storage.info())


def healthy(storage: MemoryStorage) -> bool:
    return asyncio.run(storage.check()) == []


def points(storage: MemoryStorage) -> dict[UUID, Record]:
    found = asyncio.run(storage.run(lambda store: list(store.scan()), []))
    return {point.key: point for page in found for point in page}


def found_by(storage: MemoryStorage) -> list[Any]:
    """The best, and all scores: among equal scores, others may make the cut."""
    asked = ("fact 7", "fact 123", "which of them is 42?")
    answers = [asyncio.run(storage.search(question, 10)) for question in asked]
    return [[answer[0].id, *(round(m.score or 0, 2) for m in answer)] for answer in answers]


def tree(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    own = ("lock", "queue", "moved.json")
    return {str(p): p.read_bytes() for p in files if p.name not in own}


def nothing_on(qdrant: QdrantServer) -> bool:
    return not qdrant.client.get_collections().collections


def upserts(qdrant: QdrantServer) -> int:
    return qdrant.requests.count(("PUT", f"/collections/{ALIAS}/points"))


class TestAll:
    def test_three_hundred_there_and_back(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer, root: Path
    ) -> None:
        before, vectors, made = fill(here, 300), points(here), manifest(here)
        answers = found_by(here)
        said = move("--to", qdrant.url)
        assert "300 memories of sam" in said.stdout and "vectors agree" in said.stdout
        assert f"from {root} to {qdrant.url}" in said.stderr
        assert not here.folder.exists and memories(there) == before
        assert found_by(there) == answers
        self.same(there, vectors, made)
        move("--to", "local", "--from", qdrant.url, "--keep-source")
        assert memories(here) == memories(there) == before
        move("--to", qdrant.url)
        assert not here.folder.exists and memories(there) == before
        move("--to", "local", "--from", qdrant.url)
        assert nothing_on(qdrant) and memories(here) == before and found_by(here) == answers
        self.same(here, vectors, made)

    def same(self, storage: MemoryStorage, vectors: dict[UUID, Record], made: Any) -> None:
        copies, now = points(storage), manifest(storage)
        assert copies.keys() == vectors.keys() and healthy(storage)
        for key, point in copies.items():
            assert point.vector == pytest.approx(vectors[key].vector, abs=1e-3)
            assert point.words == vectors[key].words
        kept = (now.model, now.created, now.words, now.endpoint)
        assert kept == (made.model, made.created, made.words, made.endpoint)

    def test_one_without_words_stays_without(
        self, make_storage: MakeStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        settings()
        fill(make_storage(lexical_weight=0), 3)
        move("--to", qdrant.url)
        assert not manifest(there).words and healthy(there)

    def test_many_take_few_requests(
        self, make_storage: MakeStorage, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings()
        plain = PlainVectors()
        monkeypatch.setattr(MemoryStorage, "generator", lambda self, info: plain)
        before = fill(make_storage(), 1_500)
        move("--to", qdrant.url)
        assert len(qdrant.requests) < 115, Counter(qdrant.requests)
        assert memories(make_storage(qdrant_url=qdrant.url)) == before

    def test_an_empty_store_and_its_model(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        asyncio.run(here.delete([asyncio.run(here.store("one"))]))
        move("--to", qdrant.url)
        assert manifest(there).model.model == "local" and not here.folder.exists

    def test_from_server_to_server(
        self, there: MemoryStorage, qdrant: QdrantServer, make_storage: MakeStorage
    ) -> None:
        settings(qdrant_url=qdrant.url)
        before = fill(there, 10)
        with QdrantServer() as second:
            move("--from", qdrant.url, "--to", second.url)
            assert memories(make_storage(qdrant_url=second.url)) == before
        assert nothing_on(qdrant) and memories(there) == {}


class TestMerged:
    def test_what_is_there_gets_both_tags_and_the_later_time(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        before = fill(here, 10)
        taken = before["fact 3"].id
        older, newer = (Clock().now + timedelta(days=days) for days in (-9, 9))
        asyncio.run(
            there.restore(
                [
                    Memory(agent_id="sam", content="fact 1", tags=["there"], timestamp=older),
                    Memory(agent_id="sam", content="fact 2", tags=["there"], timestamp=newer),
                    Memory(agent_id="sam", content="only there", id=taken),
                ]
            )
        )
        known = memories(there)
        said = move("--to", qdrant.url, "--keep-source").stderr
        assert "where 2 of them are already" in said
        after = memories(there)
        assert after["fact 1"].tags == ["there", "tag 0"]
        assert after["fact 1"].timestamp == before["fact 1"].timestamp
        assert after["fact 2"].tags == ["there", "tag 0", "tag 1"]
        assert after["fact 2"].timestamp == newer
        assert [after[f"fact {n}"].id for n in (1, 2)] == [known[f"fact {n}"].id for n in (1, 2)]
        assert after["only there"].id == taken != after["fact 3"].id
        assert after.keys() == {*before, "only there"} and healthy(there)
        assert memories(here) == before

    def test_one_that_would_have_too_many_tags_does_not_keep_the_others(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        before = fill(here, 5)
        for storage in (there, here):
            tags = [f"{storage.config.qdrant_url} {number}" for number in range(15)]
            asyncio.run(storage.store("same", tags))
        said = move("--to", qdrant.url, code=1)
        assert "same" in said.stderr or memories(here)["same"].id in said.stderr
        assert memories(there).keys() == {*before, "same"}


class TestInterrupted:
    def halfway(self, qdrant: QdrantServer) -> None:
        """The first write is let through."""
        qdrant.between(bool, only=UPSERT)

    def test_by_the_server_the_next_run_goes_on(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        before = fill(here, 300)
        self.halfway(qdrant)
        qdrant.fail(503, times=3, only=UPSERT)
        assert AGAIN in move("--to", qdrant.url, code=1).stderr
        assert memories(here) == before and len(memories(there)) == 128
        qdrant.clear()
        said = move("--to", qdrant.url, "--keep-source")
        assert "where 128 of them are already" in said.stderr and upserts(qdrant) == 2
        assert memories(there) == before and healthy(there)
        qdrant.clear()
        move("--to", qdrant.url)
        assert upserts(qdrant) == 0 and memories(there) == before and not here.folder.exists

    @pytest.mark.parametrize("source", ["here", "there"])
    def test_by_the_person(
        self,
        here: MemoryStorage,
        there: MemoryStorage,
        qdrant: QdrantServer,
        source: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("memory_semantic.copying._COPIED", 250)
        old, new = (here, there) if source == "here" else (there, here)
        places = ["--to", qdrant.url] if old is here else ["--to", "local", "--from", qdrant.url]
        before = fill(old, 300)

        def ctrl_c() -> None:
            os.kill(os.getpid(), signal.SIGINT)

        moment = UPSERT if old is here else f"POST /collections/{ALIAS}/points"
        skipped = 1 if old is here else 5  # the scrolls, and the first batch
        qdrant.rules = [Rule(skipped, moment), Rule(1, moment, before=ctrl_c)]
        assert AGAIN in move(*places, code=1).stderr
        assert memories(old) == before and qdrant.rules == []
        assert 0 < len(memories(new)) < 300
        move(*places)
        assert memories(new) == before and healthy(new)


class TestMeanwhile:
    def test_what_others_store_is_moved_by_the_next_run(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        fill(here, 200)
        qdrant.between(lambda: asyncio.run(here.store("late", ["new"])), only=UPSERT)
        result = move("--to", qdrant.url, code=1)
        assert "others changed something" in result.stderr and here.folder.exists
        move("--to", qdrant.url)
        assert len(memories(there)) == 201 and memories(there)["late"].tags == ["new"]

    def test_tags_and_times_that_others_renew_count_too(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        fill(here, 3)
        qdrant.between(lambda: asyncio.run(here.store("fact 0", ["new"])), only=UPSERT)
        result = move("--to", qdrant.url, code=1)
        assert (
            "others changed something" in result.stderr and "new" in memories(here)["fact 0"].tags
        )

    def test_what_is_stored_on_the_server_meanwhile_keeps_all_of_it_there(
        self, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        settings(qdrant_url=qdrant.url)
        fill(there, 3)
        claim = "PUT /collections/agent-memory.sam.shard-2"
        qdrant.between(lambda: asyncio.run(there.store("late")), only=claim)
        said = move("--to", "local", code=1)
        assert "others changed something" in said.stderr
        assert len(memories(there)) == 4 and "late" in memories(there) and healthy(there)

    def test_a_store_made_there_with_another_model_is_not_mixed(
        self, here: MemoryStorage, qdrant: QdrantServer, there: MemoryStorage
    ) -> None:
        fill(here, 3)
        config = {"qdrant_url": qdrant.url, "storage_root": there.config.storage_root}
        first = MemoryStorage("sam", config, embeddings=PlainVectors())
        make = f"PUT /collections/{ALIAS}.shard-1"
        qdrant.between(lambda: asyncio.run(first.store("theirs")), only=make)
        assert "another model meanwhile" in move("--to", qdrant.url, code=1).stderr
        assert asyncio.run(first.count()) == 1 and len(memories(here)) == 3

    def test_on_the_server_nothing_new_is_deleted_up_to_the_last_request(
        self, there: MemoryStorage, here: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        settings(qdrant_url=qdrant.url)
        fill(there, 3)

        def late() -> None:
            try:
                asyncio.run(there.store("late"))
            except StorageError as error:
                refused.append(error)

        refused: list[StorageError] = []
        other = Thread(target=late)
        qdrant.between(other.start, only=SHARD)
        said = move("--to", "local").output
        other.join()
        assert refused or "late" in {**memories(here), **memories(there)}, said


class TestTheSourceIsRemoved:
    def test_with_all_its_files(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        before = fill(here, 50)
        assert b"fact 3" in bytes_of(here.folder.path)
        said = move("--to", qdrant.url)
        assert f"Deleted from {here.config.storage_root}" in said.stdout
        assert not here.folder.exists and memories(there) == before
        left = {path.name for path in here.folder.path.rglob("*")}
        assert left == {".gitignore", "moved.json"}

    def test_with_what_an_unfinished_reembed_has(
        self, here: MemoryStorage, qdrant: QdrantServer, make_storage: MakeStorage
    ) -> None:
        fill(here, 5)
        begun = here.folder.path / "rebuild"
        begun.mkdir()
        fill(make_storage(storage_root=str(begun)), 5)
        move("--to", qdrant.url)
        assert b"fact 3" not in bytes_of(here.folder.path)

    def test_with_what_an_earlier_repair_kept_or_it_says_so(
        self, here: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        fill(here, 5)
        kept = here.folder.path / "damaged-20260101-000000"
        shutil.copytree(here.folder.database, kept)
        said = CliRunner().invoke(cli, ["move", "--to", qdrant.url, "--yes"])
        assert b"fact 3" not in bytes_of(here.folder.path) or str(kept) in said.output
        (here.folder.path / "moved.json").unlink()
        fill(here, 5)  # a new memory begins beside it
        assert here.folder.exists and kept.exists()

    def test_with_what_an_interrupted_removal_left(
        self,
        here: MemoryStorage,
        there: MemoryStorage,
        qdrant: QdrantServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        before = fill(here, 5)

        def killed(path: Path) -> None:
            raise KeyboardInterrupt

        rename = Path.rename

        def renamed_and_killed(path: Path, to: Path) -> Path:
            rename(path, to)
            raise KeyboardInterrupt

        for how in ({disk: ("remove", killed)}, {Path: ("rename", renamed_and_killed)}):
            with monkeypatch.context() as patch:
                for owner, (name, then) in how.items():
                    patch.setattr(owner, name, then)
                move("--to", qdrant.url, code=1)
        # Not by a text: in the engine's compressed pages, one may be there in parts.
        assert not here.folder.exists and any(here.folder.removed.glob("shard-*"))
        assert "were moved to" in move("--to", qdrant.url, code=1).stderr
        left = {path.name for path in here.folder.path.rglob("*")}
        assert left == {".gitignore", "moved.json"} and memories(there) == before

    def test_a_server_that_fails_meanwhile_keeps_the_source_or_has_lost_nothing(
        self, there: MemoryStorage, here: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        settings(qdrant_url=qdrant.url)
        before = fill(there, 5)
        qdrant.fail(503, times=3, only=SHARD)
        said = move("--to", "local", code=1).stderr
        assert f"but deleting the store in {qdrant.url} failed" in said and memories(here) == before
        invoke("doctor", "--repair", "--yes")
        assert memories(there) == memories(here) == before
        move("--to", "local")
        assert nothing_on(qdrant) and memories(here) == before

    def test_on_a_server_with_collection_and_alias(
        self, there: MemoryStorage, qdrant: QdrantServer, make_storage: MakeStorage
    ) -> None:
        settings(qdrant_url=qdrant.url)
        fill(there, 5)
        other = make_storage("alice", qdrant_url=qdrant.url)
        asyncio.run(other.store("hers"))
        assert f"Deleted from {qdrant.url}" in move("--to", "local").stdout
        left = qdrant.client.get_collections().collections
        assert [one.name for one in left] == ["agent-memory.alice.shard-1"]
        assert [a.alias_name for a in qdrant.client.get_aliases().aliases] == ["agent-memory.alice"]

    @pytest.mark.parametrize("answers", ["n\n", ""])
    def test_not_without_a_yes(
        self, here: MemoryStorage, qdrant: QdrantServer, answers: str
    ) -> None:
        before = fill(here, 5)
        result = move("--to", qdrant.url, answers=answers, code=1)
        assert memories(here) == before and healthy(here)
        assert "Nothing was changed" in result.stderr and nothing_on(qdrant)

    @pytest.mark.parametrize(
        "written", ["http://127.0.0.1{}/", "HTTP://127.0.0.1{}", "http://localhost{}"]
    )
    def test_never_where_it_was_moved_to(
        self, there: MemoryStorage, qdrant: QdrantServer, written: str
    ) -> None:
        """An address can be written in many ways."""
        settings(qdrant_url=qdrant.url)
        before = fill(there, 5)
        name = written.format(qdrant.url.removeprefix("http://127.0.0.1"))
        options = ["--from", qdrant.url, "--to", name, "--yes"]
        CliRunner().invoke(cli, ["move", *options])
        assert memories(there) == before


class TestForgotten:
    def forget(self, storage: MemoryStorage, text: str) -> None:
        assert asyncio.run(storage.delete([memories(storage)[text].id])) == 1

    def test_what_was_forgotten_in_the_new_place_does_not_come_back_with_the_way_back(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        before = fill(here, 5)
        move("--to", qdrant.url)
        self.forget(there, "fact 3")
        asyncio.run(there.store("new"))
        move("--to", "local", "--from", qdrant.url)
        assert memories(here).keys() == {*before, "new"} - {"fact 3"} and healthy(here)
        assert b"fact 3" not in bytes_of(here.folder.path)

    @pytest.mark.parametrize("to", ["the server", "this machine"])
    def test_what_is_forgotten_while_it_moves_stays_forgotten(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer, to: str
    ) -> None:
        to_server = to == "the server"
        old, new = (here, there) if to_server else (there, here)
        before = fill(old, 5)
        asyncio.run(new.store("fact 4"))  # of the new place's own

        def forget() -> None:
            for text in ("fact 3", "fact 4"):
                self.forget(old, text)

        if to_server:
            qdrant.between(forget, only=UPSERT)
            said = move("--to", qdrant.url)
        else:
            qdrant.between(forget, only="PUT /collections/agent-memory.sam.shard-2")
            said = move("--to", "local", "--from", qdrant.url)
        assert "Deleted from" in said.stdout
        assert memories(new).keys() == before.keys() - {"fact 3"} and healthy(new)

    def test_with_two_stores_it_says_what_that_means(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        before = fill(here, 5)
        said = move("--to", qdrant.url, "--keep-source")
        assert "What is forgotten in one of them stays in the other" in said.stderr
        assert "Deleted from" not in said.stdout
        self.forget(there, "fact 3")
        assert memories(here) == before
        move("--to", qdrant.url)
        assert memories(there) == before


class TestOldSettings:
    """A session or a command that still names the old place is told where the memories are."""

    @pytest.fixture
    def moved(self, here: MemoryStorage, qdrant: QdrantServer) -> str:
        """What everyone is told."""
        fill(here, 2)
        move("--to", qdrant.url)
        note = here.folder.path / "moved.json"
        today = json.loads(note.read_text())["on"]
        return (
            f"The memories of 'sam' were moved to {qdrant.url} on {today}. Nothing was changed. "
            f"Set qdrant_url to {qdrant.url} (or, to begin anew, delete {note})."
        )

    async def test_reading_and_storing_in_a_session(
        self, here: MemoryStorage, qdrant: QdrantServer, make_tools: MakeTools, root: Path
    ) -> None:
        await asyncio.to_thread(lambda: (fill(here, 2), move("--to", qdrant.url)))
        tools = await make_tools()
        for tool, arguments in (("search", {"query": "fact"}), ("store", {"content": "new"})):
            said = await tools.refused(f"memory_{tool}", **arguments)
            assert f"were moved to {qdrant.url} on " in said
        assert not here.folder.exists
        found = await (await make_tools(qdrant_url=qdrant.url)).call("memory_search", query="fact")
        assert len(found["memories"]) == 2

    def test_a_session_that_was_running(
        self, here: MemoryStorage, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("memory_semantic.files.door.LINGER_SECONDS", 5)
        fill(here, 2)
        move("--to", qdrant.url)
        with pytest.raises(StorageError, match="were moved to"):
            asyncio.run(here.store("new"))
        assert not here.folder.exists

    @pytest.mark.parametrize(
        "words",
        ["list", "search x", "store x", "forget mem-00000000 --yes", "stats", "doctor", "export -"],
    )
    def test_every_command(self, moved: str, here: MemoryStorage, words: str) -> None:
        assert moved in invoke(*words.split(), code=1).output.replace("\n", " ")
        assert not here.folder.exists

    def test_the_list_of_agents(self, moved: str) -> None:
        [row] = json.loads(invoke("agents", "--json").stdout)
        assert row == {"agent": "sam", "problem": moved}
        assert moved in invoke("list", "--agent", "sam", code=1).stderr

    def test_the_same_move_again(self, moved: str, qdrant: QdrantServer) -> None:
        assert moved in move("--to", qdrant.url, code=1).stderr

    def test_a_third_place(
        self, moved: str, there: MemoryStorage, here: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        with QdrantServer() as second:
            said = move("--from", qdrant.url, "--to", second.url).stderr
            assert "they would begin a new one there" in " ".join(said.split())
            settings(qdrant_url=qdrant.url)
            for _ in range(2):
                assert f"were moved to {second.url}" in invoke("store", "x", code=1).stderr
                settings()
            settings(qdrant_url=qdrant.url)
            assert f"were moved to {second.url}" in invoke("doctor", code=1).stdout
            settings(qdrant_url=second.url)
            assert len(json.loads(invoke("list", "--json").stdout)) == 2
        assert nothing_on(qdrant) and not here.folder.exists

    @pytest.mark.parametrize("options", [[], ["--keep-source"]])
    def test_after_the_way_back_the_note_is_gone(
        self, moved: str, here: MemoryStorage, qdrant: QdrantServer, options: list[str]
    ) -> None:
        move("--to", "local", "--from", qdrant.url, *options)
        assert not (here.folder.path / "moved.json").exists()
        assert invoke("doctor", code=0).exit_code == 0
        asyncio.run(here.store("new"))
        assert len(memories(here)) == 3 and healthy(here)

    def test_a_new_beginning(self, moved: str, here: MemoryStorage) -> None:
        note = here.folder.path / "moved.json"
        assert note.stat().st_mode & 0o077 == here.folder.path.stat().st_mode & 0o077 == 0
        assert b"fact" not in note.read_bytes()
        note.unlink()
        asyncio.run(here.store("new"))
        assert len(memories(here)) == 1 and healthy(here)

    def test_what_2_0_noted_stops_nobody(self, here: MemoryStorage, qdrant: QdrantServer) -> None:
        here.folder.make_outermost()
        created = "2026-01-31T09:00:00Z"
        record = {"source": "local", "target": qdrant.url, "created": created, "marks": ["0" * 16]}
        (here.folder.path / "moved.json").write_text(json.dumps([record]))
        before = fill(here, 2)
        assert memories(here) == before and healthy(here)


class TestAnotherModelThere:
    @pytest.fixture
    def target(
        self, make_storage: MakeStorage, qdrant: QdrantServer, server: EmbeddingsServer
    ) -> MemoryStorage:
        config = {"embedding_model": "m", "base_url": server.base_url, "qdrant_url": qdrant.url}
        storage = make_storage(**config)
        asyncio.run(storage.store("fact 1", ["there"]))
        settings(base_url=server.base_url)
        return storage

    def test_says_so_and_embeds_what_is_new(
        self,
        here: MemoryStorage,
        target: MemoryStorage,
        qdrant: QdrantServer,
        server: EmbeddingsServer,
    ) -> None:
        before = fill(here, 10)
        server.requests.clear()
        said = move("--to", qdrant.url)
        assert "The store there has the model 'm', 1536 dimensions" in said.stderr
        assert "Their text goes to 127.0.0.1" in said.stderr
        assert "texts, tags and times agree" in said.stdout
        embedded = [text for request in server.requests for text in request["input"]]
        assert sorted(text for text in embedded if text in before) == sorted({*before} - {"fact 1"})
        assert "9 memories to embed" in said.stderr
        after = memories(target)
        assert after.keys() == before.keys() and after["fact 1"].tags == ["there", "tag 0"]
        assert healthy(target) and manifest(target).model.model == "m"
        assert asyncio.run(target.search("fact 7", 1))[0].content == "fact 7"

    def test_a_no_sends_no_memory(
        self,
        here: MemoryStorage,
        target: MemoryStorage,
        qdrant: QdrantServer,
        server: EmbeddingsServer,
    ) -> None:
        fill(here, 10)
        server.requests.clear()
        move("--to", qdrant.url, answers="n\n", code=1)
        assert "fact" not in json.dumps(server.requests) and len(memories(target)) == 1

    def test_that_cannot_be_used_changes_nothing(
        self, here: MemoryStorage, target: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        before = fill(here, 10)
        settings()  # without the service
        said = move("--to", qdrant.url, code=1)
        assert "no base_url is set" in said.stderr
        assert len(memories(target)) == 1 and memories(here) == before

    def test_without_its_key_nothing_changes(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        openai = PlainVectors()
        openai.model = "text-embedding-3-small"
        storage = MemoryStorage("sam", there.config.model_dump(), embeddings=openai)
        asyncio.run(storage.store("one"))
        before = fill(here, 10)
        said = move("--to", qdrant.url, code=1)
        assert "OPENAI_API_KEY" in said.stderr and memories(here) == before
        assert asyncio.run(storage.count()) == 1


class TestRefused:
    def test_where_it_is_already(self, here: MemoryStorage) -> None:
        fill(here, 1)
        assert "The store is already there" in move("--to", "local", code=2).stderr
        again = ("--from", "http://127.0.0.1:9", "--to", "http://127.0.0.1:9")
        assert "The store is already there" in move(*again, code=2).stderr

    def test_where_there_is_none(
        self, here: MemoryStorage, qdrant: QdrantServer, root: Path
    ) -> None:
        assert "'sam' has no store in" in move("--to", qdrant.url, code=1).stderr
        said = move("--to", "local", "--from", qdrant.url, code=1)
        assert f"has no store in {qdrant.url}" in said.stderr
        assert nothing_on(qdrant) and not root.exists()

    @pytest.mark.parametrize("url", ["qdrant.example:6333", "ftp://a", "http://a:secret@b", "x"])
    def test_rejects_invalid_addresses(self, here: MemoryStorage, url: str, root: Path) -> None:
        said = move("--to", url, code=2)
        assert "must be an address" in said.stderr and "secret" not in said.stderr
        assert not root.exists()

    @pytest.mark.parametrize("options", [["--to", "{}"], ["--to", "local", "--from", "{}"]])
    def test_a_server_that_is_down(
        self, here: MemoryStorage, qdrant: QdrantServer, options: list[str], root: Path
    ) -> None:
        before = fill(here, 2)
        files = tree(root)
        qdrant.stop()
        said = move(*(each.format(qdrant.url) for each in options), code=1)
        assert "could not be reached" in said.stderr and "Traceback" not in said.output
        assert tree(root) == files and memories(here) == before

    def test_a_key_that_is_wrong(self, here: MemoryStorage, qdrant: QdrantServer) -> None:
        fill(here, 2)
        qdrant.api_key = "right"
        said = move("--to", qdrant.url, code=1)
        assert "Check AGENT_MEMORY_QDRANT_API_KEY" in said.stderr and nothing_on(qdrant)

    def test_a_text_that_was_altered(
        self, here: MemoryStorage, qdrant: QdrantServer, there: MemoryStorage
    ) -> None:
        """Nothing in such a store is trusted."""
        fill(here, 5)
        [page] = here.folder.database.glob("shard-1/segments/*/payload_storage/page_0.dat")
        # All of them: the engine compresses, so one text alone may not be there literally.
        page.write_bytes(page.read_bytes().replace(b"fact", b"fakt"))
        said = move("--to", qdrant.url, code=1)
        assert "is damaged" in said.stderr and "agent-memory doctor" in said.stderr
        assert memories(there) == {} and here.folder.exists

    def test_a_text_that_was_altered_on_the_server(
        self, here: MemoryStorage, qdrant: QdrantServer, there: MemoryStorage
    ) -> None:
        settings(qdrant_url=qdrant.url)
        fill(there, 5)
        [key] = [key for key, point in points(there).items() if "3" in point.payload["content"]]
        qdrant.client.set_payload(ALIAS, {"content": "fact X"}, [str(key)])
        said = move("--to", "local", code=1)
        assert "is damaged" in said.stderr and memories(here) == {}
        assert not nothing_on(qdrant)


class TestSaid:
    def test_to_a_script(self, here: MemoryStorage, qdrant: QdrantServer, root: Path) -> None:
        fill(here, 3)
        places = {"from": str(root), "to": qdrant.url}
        for options in (["--keep-source"], ["--remove-source"]):  # the second one is of 2.0
            said = json.loads(move("--to", qdrant.url, "--json", *options).stdout)
            removed = options == ["--remove-source"]
            assert said == {"agent": "sam", "memories": 3, **places, "source_removed": removed}
        assert "--remove-source" not in invoke("move", "--help").stdout

    def test_by_the_way_without_disturbing_the_result(
        self, here: MemoryStorage, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(here, 150)
        monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True)
        with_bar = move("--to", qdrant.url, "--keep-source")
        assert "Copying" in with_bar.stderr and "Copying" not in with_bar.stdout
        assert json.loads(move("--to", qdrant.url, "--json").stdout)["memories"] == 150

    def test_which_setting_is_needed_now(
        self, here: MemoryStorage, there: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        path = settings()
        fill(here, 1)
        keep = "--keep-source"
        said = move("--to", qdrant.url, keep).stderr
        assert f"      qdrant_url: {qdrant.url}\n" in said and "settings.yaml" in said
        settings(qdrant_url=qdrant.url)
        said = move("--from", "local", "--to", qdrant.url, keep).stderr
        assert "Sessions use it once" not in said
        said = move("--to", "local", keep).stderr
        assert f"In {path}:" in said and "      qdrant_url: local\n" in said
        settings(qdrant_url="local")
        assert "qdrant_url" not in move("--from", qdrant.url, "--to", "local").stderr

    def test_that_the_old_place_is_deleted_before_the_question(
        self, here: MemoryStorage, qdrant: QdrantServer, root: Path
    ) -> None:
        fill(here, 1)
        said = move("--to", qdrant.url, answers="n\n", code=1).stderr
        announced = f"Once all is there, the store in {root} is deleted."
        assert said.index(announced) < said.index("Start?") and "Nothing was changed" in said
        assert f"Deleted from {root}." in move("--to", qdrant.url).stdout
