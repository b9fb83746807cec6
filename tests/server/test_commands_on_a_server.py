"""The commands on a store that a Qdrant server keeps: as on files, with what differs there."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
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
    def test_agents(self, qdrant: QdrantServer) -> None:
        assert f"No agent has a store in {qdrant.url} yet" in run("list", "--agents").stderr
        run("store", "one")
        run("store", "two", "--agent", "alice")
        alice, sam = as_json("list", "--agents")
        assert (alice["agent"], sam["agent"]) == ("alice", "sam")
        assert sam["memories"] == 1 and sam["bytes"] is None and sam["model"] == "local"
        assert "sam\t1\t-\tlocal" in run("list", "--agents").stdout

    def test_store_search_list_show(self, ids: list[str], root: Path) -> None:
        stored = as_json("store", "The launch is in May.", "--tag", "Launch")
        assert stored["status"] == "stored" and stored["embedding_model"] == "local"
        again = as_json("store", "The launch is in May.", "--tag", "more")
        assert again["memory_id"] == stored["memory_id"] and "already known" in again["status"]
        assert as_json("search", "which database?")[0]["content"] == TEXTS[0]
        assert [m["id"] for m in as_json("list")][1:] == ids[::-1]
        assert as_json("list", "--tag", "tag 1")[0]["id"] == ids[1]
        shown = as_json("show", stored["memory_id"].removeprefix("mem-"))
        assert shown["tags"] == ["launch", "more"]
        assert not root.exists()

    def test_forget_by_id_and_by_tag(self, ids: list[str], storage: MemoryStorage) -> None:
        assert "Nothing was changed" in run("forget", ids[0], input="n\n", code=1).stderr
        said = run("forget", ids[0], input="y\n").stdout
        assert "Gone from search. The server takes them out of its files" in said
        assert as_json("forget", "--tag", "tag 1", "--yes")["forgotten"] == [ids[1]]
        assert memories(storage).keys() == {TEXTS[2]}
        assert TEXTS[0] not in run("search", "PostgreSQL").stdout
        assert "no memory" in run("forget", ids[0], "--yes", code=1).stderr

    def test_export_and_import(
        self, ids: list[str], storage: MemoryStorage, qdrant: QdrantServer, tmp_path: Path
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

    def test_the_only_agent_needs_no_name(self, ids: list[str]) -> None:
        assert len(json.loads(invoke("list", "--json").stdout)) == 3

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
    COMMANDS = (
        ("search", "x"),
        ("store", "x"),
        ("list",),
        ("show", "mem-000000000000"),
        ("forget", "mem-000000000000", "--yes"),
        ("export", "-"),
        ("import", "{file}"),
        ("reembed", "--model", "local", "--yes"),
        ("stats",),
        ("doctor",),
    )

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        file = tmp_path / "note.txt"
        file.write_text("a note\n")
        return str(file)

    @pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
    def test_a_store_that_is_still_in_files_is_not_ignored(
        self, qdrant: QdrantServer, root: Path, file: str, command: tuple[str, ...]
    ) -> None:
        settings(storage_root=str(root))
        run("store", "on files", "--root", str(root))
        said = run(*(word.format(file=file) for word in command), code=1).output
        assert f"`agent-memory export memories.jsonl --agent sam --root {root}`" in said
        assert said.count("Nothing was changed") <= 1
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
        (root / "sam").rename(tmp_path / "away")
        run(*load)
        assert as_json("list") == before

    @pytest.mark.parametrize(
        "command", [*COMMANDS, ("list", "--agents")], ids=lambda command: command[0]
    )
    def test_one_sentence_where_the_server_is_down(
        self, qdrant: QdrantServer, file: str, command: tuple[str, ...]
    ) -> None:
        qdrant.stop()
        said = run(*(word.format(file=file) for word in command), code=1).output
        assert "could not be reached, in 3 tries. Check qdrant_url" in said

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
    def test_a_healthy_one(self, ids: list[str], qdrant: QdrantServer) -> None:
        assert unwell() == {}
        said = run("doctor", "--verbose").stdout
        assert f"{qdrant.url} answers: Qdrant 1.20.0" in said
        assert "3 memories: hashes and vectors agree" in said
        assert "nothing that a repair could fix" in run("doctor", "--repair").stderr

    def test_an_agent_without_a_store(self, qdrant: QdrantServer) -> None:
        settings(agent_identity="sam")
        assert f"'sam' has no store at {qdrant.url}" in run("doctor").stdout
        assert unwell() == {} and collections(qdrant) == {}

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

    def test_many_memories_take_few_requests(
        self, storage: MemoryStorage, qdrant: QdrantServer
    ) -> None:
        asyncio.run(storage.store_many([f"fact {number}" for number in range(300)]))
        qdrant.clear()
        assert "300 memories: hashes and vectors agree" in run("doctor", "--offline", "-v").stdout
        assert len(qdrant.requests) < 30, qdrant.requests

    def test_no_repair_is_promised_for_a_text_that_was_altered(
        self, ids: list[str], qdrant: QdrantServer
    ) -> None:
        qdrant.client.set_payload(ALIAS, {"content": "other"}, [str(point_id(TEXTS[2]))])
        found = unwell(code=1)["store"]
        assert "it is not what was stored" in found["text"]
        assert "--repair" not in found["mend"]

    def test_a_point_without_an_id_is_reported_and_causes_no_traceback(
        self, ids: list[str], qdrant: QdrantServer
    ) -> None:
        qdrant.client.delete_payload(ALIAS, ["id"], [str(point_id(TEXTS[2]))])
        assert "it is not what was stored" in unwell(code=1)["store"]["text"]
        assert "Traceback" not in run("doctor", "--repair", "--yes", code=1).output


class TestReembed:
    @pytest.fixture
    def to_m(self, server: EmbeddingsServer) -> tuple[str, ...]:
        settings(base_url=server.base_url)
        return ("reembed", "--model", "m", "--yes")

    def test_to_another_model(
        self,
        ids: list[str],
        storage: MemoryStorage,
        qdrant: QdrantServer,
        to_m: tuple[str, ...],
    ) -> None:
        before = memories(storage)
        said = run(*to_m)
        assert "3 memories to embed" in said.stderr and "with the model 'm', 1536" in said.stdout
        assert collections(qdrant) == {f"{ALIAS}.shard-2": [ALIAS]}
        assert memories(storage) == before and unwell() == {}
        assert as_json("search", TEXTS[1])[0]["content"] == TEXTS[1]
        run("reembed", "--model", "local", "--yes")
        assert collections(qdrant) == {f"{ALIAS}.shard-3": [ALIAS]} and unwell() == {}

    def test_with_the_same_model_no_text_is_sent_again(
        self,
        ids: list[str],
        storage: MemoryStorage,
        qdrant: QdrantServer,
        server: EmbeddingsServer,
        to_m: tuple[str, ...],
    ) -> None:
        run(*to_m)
        vectors, before = vectors_of(storage), memories(storage)
        server.requests.clear()
        run(*to_m)
        assert collections(qdrant) == {f"{ALIAS}.shard-3": [ALIAS]}
        assert not any(text in json.dumps(server.requests) for text in TEXTS)
        assert vectors_of(storage) == pytest.approx(vectors, abs=1e-3)
        assert memories(storage) == before

    def test_an_interrupted_one_keeps_serving_and_resumes(
        self,
        storage: MemoryStorage,
        qdrant: QdrantServer,
        server: EmbeddingsServer,
        to_m: tuple[str, ...],
    ) -> None:
        asyncio.run(storage.store_many([f"fact {number}" for number in range(150)]))
        qdrant.between(bool, only=f"PUT /collections/{ALIAS}.shard-2/points")
        qdrant.fail(503, times=3, only=f"PUT /collections/{ALIAS}.shard-2/points")
        assert "HTTP 503" in run(*to_m, code=1).stderr
        assert collections(qdrant)[f"{ALIAS}.shard-1"] == [ALIAS] and len(memories(storage)) == 150
        left = unwell()["collections"]
        assert "1 more for this agent" in left["text"] and "reembed --model" in left["mend"]
        copied, _ = qdrant.client.scroll(f"{ALIAS}.shard-2", limit=1)
        assert copied[0].payload
        run("forget", copied[0].payload["id"], "--yes")
        server.requests.clear()
        run(*to_m)
        texts = [text for request in server.requests for text in request["input"]]
        assert sum(text in {f"fact {n}" for n in range(150)} for text in texts) == 150 - 128
        after = memories(storage)
        assert len(after) == 149 and copied[0].payload["content"] not in after
        assert collections(qdrant) == {f"{ALIAS}.shard-3": [ALIAS]} and unwell() == {}

    def test_what_was_forgotten_is_in_no_unfinished_one(
        self, ids: list[str], qdrant: QdrantServer, to_m: tuple[str, ...]
    ) -> None:
        qdrant.fail(503, times=3, only=SWITCH)
        run(*to_m, code=1)
        run("forget", ids[0], "--yes")
        left, _ = qdrant.client.scroll(f"{ALIAS}.shard-2")
        assert {(point.payload or {})["content"] for point in left} == {*TEXTS[1:]}


def vectors_of(storage: MemoryStorage) -> dict[Any, Any]:
    def read(store: Any) -> list[Any]:
        return [point for page in store.scan() for point in page]

    found = asyncio.run(storage.run(read, []))
    return {(p.key, at): number for p in found for at, number in enumerate(p.vector)}


class TestMeanwhile:
    """What other machines do while a reembed runs."""

    @pytest.fixture
    def reembed(self, server: EmbeddingsServer) -> Callable[..., Result]:
        settings(base_url=server.base_url)
        return lambda code=0: run("reembed", "--model", "m", "--yes", code=code)

    @pytest.fixture
    def others(self, ids: list[str], storage: MemoryStorage, clock: Clock) -> Callable[[], None]:
        def act() -> None:
            clock.advance(hours=1)
            asyncio.run(storage.store("stored meanwhile", ["new"]))
            asyncio.run(storage.store(TEXTS[1], ["more"]))
            asyncio.run(storage.delete([ids[0]]))

        return act

    @pytest.mark.parametrize(
        "moment",
        [
            f"PUT /collections/{ALIAS}.shard-2/points",
            f"POST /collections/{ALIAS}.shard-2/points/scroll",
            SWITCH,
        ],
    )
    def test_nothing_is_lost_or_comes_back(
        self,
        others: Callable[[], None],
        reembed: Callable[..., Result],
        storage: MemoryStorage,
        qdrant: QdrantServer,
        clock: Clock,
        moment: str,
    ) -> None:
        qdrant.between(others, only=moment)
        reembed()
        after = memories(storage)
        assert after.keys() == {*TEXTS[1:], "stored meanwhile"} and qdrant.rules == []
        assert after[TEXTS[1]].tags == ["tag 1", "more"]
        assert after[TEXTS[1]].timestamp == after["stored meanwhile"].timestamp == clock.now
        assert unwell() == {} and collections(qdrant) == {f"{ALIAS}.shard-2": [ALIAS]}

    def test_nor_after_the_switch(
        self,
        ids: list[str],
        reembed: Callable[..., Result],
        make_storage: MakeStorage,
        server: EmbeddingsServer,
        qdrant: QdrantServer,
    ) -> None:
        new = make_storage(qdrant_url=qdrant.url, embedding_model="m", base_url=server.base_url)

        def act() -> None:
            asyncio.run(new.store("stored meanwhile"))
            asyncio.run(new.store(TEXTS[1], ["more"]))
            asyncio.run(new.delete([ids[0]]))

        others = Thread(target=act)  # they wait until the new collection is ready

        def before_the_second_copy() -> None:
            qdrant.between(others.start, only=f"POST /collections/{ALIAS}.shard-1/points/scroll")

        qdrant.between(before_the_second_copy, only=SWITCH)
        reembed()
        others.join()
        after = memories(new)
        assert after.keys() == {*TEXTS[1:], "stored meanwhile"} and qdrant.rules == []
        assert after[TEXTS[1]].tags == ["tag 1", "more"] and unwell() == {}

    def test_the_service_of_a_store_stays_known(
        self,
        make_storage: MakeStorage,
        server: EmbeddingsServer,
        qdrant: QdrantServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        private = make_storage(qdrant_url=qdrant.url, embedding_model="m", base_url=server.base_url)
        asyncio.run(private.store("x"))
        monkeypatch.setattr(EmbeddingGenerator, "endpoint", None)  # as if it were OpenAI's
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        run("reembed", "--model", "m")
        kept: Any = asyncio.run(private.info())
        assert kept.shard == "shard-2" and kept.endpoint and kept.endpoint in server.base_url

    def test_it_is_done_even_if_the_last_answer_is_lost(
        self,
        ids: list[str],
        reembed: Callable[..., Result],
        make_storage: MakeStorage,
        server: EmbeddingsServer,
        qdrant: QdrantServer,
    ) -> None:
        new = make_storage(qdrant_url=qdrant.url, embedding_model="m", base_url=server.base_url)
        qdrant.fail(503, times=3, only=f"PATCH /collections/{ALIAS}.shard-2", after=True)
        reembed(code=1)
        asyncio.run(new.store("stored afterwards"))
        run("doctor", "--repair", "--yes")
        assert memories(new).keys() == {*TEXTS, "stored afterwards"}
        reembed()
        assert memories(new).keys() == {*TEXTS, "stored afterwards"} and unwell() == {}

    def test_killed_before_its_end_it_can_be_repaired(
        self,
        ids: list[str],
        reembed: Callable[..., Result],
        storage: MemoryStorage,
        qdrant: QdrantServer,
        server: EmbeddingsServer,
    ) -> None:
        settings(qdrant_timeout="1", base_url=server.base_url)
        qdrant.fail(503, times=3, only=f"PATCH /collections/{ALIAS}.shard-2")
        reembed(code=1)
        assert "doctor --repair" in run("list", code=1).stderr
        assert unwell(code=1)["store"]["mend"] == "agent-memory doctor --repair"
        run("doctor", "--repair", "--yes")
        assert memories(storage).keys() == {*TEXTS}

    @pytest.mark.parametrize("known", [False, True])
    def test_a_delete_during_it_still_deletes(
        self,
        ids: list[str],
        reembed: Callable[..., Result],
        storage: MemoryStorage,
        qdrant: QdrantServer,
        known: bool,
    ) -> None:
        deleted: list[int] = []
        delete = Thread(target=lambda: deleted.append(asyncio.run(storage.delete([ids[0]]))))

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
        qdrant.between(touched, only=f"PUT /collections/{ALIAS}.shard-2/points")
        qdrant.between(in_the_midst, only=SWITCH)
        reembed()
        delete.join()
        assert deleted == [1] and memories(storage).keys() == {*TEXTS[1:]}

    def test_one_forgotten_and_stored_again_keeps_its_new_id(
        self,
        ids: list[str],
        reembed: Callable[..., Result],
        storage: MemoryStorage,
        qdrant: QdrantServer,
    ) -> None:
        def act() -> None:
            asyncio.run(storage.delete([ids[0]]))
            stored.append(asyncio.run(storage.store(TEXTS[0], ["new"])))

        stored: list[str] = []
        qdrant.between(act, only=SWITCH)
        reembed()
        again = memories(storage)[TEXTS[0]]
        assert (again.id, again.tags) == (stored[0], ["new"])

    def test_nothing_is_lost_if_it_is_interrupted_after_the_switch(
        self,
        others: Callable[[], None],
        reembed: Callable[..., Result],
        storage: MemoryStorage,
        qdrant: QdrantServer,
    ) -> None:
        def at_the_switch() -> None:
            others()
            qdrant.fail(503, times=3, only=f"POST /collections/{ALIAS}.shard-1/points/scroll")

        qdrant.between(at_the_switch, only=SWITCH)
        reembed(code=1)
        reembed()
        assert memories(storage).keys() == {*TEXTS[1:], "stored meanwhile"}

    @pytest.mark.parametrize(
        ("model", "moment"),
        [
            ("m", f"PUT /collections/{ALIAS}.shard-2/points"),
            ("another", f"POST /collections/{ALIAS}.shard-1/points"),
            ("m", SWITCH),
            ("another", SWITCH),
        ],
    )
    def test_two_at_once_lose_nothing(
        self,
        ids: list[str],
        reembed: Callable[..., Result],
        make_storage: MakeStorage,
        server: EmbeddingsServer,
        qdrant: QdrantServer,
        model: str,
        moment: str,
    ) -> None:
        """The other one is done, and its store is used, before the first continues."""
        new = make_storage(qdrant_url=qdrant.url, embedding_model=model, base_url=server.base_url)
        made = EmbeddingModel(model, None, 1536)
        wanted = StoreInfo(agent="sam", embedding=made, created=utc_now())

        def other() -> None:
            generator = new.generator(None)
            asyncio.run(new.backend.rebuild(wanted, generator, lambda done, of: None))
            asyncio.run(new.store("stored meanwhile"))

        qdrant.between(other, only=moment)
        CliRunner().invoke(cli, ["reembed", "--model", "m", "--yes", "--agent", "sam"])
        assert memories(new).keys() == {*TEXTS, "stored meanwhile"}
