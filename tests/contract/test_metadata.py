"""Metadata says where a memory comes from, and goes with it."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from command import Command, settings
from conftest import Clock
from conversation import Config, project, store
from embeddings_server import EmbeddingsServer
from memory_semantic import Memory, MemoryStorage
from scripted import scripted_session

ABOUT = {"stored_by": "a test", "session": "s-1", "project": "shop"}


async def test_the_latest_writer_sets_the_metadata(storage: MemoryStorage, clock: Clock) -> None:
    await storage.store("We use tabs.", metadata=ABOUT)
    [old] = await storage.get_recent(10)
    assert old.metadata == ABOUT
    clock.advance(days=1)
    await storage.store("We use tabs.", metadata={"stored_by": "another"})
    for _ in range(2):  # and an older copy changes nothing
        [memory] = await storage.get_recent(10)
        assert memory.metadata == {"stored_by": "another"}
        await storage.restore([old])


async def test_memory_store_records_session_and_project(
    memory: Config, sam: MemoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    async with scripted_session([store("We use tabs.")], memory) as session:
        await session.execute("Remember that we use tabs.")
        told = {"stored_by": "memory_store", "session": session.session_id, "project": "shop"}
    [stored] = await sam.get_recent(10)
    assert len(stored.metadata.pop("project_id")) == 12 and stored.metadata == told


HOSTS = (
    "https://sam:ghp_a1@Example.com/acme/api.git",
    "https://example.com/acme/api/",
    "git@example.com:acme/api.git",
    "ssh://git@example.com:2222/Acme/api",
)
OTHERS = (
    *("https://example.com/other/api", "https://example.org/acme/api", "/srv/acme/api.git"),
    *("", "", "../api", "../api"),  # known by their own folders
)


def git(*arguments: str | Path) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], check=True)


def test_a_project_is_its_repository_and_not_a_folders_name(tmp_path: Path) -> None:
    ids, folder = [], tmp_path
    for number, remote in enumerate((*HOSTS, *OTHERS)):
        folder = tmp_path / str(number) / "api"
        git("init", "-q", folder)
        if remote:
            git("-C", folder, "remote", "add", "-t", "main", "origin", remote)
        (folder / "src").mkdir()
        assert project(folder / "src") == project(folder) and project(folder)["project"] == "api"
        ids.append(project(folder)["project_id"])
    assert len(set(ids[: len(HOSTS)])) == 1 and len(set(ids)) == 1 + len(OTHERS)
    git("-C", folder, "commit", "-q", "--allow-empty", "-m", "First.")
    git("-C", folder, "worktree", "add", "-q", "--detach", tmp_path / "worktree")
    assert project(tmp_path / "worktree") == project(folder)


def test_a_folder_with_a_name_that_is_no_text_is_a_project(tmp_path: Path) -> None:
    for name, shown in (("caf\udce9", "caf\ufffd"), (" ", None)):
        (tmp_path / name).mkdir()
        found = project(tmp_path / name)
        assert found["project"] == (shown or found["project_id"])


def test_a_folder_that_was_removed_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert project(None) == {}


def test_metadata_goes_through_import_masked_and_export(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    secret = {"stored_by": f"with ghp_{'a1B2' * 9}"}
    lines = [
        {"content": "We use tabs.", "metadata": ABOUT},
        {"content": "Of another program.", "metadata": {"page": 3, "more": {"x": []}}},
        {"content": "With a key.", "metadata": secret},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    command.run("import", str(file))
    command.run("store", "By a person.")
    memories = map(json.loads, command.run("export", "-").stdout.splitlines()[1:])
    assert {memory["content"]: memory.get("metadata") for memory in memories} == {
        "We use tabs.": ABOUT,
        "Of another program.": None,
        "With a key.": {"stored_by": "with (masked GitHub token)"},
        "By a person.": {"stored_by": "agent-memory store"},
    }
    [newest, *_] = command.json("list")
    assert "stored_by: agent-memory store" in command.run("show", newest["id"]).stdout


def test_what_a_newer_version_adds_to_a_memory_stays(
    sam: MemoryStorage, command: Command, tmp_path: Path, server: EmbeddingsServer
) -> None:
    added = {"mood": {"how": ["sure", 2.5, None, "", -(2**63)]}, "seen": 0, "weight": 1 / 3}
    told = {"agent_id": "sam", "content": "We use tabs.", **added}
    asyncio.run(sam.restore([Memory.model_validate(told)]))
    again = asyncio.run(sam.store("We use tabs.", ["style"]))
    asyncio.run(sam.pin([again]))
    command.run("reembed", "-m", "m", "--base-url", server.base_url, "--yes")
    file = tmp_path / "memories.jsonl"
    command.run("export", str(file))
    memory = json.loads(file.read_text().splitlines()[1])
    assert memory["tags"] == ["style"] and memory["pinned"]
    assert {name: memory[name] for name in added} == added | {"weight": 0.333333333333333}
    assert command.json("list") == [memory]
    command.run("forget", memory["id"], "--yes")
    settings(base_url=server.base_url)
    far = ("NaN", "-Infinity", "1e400", "1e300", "123456789012345678901234567890")
    for odd in (*far, '"\\ud800"', "[" * 100 + "]" * 100, f'"{"x" * 10_000}"'):
        with file.open("a") as lines:
            lines.write(f'{{"content": "Not {len(odd)}.", "seen": {odd}}}\n')
    said = command.json("import", str(file), code=1)
    assert (said["new"], said["not_read"], said["left_out"]) == (1, 8, {})
    assert command.json("list") == [memory]
