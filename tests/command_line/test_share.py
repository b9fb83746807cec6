"""A person gives memories of one agent to another: `share`."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from agent_memory.output import Output
from command import Command, settings
from conftest import Clock, MakeStorage
from embeddings_server import EmbeddingsServer, error
from memory_semantic import Memory, MemoryStorage


@pytest.fixture
def ids(storage: MemoryStorage, clock: Clock) -> list[str]:
    """The ids of three memories of sam, oldest first."""
    found = []
    for text, tag in (("We chose PostgreSQL.", "db"), ("Deploys: Tuesday.", "ops"), ("Tea.", "db")):
        found.append(asyncio.run(storage.store(text, [tag], {"session": "s", "project": "p"})))
        clock.advance(days=1)
    return found


def listed(command: Command, agent: str) -> dict[str, dict[str, Any]]:
    """The memories of an agent, by their texts."""
    return {each["content"]: each for each in command.json("list", "--all", "--agent", agent)}


def test_a_copy_keeps_text_tags_and_time_and_says_whom_it_is_from(
    command: Command, ids: list[str]
) -> None:
    report = command.json("share", ids[0], "--to", "alice", "--yes")
    [copied] = report.pop("copied")
    told = {"agent": "sam", "to": "alice", "store_created": True}
    assert report == {**told, "already_there": 0, "masked_secrets": 0}
    [copy] = command.json("list", "--agent", "alice")
    original = command.json("show", ids[0])
    assert copied == {"id": ids[0], "copy": copy["id"]} and copy["id"] != ids[0]
    assert copy.pop("metadata") == {"from": "sam"}
    assert original.pop("metadata") == {"session": "s", "project": "p"}
    assert {**copy, "id": ids[0]} == original


def test_memories_can_be_chosen_by_tag_and_time_and_what_the_other_has_stays_unchanged(
    command: Command, ids: list[str], root: Path
) -> None:
    (root / "alice/topics").mkdir(parents=True)  # of others, and in nobody's way
    command.run("store", "Tea.", "--tag", "hers", "--agent", "alice")
    before = listed(command, "alice")["Tea."]
    said = command.run("share", ids[2], "--to", "alice", "--yes").stdout
    assert said == "Copied to alice: 0. Already there, and left as they were: 1.\n"
    chosen = ("--tag", "db", "--tag", "ops", "--since", "2026-06-16", "--until", "2026-06-16")
    assert command.json("share", *chosen, "--to", "alice", "--yes")["already_there"] == 0
    assert listed(command, "alice").keys() == {"Tea.", "Deploys: Tuesday."}
    assert command.json("share", "--tag", "db", "--to", "alice", "--yes")["already_there"] == 1
    assert listed(command, "alice").keys() == listed(command, "sam").keys()
    assert listed(command, "alice")["Tea."] == before and before["tags"] == ["hers"]
    assert (root / "alice/topics").is_dir()


def test_named_by_its_id_it_is_copied_unasked_and_can_be_taken_back(
    command: Command, ids: list[str]
) -> None:
    result = command.run("share", ids[0], "--to", "alice")
    assert "Copied to alice: 1." in result.stdout and "[y/N]" not in result.stderr
    [undo] = re.findall(r"^Undo: agent-memory (forget .*)$", result.stderr, re.MULTILINE)
    command.run(*shlex.split(undo), "--yes")
    assert listed(command, "alice") == {} and len(listed(command, "sam")) == 3
    assert command.json("share", ids[0], "--to", "alice")["copied"]


def test_a_damaged_store_of_the_other_is_not_taken_for_ones_own(
    command: Command, ids: list[str], root: Path
) -> None:
    command.run("store", "hers", "--agent", "alice")
    (root / "alice/qdrant.db/manifest.json").write_text("{")
    said = command.run("share", ids[0], "--to", "alice", code=1).stderr
    assert (
        f"The store of alice (--agent alice --root {root}): " in said
        and "agent-memory doctor" in said
    )


def test_vectors_are_copied_if_both_stores_have_the_same_model(
    command: Command, make_storage: MakeStorage, server: EmbeddingsServer
) -> None:
    of_service = {"embedding_model": "m", "base_url": server.base_url}
    sam, alice = make_storage(**of_service), make_storage("alice", **of_service)
    asyncio.run(sam.store_many(["one", "two"]))
    server.requests.clear()
    for _ in range(2):  # into a new store, and into one that is there
        for memory in asyncio.run(sam.get_recent(2)):
            command.run("share", memory.id, "--to", "alice", "--yes")
    assert not server.requests
    for text in ("one", "two"):
        [found] = asyncio.run(alice.search(text, 1))
        assert found.content == text and found.similarity == pytest.approx(1, abs=1e-4)


def test_texts_are_embedded_if_the_other_store_has_another_model(
    command: Command, ids: list[str], make_storage: MakeStorage, server: EmbeddingsServer
) -> None:
    alice = make_storage("alice", embedding_model="m", base_url=server.base_url)
    asyncio.run(alice.store("hers"))
    settings(base_url=server.base_url)
    server.requests.clear()
    result = command.run("share", ids[0], "--to", "alice", input="y\n")
    assert "1 memory to embed" in result.stderr and "Their text goes to 127.0.0.1" in result.stderr
    assert server.requests[-1]["input"] == ["We chose PostgreSQL."]
    assert listed(command, "alice").keys() == {"hers", "We chose PostgreSQL."}
    server.requests.clear()
    command.run("share", ids[0], "--to", "alice", "--yes")
    assert not server.requests  # of what is there already


def test_a_copy_that_fails_halfway_is_resumed(
    command: Command, make_storage: MakeStorage, server: EmbeddingsServer
) -> None:
    asyncio.run(make_storage().store_many([(f"fact {number}", ["all"]) for number in range(130)]))
    asyncio.run(make_storage("alice", embedding_model="m", base_url=server.base_url).store("hers"))
    settings(base_url=server.base_url)
    words = ("share", "--tag", "all", "--to", "alice", "--yes")
    server.script += [server.vectors] * 4 + [error(401)]  # a sample, the first 128, the rest
    result = command.run(*words, code=1)
    assert "Copying: at least 128 of 130 are done. Run it again to resume." in result.stderr
    report = command.json(*words)
    assert (len(report["copied"]), report["already_there"]) == (2, 128)
    assert len(listed(command, "alice")) == 131


def test_it_shows_what_it_would_copy_and_a_no_changes_nothing(
    command: Command, ids: list[str], root: Path
) -> None:
    asked = command.run("share", "--tag", "db", "--to", "alice", input="n\n")
    assert "We chose PostgreSQL." in asked.stdout and "one will be created" in asked.stderr
    assert "Copy 2 memories of sam to alice?" in asked.stderr
    assert "Nothing was changed" in asked.stderr
    assert [path.name for path in root.iterdir()] == ["sam"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["mem-000000000000", "--to", "sam", "--yes"], 2, "These are the memories of sam"),
        (["mem-000000000000", "--to", "../alice", "--yes"], 2, "cannot name a store"),
        (["--to", "alice"], 2, "Name memories by their ids, or by --tag, --since and --until"),
        (["mem-000000000000", "--tag", "db", "--to", "alice"], 2, "Name memories by their ids"),
        (["--tag", "db", "--to", "alice", "--json"], 2, "add --yes"),
        (["--tag", "db", "--to", "alice"], 1, "to agree beforehand, add --yes. Nothing was"),
        (["--tag", "none", "--to", "alice", "--yes"], 0, "Nothing was changed"),
    ],
)
def test_what_cannot_be_shared_creates_no_store(
    command: Command, ids: list[str], root: Path, arguments: list[str], code: int, said: str
) -> None:
    assert said in command.run("share", *arguments, code=code).stderr
    assert [path.name for path in root.iterdir()] == ["sam"]


def test_credentials_are_masked_in_a_copy(command: Command, make_storage: MakeStorage) -> None:
    secret = "The key is sk-ant-api03-" + "a1B2" * 20
    memory_id = asyncio.run(make_storage(mask_secrets=False).store(secret))
    said = command.run("share", memory_id, "--to", "alice", "--yes")
    assert "1 credential masked" in said.stderr
    [copy] = command.json("list", "--agent", "alice")
    assert "a1B2" not in copy["content"] and copy["content"].startswith("The key is")
    assert command.json("share", memory_id, "--to", "alice", "--yes")["already_there"] == 1


def test_lists_show_who_shared_a_copy_until_its_agent_stores_it_herself(
    command: Command, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(command.run("list").stdout.splitlines()[0].split("\t")) == 4
    command.run("share", ids[0], "--to", "alice")
    command.run("share", "--tag", "db", "--to", "bob", "--yes", "--agent", "alice")
    assert listed(command, "bob")["We chose PostgreSQL."]["metadata"] == {"from": "alice"}
    command.run("store", "her own", "--agent", "alice")
    own, copy = command.run("list", "--agent", "alice").stdout.splitlines()
    assert own.split("\t")[3:] == ["", "her own"]
    assert copy.split("\t")[3:] == ["sam", "We chose PostgreSQL."]
    copy_id = copy.split("\t")[0]
    assert "from: sam" in command.run("show", copy_id, "--agent", "alice").stdout
    assert "\tsam\t" in command.run("search", "PostgreSQL", "--agent", "alice").stdout
    Output(False).memory(Memory(agent_id="alice", content="one", metadata={"from": "sam"}))
    assert capsys.readouterr().out.splitlines()[0].endswith("  from sam")  # as a terminal has it
    command.run("store", "We chose PostgreSQL.", "--agent", "alice")
    assert "from" not in listed(command, "alice")["We chose PostgreSQL."]["metadata"]
