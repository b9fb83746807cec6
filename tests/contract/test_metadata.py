"""Metadata says where a memory comes from, and goes with it."""

import json
from pathlib import Path

import pytest
from command import Command
from conftest import Clock, MakeStorage
from memory_semantic import Memory
from scripted import scripted_session

ABOUT = {"stored_by": "a test", "session": "s-1", "project": "shop"}


async def test_metadata_is_kept_with_its_memory(make_storage: MakeStorage) -> None:
    storage = make_storage()
    await storage.upsert([("We use tabs.", ["style"], ABOUT), "Deploys are on Tuesdays."])
    told = {memory.content: memory.metadata for memory in await storage.get_recent(10)}
    assert told == {"We use tabs.": ABOUT, "Deploys are on Tuesdays.": {}}
    [found, *_] = await storage.search("tabs")
    assert found.metadata == ABOUT
    assert await storage.check() == []


async def test_the_latest_writer_sets_the_metadata(make_storage: MakeStorage, clock: Clock) -> None:
    storage = make_storage()
    await storage.store("We use tabs.", metadata=ABOUT)
    [old] = await storage.get_recent(10)
    clock.advance(days=1)
    await storage.store("We use tabs.", metadata={"stored_by": "another"})
    for _ in range(2):  # and an older copy changes nothing
        [memory] = await storage.get_recent(10)
        assert memory.metadata == {"stored_by": "another"}
        await storage.restore([old])


def test_a_payload_without_metadata_is_a_memory_without_it() -> None:
    payload = Memory(agent_id="sam", content="We use tabs.").dict_for_storage()
    assert "metadata" not in payload
    assert Memory.from_storage(payload).metadata == {}
    told = Memory(agent_id="sam", content="We use tabs.", metadata=ABOUT)
    assert Memory.from_storage(told.dict_for_storage()) == told


async def test_memory_store_records_session_and_project(
    root: Path, make_storage: MakeStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    call = [{"tool": "memory_store", "arguments": {"content": "We use tabs."}}]
    memory = {"agent_identity": "sam", "storage_root": str(root), "embedding_model": "local"}
    async with scripted_session([call], memory) as session:
        await session.execute("Remember that we use tabs.")
        told = {"stored_by": "memory_store", "session": session.session_id, "project": "shop"}
    [stored] = await make_storage().get_recent(10)
    assert stored.metadata == told


def test_metadata_goes_through_export_and_import(
    command: Command, make_storage: MakeStorage, tmp_path: Path
) -> None:
    file = tmp_path / "memories.jsonl"
    lines = [
        {"content": "We use tabs.", "timestamp": "2026-01-31T09:00:00Z", "metadata": ABOUT},
        {"content": "Of another program.", "metadata": {"page": 3, "more": {"x": []}}},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    command.run("import", str(file), "--agent", "sam")
    exported = tmp_path / "exported.jsonl"
    command.run("export", str(exported), "--agent", "sam")
    memories = [json.loads(line) for line in exported.read_text().splitlines()[1:]]
    told = {memory["content"]: memory.get("metadata") for memory in memories}
    assert told == {"We use tabs.": ABOUT, "Of another program.": None}


def test_a_person_sees_where_a_memory_comes_from(command: Command) -> None:
    command.run("store", "We use tabs.", "--agent", "sam")
    [memory] = json.loads(command.run("list", "--json", "--agent", "sam").stdout)
    assert memory["metadata"] == {"stored_by": "agent-memory store"}
    assert "stored_by: agent-memory store" in command.run("show", memory["id"]).stdout


def test_forgets_what_was_captured_since(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    old = {"content": "Old.", "timestamp": "2026-01-31T09:00:00Z", "tags": ["captured"]}
    file.write_text(json.dumps(old))
    command.run("import", str(file), "--agent", "sam")
    command.run("store", "New.", "--tag", "captured", "--agent", "sam")
    command.run("store", "Mine.", "--agent", "sam")
    command.run("forget", "--tag", "captured", "--since", "7d", "--yes", "--agent", "sam")
    listed = command.run("list", "--agent", "sam").stdout
    assert "Old." in listed and "Mine." in listed and "New." not in listed


def test_an_import_masks_metadata(command: Command, tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    line = {"content": "We use tabs.", "metadata": {"stored_by": f"with {key}"}}
    (tmp_path / "memories.jsonl").write_text(json.dumps(line))
    command.run("import", str(tmp_path / "memories.jsonl"))
    [memory] = command.json("list")
    assert memory["metadata"] == {"stored_by": "with (masked GitHub token)"}
