"""The commands on a store that a Qdrant server keeps: as on files, with what differs there."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import Command, invoke, settings
from conftest import Clock, MakeStorage
from embeddings_server import EmbeddingsServer
from local_server import DROP
from memory_semantic import Memory, MemoryStorage, upkeep
from memory_semantic.remembered import point_id
from qdrant_server import COLLECTION, QdrantServer, Rule

pytestmark = pytest.mark.usefixtures("no_waiting")

FRIDAYS = "We deploy on Fridays."


@pytest.fixture
def qdrant(qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> QdrantServer:
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", qdrant.url)
    return qdrant


@pytest.fixture
def storage(make_storage: MakeStorage, qdrant: QdrantServer, tmp_path: Path) -> MemoryStorage:
    """The store as another machine sees it."""
    return make_storage(qdrant_url=qdrant.url, storage_root=str(tmp_path / "other"))


run, as_json = Command().run, Command().json


def memories(storage: MemoryStorage) -> dict[str, Memory]:
    return {memory.content: memory for memory in asyncio.run(storage.get_recent(10_000))}


def unwell(*arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """What the doctor finds by subject, except that no settings name the agent."""
    found = as_json("doctor", *arguments, code=code)
    return {f["subject"]: f for f in found if f["state"] != "ok" and f["subject"] != "identity"}


def test_as_with_files(
    qdrant: QdrantServer, storage: MemoryStorage, root: Path, tmp_path: Path
) -> None:
    assert f"No agent has a store in {qdrant.url} yet" in run("list", "--agents").stderr
    stored = as_json("store", "The launch is in May.", "--tag", "Launch")
    assert stored["status"] == "stored" and stored["embedding_model"] == "local"
    [found] = json.loads(invoke("search", "when is the launch?", "--json").stdout)  # the only agent
    assert found.pop("score") and [found] == as_json("list", "--tag", "launch")
    assert as_json("show", stored["memory_id"].removeprefix("mem-"))["tags"] == ["launch"]
    run("store", "two", "--agent", "alice")
    alice, sam = as_json("list", "--agents")
    assert (alice["agent"], sam["agent"]) == ("alice", "sam")
    assert sam["memories"] == 1 and sam["bytes"] is None and sam["model"] == "local"
    assert as_json("stats")["bytes"] is None and f"server    {qdrant.url}" in run("stats").stdout
    run("stats", "--html", str(tmp_path / "page.html"))
    assert "The launch" in (tmp_path / "page.html").read_text() and not root.exists()
    said = run("forget", stored["memory_id"], input="y\n").stdout
    assert "Gone from search. The server takes them out of its files" in said
    assert memories(storage) == {} and as_json("search", "launch") == []
    qdrant.requests.clear()
    run("store", "on files", "--root", str(root))  # which means this machine
    assert [m["content"] for m in as_json("list", "--root", str(root))] == ["on files"]
    assert as_json("list", "--agents", "--root", str(root))[0]["bytes"] > 0
    assert qdrant.requests == []


NEED_A_STORE = """search x, store x, list, show mem-000000000000, export -, import note.txt,
    forget mem-000000000000 --yes, reembed --model local --yes, stats, doctor"""


def test_no_command_ignores_a_store_in_files_and_what_they_say_takes_it_to_the_server(
    qdrant: QdrantServer, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("note.txt").write_text("a note\n")
    settings(storage_root=str(root))
    run("store", "on files", "--tag", "one", "--root", str(root))
    before = as_json("list", "--root", str(root))
    for command in NEED_A_STORE.split(","):
        said = run(*command.split(), code=1).output
        assert f"`agent-memory export memories.jsonl --agent sam --root {root}`" in said
        assert said.count("Nothing was changed") <= 1, command
    assert qdrant.created == {}
    said = run("list", code=1).stderr
    export, load = (each.split() for each in re.findall("`agent-memory (.*?)`", said))
    run(*export)
    run(*load, code=1)
    for name in ("qdrant.db", "memories.jsonl"):
        (root / "sam" / name).rename(tmp_path / f"moved {name}")
    run(*load)
    assert as_json("list") == before


def test_a_server_that_is_down_and_a_wrong_key_or_address(
    qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    qdrant.rules.append(Rule(3, answer=DROP))
    said = run("list", "--agents", code=1).output
    assert "could not be reached, in 3 tries. Check qdrant_url" in said
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_API_KEY", "very-wrong")
    said = run("list", code=1).output
    assert "Check AGENT_MEMORY_QDRANT_API_KEY" in said and "very-wrong" not in said
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", "qdrant:6333")
    named = "qdrant_url (or AGENT_MEMORY_QDRANT_URL) must be an address"
    assert named in run("list", code=2).stderr


def test_the_doctor_of_none_and_a_sound_one(qdrant: QdrantServer, storage: MemoryStorage) -> None:
    settings(agent_identity="sam")
    assert f"'sam' has no store at {qdrant.url}" in run("doctor").stdout
    assert unwell() == {} and qdrant.created == {}
    asyncio.run(storage.store_many([f"fact {number}" for number in range(300)]))
    assert "nothing that a repair could fix" in run("doctor", "--repair").stderr
    qdrant.requests.clear()
    said = run("doctor", "--offline", "--verbose").stdout
    assert f"{qdrant.url} answers: Qdrant 1.20.0" in said
    assert "300 memories: hashes and vectors agree" in said
    assert len(qdrant.requests) < 30, qdrant.requests


async def test_what_goes_unencrypted_is_said_first() -> None:
    progress: Any = None
    for url in ("http://far.example", "https://far.example", "http://localhost", "http://[::1]"):
        storage = MemoryStorage("sam", {"qdrant_url": f"{url}:6333"})
        found = await anext(upkeep.findings(storage.place, storage.config, progress))
        assert ("unencrypted" in found.text) == (url == "http://far.example"), url


def test_the_doctor_names_words_that_are_missing_and_what_no_repair_can_mend(
    make_storage: MakeStorage, qdrant: QdrantServer
) -> None:
    asyncio.run(make_storage(qdrant_url=qdrant.url, lexical_weight=0).store("one"))
    mend = unwell()["words"]["mend"]
    assert mend == "agent-memory reembed --model local"
    assert "`agent-memory export" in run(*mend.split()[1:], code=1).stderr
    key = str(point_id("one"))
    for harm in (
        lambda: qdrant.client.set_payload(COLLECTION, {"content": "other"}, [key]),
        lambda: qdrant.client.delete_payload(COLLECTION, ["id"], [key]),
    ):
        harm()
        found = unwell(code=1)["store"]
        assert "it is not what was stored" in found["text"]
        assert "--repair" not in found["mend"]
    assert "Traceback" not in run("doctor", "--repair", "--yes", code=1).output


@pytest.mark.parametrize("removed", [True, False])
def test_the_commands_that_reembed_names_bring_every_memory_over(
    storage: MemoryStorage,
    make_storage: MakeStorage,
    clock: Clock,
    qdrant: QdrantServer,
    server: EmbeddingsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    removed: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"base_url": server.base_url}
    settings(**config)
    [old, _] = asyncio.run(storage.store_many([("We chose PostgreSQL.", ["tag"]), FRIDAYS]))
    clock.advance(days=1)
    asyncio.run(storage.upsert(["We chose SQLite."], old, said_by="user", pin=True))
    before = memories(storage)
    said = run("reembed", "--model", "m", code=1).stderr  # which is not asked about
    assert said.endswith("Nothing was changed.\n")
    assert memories(storage) == before and as_json("stats")["embedding"]["model"] == "local"
    [name] = re.findall("remove the collection '(.*?)' from the server", said)
    assert [*qdrant.created] == [name] == [COLLECTION]
    assert "Set embedding_model to 'm' on every machine" in said
    export, load = (each.split() for each in re.findall("`agent-memory (.*?)`", said))
    settings(embedding_model="m", **config)
    assert "Nothing was changed" in run("store", "meanwhile", code=1).stderr
    run(*export)
    if removed:
        qdrant.client.delete_collection(name)
    else:
        config["qdrant_prefix"] = "another"
    settings(embedding_model="m", **config)
    run(*load)
    new = make_storage(qdrant_url=qdrant.url, **{**config, "embedding_model": "m"})
    assert memories(new) == before and unwell() == {}
    assert as_json("search", FRIDAYS)[0]["content"] == FRIDAYS
    assert removed or memories(storage) == before
