"""The commands on a store that a Qdrant server keeps: as on files, with what differs there."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from agent_memory.cli import cli
from click.testing import CliRunner, Result
from command import invoke, settings
from conftest import Clock, MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage
from memory_semantic.memory import point_id, utc_now
from memory_semantic.store import EmbeddingModel, StoreInfo
from memory_server.shards import Shards
from qdrant_server import QdrantServer

pytestmark = pytest.mark.usefixtures("no_waiting")

ALIAS = "agent-memory.sam"
SWITCH = "POST /collections/aliases"
OLD, NEW = f"/collections/{ALIAS}.shard-1/points", f"/collections/{ALIAS}.shard-2/points"
READY = f"PATCH /collections/{ALIAS}.shard-2"
TEXTS = ["We chose PostgreSQL.", "We deploy on Fridays.", "Lunch is at noon."]


@pytest.fixture
def qdrant(qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> QdrantServer:
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", qdrant.url)
    return qdrant


@pytest.fixture
def storage(make_storage: MakeStorage, qdrant: QdrantServer, tmp_path: Path) -> MemoryStorage:
    """The store as another machine sees it."""
    return make_storage(qdrant_url=qdrant.url, storage_root=str(tmp_path / "other"))


@pytest.fixture
def ids(storage: MemoryStorage, clock: Clock) -> list[str]:
    """The ids of the three texts, oldest first."""
    found = []
    for number, text in enumerate(TEXTS):
        clock.advance(days=1)
        found.append(asyncio.run(storage.store(text, [f"tag {number}"])))
    return found


def run(*arguments: str, input: str | None = None, code: int = 0) -> Result:
    """The command for `sam`, where the settings say."""
    named = "--agent" in arguments
    options = [*arguments, *([] if named else ["--agent", "sam"])]
    return invoke(*options, input=input, code=code)


def as_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def memories(storage: MemoryStorage) -> dict[str, Memory]:
    return {memory.content: memory for memory in asyncio.run(storage.get_recent(10_000))}


def unwell(*arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """What the doctor finds by subject, except that no settings name the agent."""
    found = as_json("doctor", *arguments, code=code)
    return {f["subject"]: f for f in found if f["state"] != "ok" and f["subject"] != "identity"}


def collections(qdrant: QdrantServer) -> dict[str, list[str]]:
    """All collections by name, with their aliases."""
    names = [one.name for one in qdrant.client.get_collections().collections]
    aliases = qdrant.client.get_aliases().aliases
    return {n: [a.alias_name for a in aliases if a.collection_name == n] for n in names}


class TestAsWithFiles:
    def test_store_search_list_show_and_agents(self, qdrant: QdrantServer, root: Path) -> None:
        assert f"No agent has a store in {qdrant.url} yet" in run("list", "--agents").stderr
        stored = as_json("store", "The launch is in May.", "--tag", "Launch")
        assert stored["status"] == "stored" and stored["embedding_model"] == "local"
        again = as_json("store", "The launch is in May.", "--tag", "more")
        assert again["memory_id"] == stored["memory_id"] and "already known" in again["status"]
        [found] = as_json("search", "when is the launch?")
        assert found.pop("score") and [found] == as_json("list", "--tag", "more")
        assert len(json.loads(invoke("list", "--json").stdout)) == 1  # the only agent has no name
        shown = as_json("show", stored["memory_id"].removeprefix("mem-"))
        assert shown["tags"] == ["launch", "more"]
        run("store", "two", "--agent", "alice")
        alice, sam = as_json("list", "--agents")
        assert (alice["agent"], sam["agent"]) == ("alice", "sam")
        assert sam["memories"] == 1 and sam["bytes"] is None and sam["model"] == "local"
        assert "sam\t1\t-\tlocal" in run("list", "--agents").stdout
        assert not root.exists()

    def test_forget_by_id_and_by_tag(self, ids: list[str], storage: MemoryStorage) -> None:
        assert "Nothing was changed" in run("forget", ids[0], input="n\n").stderr
        said = run("forget", ids[0], input="y\n").stdout
        assert "Gone from search. The server takes them out of its files" in said
        assert as_json("forget", "--tag", "tag 1", "--yes")["forgotten"] == [ids[1]]
        assert memories(storage).keys() == {TEXTS[2]}
        assert TEXTS[0] not in run("search", "PostgreSQL").stdout
        assert "no memory" in run("forget", ids[0], "--yes", code=1).stderr

    def test_export_and_import(
        self, ids: list[str], storage: MemoryStorage, tmp_path: Path
    ) -> None:
        before, file = memories(storage), str(tmp_path / "export.jsonl")
        assert as_json("export", file)["memories"] == 3
        assert as_json("import", file)["unchanged"] == 3
        run("forget", *ids[:2], "--yes")
        counts = as_json("import", file)
        assert (counts["new"], counts["merged"], counts["unchanged"]) == (2, 0, 1)
        assert memories(storage) == before

    def test_stats_and_page(self, ids: list[str], qdrant: QdrantServer, tmp_path: Path) -> None:
        facts = as_json("stats")
        assert facts["bytes"] is None and facts["memories"] == 3
        assert f"server    {qdrant.url}" in run("stats").stdout
        page = tmp_path / "page.html"
        run("stats", "--html", str(page))
        assert all(text in page.read_text() for text in TEXTS)

    def test_root_means_this_machine(
        self, ids: list[str], qdrant: QdrantServer, root: Path, storage: MemoryStorage
    ) -> None:
        qdrant.clear()
        run("store", "on files", "--root", str(root))
        assert [m["content"] for m in as_json("list", "--root", str(root))] == ["on files"]
        assert as_json("list", "--agents", "--root", str(root))[0]["bytes"] > 0
        assert "No agent" in run("list", "--agents", "--root", str(root / "none")).stderr
        assert qdrant.requests == [] and len(memories(storage)) == 3


class TestErrors:
    @pytest.fixture
    def commands(self, tmp_path: Path) -> list[list[str]]:
        """All that need a store."""
        file = tmp_path / "note.txt"
        file.write_text("a note\n")
        lines = f"""search x, store x, list, show mem-000000000000, export -, import {file},
            forget mem-000000000000 --yes, reembed --model local --yes, stats, doctor"""
        return [line.split() for line in lines.split(",")]

    def test_a_store_that_is_still_in_files_is_not_ignored_by_any_command(
        self, qdrant: QdrantServer, root: Path, commands: list[list[str]]
    ) -> None:
        settings(storage_root=str(root))
        run("store", "on files", "--root", str(root))
        for command in commands:
            said = run(*command, code=1).output
            assert f"`agent-memory export memories.jsonl --agent sam --root {root}`" in said
            assert said.count("Nothing was changed") <= 1, command
        assert collections(qdrant) == {}

    def test_what_it_says_takes_the_store_to_the_server(
        self, qdrant: QdrantServer, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        settings(storage_root=str(root))
        run("store", "on files", "--tag", "one", "--root", str(root))
        before = as_json("list", "--root", str(root))
        said = run("list", code=1).stderr
        export, load = (each.split() for each in re.findall("`agent-memory (.*?)`", said))
        run(*export)
        run(*load, code=1)
        for name in ("qdrant.db", "backup.jsonl"):
            (root / "sam" / name).rename(tmp_path / name)
        run(*load)
        assert as_json("list") == before

    def test_one_sentence_where_the_server_is_down(
        self, qdrant: QdrantServer, commands: list[list[str]]
    ) -> None:
        qdrant.stop()
        for command in [*commands, ["list", "--agents"]]:
            said = run(*command, code=1).output
            assert "could not be reached, in 3 tries. Check qdrant_url" in said, command

    def test_a_wrong_key_and_a_wrong_address(
        self, ids: list[str], qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        qdrant.api_key = "right"
        monkeypatch.setenv("AGENT_MEMORY_QDRANT_API_KEY", "very-wrong")
        said = run("list", code=1).output
        assert "Check AGENT_MEMORY_QDRANT_API_KEY" in said and "very-wrong" not in said
        monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", "qdrant:6333")
        assert "qdrant_url must be an address" in run("list", code=2).stderr


class TestDoctor:
    def test_an_agent_without_a_store_and_a_healthy_one(
        self, qdrant: QdrantServer, storage: MemoryStorage
    ) -> None:
        settings(agent_identity="sam")
        assert f"'sam' has no store at {qdrant.url}" in run("doctor").stdout
        assert unwell() == {} and collections(qdrant) == {}
        asyncio.run(storage.store("fact 0"))
        assert "nothing that a repair could fix" in run("doctor", "--repair").stderr
        asyncio.run(storage.store_many([f"fact {number}" for number in range(300)]))
        qdrant.clear()
        said = run("doctor", "--offline", "--verbose").stdout
        assert f"{qdrant.url} answers: Qdrant 1.20.0" in said
        assert "300 memories: hashes and vectors agree" in said
        assert len(qdrant.requests) < 30, qdrant.requests

    @pytest.mark.parametrize(
        ("url", "warned"),
        [
            ("http://qdrant.example:6333", True),
            ("https://qdrant.example:6333", False),
            ("http://localhost:6333", False),
            ("http://[::1]:6333", False),
        ],
    )
    async def test_a_key_that_goes_unencrypted(
        self, url: str, warned: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Shards, "version", lambda *_: "1.20.0")
        monkeypatch.setattr(Shards, "present", lambda *_: None)
        storage = MemoryStorage("sam", {"qdrant_url": url, "qdrant_api_key": "k"})
        place = storage.backend
        about = place.findings(storage.config, lambda *_: nullcontext())  # type: ignore[arg-type]
        found = [finding async for finding in about]
        assert warned == any("unencrypted" in finding.text for finding in found)

    def test_words_that_are_missing(self, make_storage: MakeStorage, qdrant: QdrantServer) -> None:
        asyncio.run(make_storage(qdrant_url=qdrant.url, lexical_weight=0).store("one"))
        assert unwell()["words"]["mend"] == "agent-memory reembed --model local"
        run("reembed", "--model", "local")
        assert unwell() == {}

    def test_what_no_repair_can_mend_is_reported_and_causes_no_traceback(
        self, ids: list[str], qdrant: QdrantServer
    ) -> None:
        key = str(point_id(TEXTS[2]))
        for harm in (
            lambda: qdrant.client.set_payload(ALIAS, {"content": "other"}, [key]),
            lambda: qdrant.client.delete_payload(ALIAS, ["id"], [key]),
        ):
            harm()
            found = unwell(code=1)["store"]
            assert "it is not what was stored" in found["text"]
            assert "--repair" not in found["mend"]
        assert "Traceback" not in run("doctor", "--repair", "--yes", code=1).output


@dataclass
class Reembed:
    """Runs `reembed` with the model m on the three texts of `ids`. `storage` is the store with its
    old model, `new` with m, which `service` serves.
    """

    ids: list[str]
    storage: MemoryStorage
    new: MemoryStorage
    qdrant: QdrantServer
    service: EmbeddingsServer

    def __call__(self, code: int = 0) -> Result:
        return run("reembed", "--model", "m", "--yes", code=code)

    def texts(self) -> set[str]:
        return {*memories(self.new)}


@pytest.fixture
def reembed(
    ids: list[str],
    storage: MemoryStorage,
    make_storage: MakeStorage,
    qdrant: QdrantServer,
    server: EmbeddingsServer,
) -> Reembed:
    settings(base_url=server.base_url)
    config = {"embedding_model": "m", "base_url": server.base_url}
    return Reembed(ids, storage, make_storage(qdrant_url=qdrant.url, **config), qdrant, server)


def vectors_of(storage: MemoryStorage) -> dict[Any, Any]:
    def read(store: Any) -> list[Any]:
        return [point for page in store.scan() for point in page]

    found = asyncio.run(storage.run(read, []))
    return {(p.key, at): number for p in found for at, number in enumerate(p.vector)}


class TestReembed:
    def test_to_another_model_and_again_without_sending_a_text(self, reembed: Reembed) -> None:
        storage, qdrant, service = reembed.storage, reembed.qdrant, reembed.service
        before = memories(storage)
        said = reembed()
        assert "3 memories to embed" in said.stderr and "with the model 'm', 1536" in said.stdout
        assert collections(qdrant) == {f"{ALIAS}.shard-2": [ALIAS]}
        assert memories(storage) == before and unwell() == {}
        assert as_json("search", TEXTS[1])[0]["content"] == TEXTS[1]
        vectors = vectors_of(storage)
        service.requests.clear()
        reembed()
        assert collections(qdrant) == {f"{ALIAS}.shard-3": [ALIAS]}
        assert not any(text in json.dumps(service.requests) for text in TEXTS)
        assert vectors_of(storage) == pytest.approx(vectors, abs=1e-3)
        run("reembed", "--model", "local", "--yes")
        assert collections(qdrant) == {f"{ALIAS}.shard-4": [ALIAS]} and unwell() == {}
        assert memories(storage) == before

    def test_an_interrupted_one_keeps_serving_and_resumes(self, reembed: Reembed) -> None:
        storage, qdrant, service = reembed.storage, reembed.qdrant, reembed.service
        facts = {f"fact {number}" for number in range(150)}
        asyncio.run(storage.store_many(sorted(facts)))
        qdrant.between(bool, only=f"PUT {NEW}")
        qdrant.fail(503, times=3, only=f"PUT {NEW}")
        assert "HTTP 503" in reembed(code=1).stderr
        assert collections(qdrant)[f"{ALIAS}.shard-1"] == [ALIAS] and len(memories(storage)) == 153
        left = unwell()["collections"]
        assert "1 more for this agent" in left["text"] and "reembed --model" in left["mend"]
        copied, _ = qdrant.client.scroll(f"{ALIAS}.shard-2", limit=1)
        assert copied[0].payload
        run("forget", copied[0].payload["id"], "--yes")
        service.requests.clear()
        reembed()
        texts = [text for request in service.requests for text in request["input"]]
        assert sum(text in {*facts, *TEXTS} for text in texts) == 153 - 128
        after = memories(storage)
        assert len(after) == 152 and copied[0].payload["content"] not in after
        assert collections(qdrant) == {f"{ALIAS}.shard-3": [ALIAS]} and unwell() == {}

    def test_what_was_forgotten_is_in_no_unfinished_one(self, reembed: Reembed) -> None:
        reembed.qdrant.fail(503, times=3, only=SWITCH)
        reembed(code=1)
        run("forget", reembed.ids[0], "--yes")
        left, _ = reembed.qdrant.client.scroll(f"{ALIAS}.shard-2")
        assert {(point.payload or {})["content"] for point in left} == {*TEXTS[1:]}

    def test_the_service_of_a_store_stays_known(
        self, reembed: Reembed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = reembed.service.base_url
        reembed()
        monkeypatch.setattr(EmbeddingGenerator, "endpoint", None)  # as if it were OpenAI's
        settings()
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        run("reembed", "--model", "m")
        kept: Any = asyncio.run(reembed.new.info())
        assert kept.shard == "shard-3" and kept.endpoint and kept.endpoint in url

    def test_it_is_done_even_if_the_last_answer_is_lost(self, reembed: Reembed) -> None:
        reembed.qdrant.fail(503, times=3, only=READY, after=True)
        reembed(code=1)
        asyncio.run(reembed.new.store("stored afterwards"))
        run("doctor", "--repair", "--yes")
        assert reembed.texts() == {*TEXTS, "stored afterwards"}
        reembed()
        assert reembed.texts() == {*TEXTS, "stored afterwards"} and unwell() == {}

    def test_killed_before_its_end_it_can_be_repaired(self, reembed: Reembed) -> None:
        settings(qdrant_timeout="1", base_url=reembed.service.base_url)
        reembed.qdrant.fail(503, times=3, only=READY)
        reembed(code=1)  # from here on, each call waits a second for it to end
        assert "doctor --repair" in run("list", code=1).stderr
        assert unwell(code=1)["store"]["mend"] == "agent-memory doctor --repair"
        run("doctor", "--repair", "--yes")
        assert reembed.texts() == {*TEXTS}


class TestMeanwhile:
    """What other machines do while a reembed runs."""

    @pytest.fixture
    def others(self, reembed: Reembed, clock: Clock) -> Callable[[MemoryStorage], str]:
        """They store, touch and forget, and return the id of a text forgotten and stored again."""

        def act(storage: MemoryStorage) -> str:
            clock.advance(hours=1)
            asyncio.run(storage.store("stored meanwhile", ["new"]))
            asyncio.run(storage.store(TEXTS[1], ["more"]))
            asyncio.run(storage.delete([reembed.ids[0], reembed.ids[2]]))
            return asyncio.run(storage.store(TEXTS[2], ["again"]))

        return act

    @pytest.mark.parametrize("moment", [f"PUT {NEW}", f"POST {NEW}/scroll", SWITCH])
    @pytest.mark.parametrize("interrupted", [False, True])
    def test_nothing_is_lost_or_comes_back(
        self,
        others: Callable[[MemoryStorage], str],
        reembed: Reembed,
        clock: Clock,
        moment: str,
        interrupted: bool,
    ) -> None:
        """Nor if it is interrupted after that, while it copies the last changes, and run again."""
        storage, qdrant = reembed.storage, reembed.qdrant
        again: list[str] = []

        def act() -> None:
            again.append(others(storage))
            if interrupted:
                qdrant.fail(503, times=3, only=f"POST {OLD}/scroll")

        qdrant.between(act, only=moment)
        if interrupted:
            reembed(code=1)
        reembed()
        after = memories(storage)
        assert after.keys() == {*TEXTS[1:], "stored meanwhile"} and qdrant.rules == []
        assert after[TEXTS[1]].tags == ["tag 1", "more"]
        assert after[TEXTS[1]].timestamp == after["stored meanwhile"].timestamp == clock.now
        assert ([after[TEXTS[2]].id], after[TEXTS[2]].tags) == (again, ["again"])
        [collection] = collections(qdrant)
        assert unwell() == {} and collection == f"{ALIAS}.shard-{3 if interrupted else 2}"

    def test_nor_after_the_switch(
        self, others: Callable[[MemoryStorage], str], reembed: Reembed
    ) -> None:
        qdrant = reembed.qdrant
        waiting = Thread(target=others, args=(reembed.new,))  # until the new collection is ready

        def before_the_second_copy() -> None:
            qdrant.between(waiting.start, only=f"POST {OLD}/scroll")

        qdrant.between(before_the_second_copy, only=SWITCH)
        reembed()
        waiting.join()
        after = memories(reembed.new)
        assert after.keys() == {*TEXTS[1:], "stored meanwhile"} and qdrant.rules == []
        assert after[TEXTS[1]].tags == ["tag 1", "more"] and unwell() == {}

    @pytest.mark.parametrize("known", [False, True])
    def test_a_delete_during_it_still_deletes(self, reembed: Reembed, known: bool) -> None:
        storage, qdrant, doomed = reembed.storage, reembed.qdrant, reembed.ids[0]
        deleted: list[int] = []
        delete = Thread(target=lambda: deleted.append(asyncio.run(storage.delete([doomed]))))

        def in_the_midst() -> None:
            """The delete has read the old collection when the alias stands for the new one."""
            delete.start()
            while not any(path.endswith("points/scroll") for _, path in qdrant.requests[seen:]):
                time.sleep(0.01)

        def touched() -> None:
            if known:
                asyncio.run(storage.store(TEXTS[0], ["touched"]))

        seen = len(qdrant.requests)
        qdrant.slow(0.5, only=f"POST /collections/{ALIAS}/points/delete")
        qdrant.between(touched, only=f"PUT {NEW}")
        qdrant.between(in_the_midst, only=SWITCH)
        reembed()
        delete.join()
        assert deleted == [1] and reembed.texts() == {*TEXTS[1:]}

    @pytest.mark.parametrize(
        ("model", "moment"),
        [
            ("m", f"PUT {NEW}"),
            ("another", f"POST /collections/{ALIAS}.shard-1/points"),
            ("m", SWITCH),
            ("another", SWITCH),
        ],
    )
    def test_two_at_once_lose_nothing(
        self, reembed: Reembed, make_storage: MakeStorage, model: str, moment: str
    ) -> None:
        """The other one is done, and its store is used, before the first continues."""
        qdrant, url = reembed.qdrant, reembed.service.base_url
        new = make_storage(qdrant_url=qdrant.url, embedding_model=model, base_url=url)
        made = EmbeddingModel(model, None, 1536)
        wanted = StoreInfo(agent="sam", embedding=made, created=utc_now())

        def other() -> None:
            generator = new.generator(None)
            asyncio.run(new.backend.rebuild(wanted, generator, lambda done, of: None))
            asyncio.run(new.store("stored meanwhile"))

        qdrant.between(other, only=moment)
        CliRunner().invoke(cli, ["reembed", "--model", "m", "--yes", "--agent", "sam"])
        assert memories(new).keys() == {*TEXTS, "stored meanwhile"}
