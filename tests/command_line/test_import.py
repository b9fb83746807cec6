"""Memories come from other tools: what `import` recognises, what it takes, and what it leaves."""

import json
import os
import runpy
import subprocess
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_memory.foreign import chats, recognise, records
from agent_memory.foreign.haul import Form, Haul
from agent_memory.foreign.markdown import blocks
from command import Command
from scripted import REPOSITORY

SAID = "We decided to use PostgreSQL for the users table."
CHAT = {
    "uuid": "c-1",
    "name": "Databases",
    "created_at": "2025-03-01T09:00:00.000000Z",
    "chat_messages": [
        {
            "uuid": "m-1",
            "sender": "human",
            "text": SAID,
            "content": [{"type": "text", "text": SAID}],
            "created_at": "2025-03-01T10:00:00.000000Z",
            "attachments": [{"file_name": "a.txt", "extracted_content": "We decided on MySQL."}],
            "files": [],
        },
        {"sender": "assistant", "text": "We decided to always use MySQL.", "content": []},
        {"sender": "human", "text": "what is an index?", "content": [], "attachments": []},
    ],
}
CLAUDE = {
    "conversations.json": [CHAT],
    "memories.json": [
        {
            "conversations_memory": "**Work**\n\nSam builds a shop.\n\nSam likes tabs.",
            "project_memories": {"p-1": "The shop is written in Go."},
            "account_uuid": "a-1",
        }
    ],
    "projects.json": [
        {
            "uuid": "p-1",
            "name": "Shop",
            "prompt_template": "Answer briefly.",
            "docs": [{"filename": "spec.md", "content": "A page"}],
            "updated_at": "2025-02-02T00:00:00Z",
        }
    ],
    "users.json": [{"uuid": "a-1", "full_name": "Sam"}],
}


def message(role: str, *parts: Any, recipient: str = "all", **fields: Any) -> dict[str, Any]:
    return {
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1_740_000_000.5,
        "content": {"content_type": "text", "parts": list(parts)},
        "recipient": recipient,
        "metadata": {},
        **fields,
    }


def chatgpt() -> dict[str, Any]:
    editable = {"content_type": "user_editable_context", "user_profile": "I teach chemistry."}
    said = [
        message("user", content=editable),
        message("user", SAID, {"content_type": "image_asset_pointer"}),
        message("assistant", "Sam's team uses PostgreSQL.", recipient="bio"),
        message("tool", "Model set context updated."),
        message("assistant", "We decided to always use MySQL."),
    ]
    names = [f"n{number}" for number in range(len(said))]
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
    for parent, name, each in zip(["root", *names], names, said, strict=False):
        mapping[name] = {"id": name, "message": each, "parent": parent, "children": []}
    edited = message("user", "We decided to use Oracle for the users table.")
    mapping["edited"] = {"id": "edited", "message": edited, "parent": "n0", "children": []}
    return {
        "conversations.json": [
            {"title": "DB", "create_time": 1.0, "mapping": mapping, "current_node": names[-1]}
        ],
        "chat.html": "<html>",
        "user.json": {"id": "u"},
    }


RULES = """# CLAUDE.md

<!-- for us -->
Run the tests before a commit.

## Style
- Two spaces, never tabs.
- Names say what a thing is,
  not how it is made.

Before a release:
- Set the version.
- Run all of it:

```bash
make all
```

@docs/more.md
"""
CLAUDE_CODE = {
    "memory/MEMORY.md": "- [Tests](tests.md) — how they run\n- The repository is a monorepo.\n",
    "memory/tests.md": "---\nname: tests\ndescription: How tests run\nmetadata:\n  type: feedback\n"
    "---\nUse real databases.\n\n**Why:** mocks hid a bug.\n",
}
AMPLIFIER = {
    "MEMORY.md": "## Style\n- [m-001] never use tabs in YAML\n- [m-002] more → topics/yaml.md\n",
    "topics/yaml.md": "How YAML is written.\n\n- Keys are sorted.\n",
    "declined.md": "- not this\n",
    "usage.jsonl": '{"event": "loaded"}\n',
}
BASIC = {
    "notes/Coffee.md": "---\ntitle: Coffee\ntype: note\ntags: [drinks]\npermalink: coffee\n"
    "created: 2025-01-05\nstatus: done\n---\n# Coffee\n\nSam's notes.\n\n## Observations\n"
    "- [method] Pour over is clearer #brewing (tried)\n\n## Relations\n- relates_to [[Tea]]\n",
}
MEM0 = {
    "mem0.json": {
        "results": [
            {
                "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8c",
                "memory": "Likes to play cricket on weekends",
                "hash": "285d07801ae42054732314853e9eadd7",
                "metadata": {"category": "hobbies", "source": "chat"},
                "categories": ["sports"],
                "created_at": "2024-07-20T01:30:36.275141-07:00",
                "updated_at": None,
                "user_id": "alex",
            }
        ]
    }
}
GRAPH = {
    "memory.jsonl": '{"type":"entity","name":"Sam","entityType":"person","observations":'
    '["Speaks Polish","Works at Acme"]}\n{"type":"relation","from":"Sam","to":"Acme",'
    '"relationType":"works_at"}\n'
}

# Of each form: the texts it holds, and what is left out of it.
FORMS: dict[str, tuple[dict[str, Any], set[str], dict[str, int]]] = {
    "from-claude": (
        CLAUDE,
        {SAID, "**Work**", "Sam builds a shop.", "Sam likes tabs.", "The shop is written in Go."}
        | {"Answer briefly."},
        {"replies": 1, "attachments": 1, "messages of yours with nothing to keep": 1}
        | {"documents of projects": 1, "users.json": 1},
    ),
    "from-chatgpt": (
        chatgpt(),
        {SAID, "Sam's team uses PostgreSQL.", "I teach chemistry."},
        {"replies": 2, "attachments": 1, ".html files": 1, "user.json": 1},
    ),
    "from-rules-file": (
        {"project/CLAUDE.md": RULES, "project/README.md": "# Shop"},
        {
            "Run the tests before a commit.",
            "Style: Two spaces, never tabs.",
            "Style: Names say what a thing is,\n  not how it is made.",
            "Style: Before a release:\n- Set the version.\n- Run all of it:\n```bash\nmake all"
            "\n```",
        },
        {"comments": 1, "files that a rules file names with @": 1, "README.md": 1},
    ),
    "from-claude-code": (
        CLAUDE_CODE,
        {"The repository is a monorepo."}
        | {"How tests run\nUse real databases.\n\n**Why:** mocks hid a bug."},
        {"lines that point to a file of the same folder": 1},
    ),
    "from-amplifier-memory": (
        AMPLIFIER,
        {"Style: never use tabs in YAML", "How YAML is written.", "Keys are sorted."},
        {"lines that point to a file of the same folder": 1, "declined.md": 1, "usage.jsonl": 1},
    ),
    "from-basic-memory": (
        BASIC,
        {"Coffee: Pour over is clearer (tried)", "Coffee relates to Tea", "Coffee: Sam's notes."},
        {"the field status": 1},
    ),
    "from-mem0": (
        MEM0,
        {"Likes to play cricket on weekends"},
        {"the field user_id": 1, "the field metadata.source": 1},
    ),
    "from-mcp-memory": (
        GRAPH,
        {"Sam: Speaks Polish", "Sam: Works at Acme", "Sam works at Acme"},
        {},
    ),
}


def written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def folder_of(path: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(written(value))
    return path


def zip_of(path: Path, files: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2025, 5, 1, 12, 0, 0)), written(value))
    return path


def texts(command: Command, *options: str) -> set[str]:
    return {memory["content"] for memory in command.json("list", "--all", *options)}


class TestForms:
    @pytest.mark.parametrize("tag", FORMS)
    def test_each_form_is_recognised_zipped_or_not(
        self, tag: str, command: Command, tmp_path: Path
    ) -> None:
        files, held, left = FORMS[tag]
        counts = command.json("import", str(zip_of(tmp_path / "all.zip", files)), "--yes")
        assert texts(command, "--tag", tag) == texts(command) == held
        assert counts["new"] == len(held) and counts["left_out"] == left
        again = command.json("import", str(folder_of(tmp_path / "all", files)), "--yes")
        assert (again["new"], again["left_out"]) == (0, left)
        assert texts(command) == held

    def test_original_dates_and_where_it_was_said_come_along(
        self, command: Command, tmp_path: Path
    ) -> None:
        for form in ("from-claude", "from-mem0", "from-basic-memory", "from-chatgpt"):
            folder = folder_of(tmp_path / form, FORMS[form][0])
            command.run("import", str(folder), "--yes")
        found = {memory["content"]: memory for memory in command.json("list", "--all")}
        expected = {
            SAID: "2025-03-01T10:00",
            "Answer briefly.": "2025-02-02T00:00",
            "Likes to play cricket on weekends": "2024-07-20T08:30",
            "Coffee relates to Tea": "2025-01-05T00:00",
            "Sam's team uses PostgreSQL.": "2025-02-19T21:20",
        }
        assert {text: found[text]["timestamp"][:16] for text in expected} == expected
        said = found[SAID]
        assert said["metadata"]["conversation"] == "Databases" and said["said_by"] == "user"
        assert set(said["tags"]) == {"decision", "from-claude"}  # the first import of it
        assert found["Sam's team uses PostgreSQL."]["said_by"] == "agent"
        hobby = found["Likes to play cricket on weekends"]
        assert set(hobby["tags"]) == {"sports", "hobbies", "from-mem0"}

    def test_a_date_to_come_is_now_and_twice_is_once(
        self, command: Command, tmp_path: Path
    ) -> None:
        file = tmp_path / "conversations.json"
        chat = json.loads(json.dumps(CHAT).replace("2025-", "2999-"))
        file.write_text(json.dumps([chat]))
        os.utime(file, (4e9, 4e9))
        before = datetime.now(UTC)
        assert command.json("import", str(file), "--yes")["new"] == 1
        [memory] = command.json("list")
        stored = datetime.fromisoformat(memory["timestamp"])
        assert before <= stored <= datetime.now(UTC)
        assert command.json("import", str(file), "--yes")["unchanged"] == 1
        assert command.json("list") == [memory]

    def test_what_git_knows_of_the_lines_of_amplifiers_memory(self, tmp_path: Path) -> None:
        folder = folder_of(tmp_path / "memory", {"MEMORY.md": "- [m-001] first\n"})

        def git(*words: str, day: str = "2025-01-01") -> None:
            named = ["-c", "user.name=sam", "-c", "user.email=sam@example.com"]
            when = {"GIT_COMMITTER_DATE": f"{day}T00:00:00Z", "GIT_AUTHOR_DATE": f"{day}T00:00:00Z"}
            command = ["git", *named, *words]
            subprocess.run(
                command, cwd=folder, env=os.environ | when, check=True, capture_output=True
            )

        git("init")
        git("add", ".")
        git("commit", "-m", "first")
        (folder / "MEMORY.md").write_text("- [m-001] first\n- [m-002] second\n")
        git("commit", "-a", "-m", "second", day="2025-02-02")
        (folder / "MEMORY.md").write_text("- [m-001] first\n- [m-002] second\n- [m-003] third\n")
        haul = recognise(str(folder))
        assert haul
        times = {text: entry.fields.get("timestamp") for text, entry in haul.found.items()}
        assert times == {
            "first": datetime(2025, 1, 1, tzinfo=UTC),
            "second": datetime(2025, 2, 2, tzinfo=UTC),
            "third": None,  # not committed: its file tells
        }

    def test_a_local_folder_of_the_qdrant_client_is_refused(
        self, command: Command, tmp_path: Path
    ) -> None:
        files = {"meta.json": {}, "collection/notes/storage.sqlite": "SQLite"}
        folder = folder_of(tmp_path / "qdrant", files)
        said = command.run("import", str(folder), code=1).stderr
        assert "pickled" in said and "/collections/NAME" in said
        assert not command.root.exists()

    def test_a_collection_of_mcp_server_qdrant(
        self, command: Command, qdrant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from qdrant_client import QdrantClient, models

        monkeypatch.setenv("QDRANT_API_KEY", "read-only")
        client = QdrantClient(url=qdrant.url, check_compatibility=False)
        vectors = {"fast-bge": models.VectorParams(size=2, distance=models.Distance.COSINE)}
        client.create_collection("notes", vectors_config=vectors)
        about = {"created_at": "2025-01-02T00:00:00Z", "tags": ["db"], "colour": "red"}
        payloads = [
            {"document": "We chose PostgreSQL.", "metadata": about},
            *({"document": f"fact {number}", "metadata": None} for number in range(300)),
            {"other": 1},
        ]
        points = [
            models.PointStruct(id=number, vector={"fast-bge": [1.0, number]}, payload=payload)
            for number, payload in enumerate(payloads)
        ]
        client.upsert("notes", points)
        qdrant.api_key = "read-only"
        address = f"{qdrant.url}/collections/notes"
        counts = command.json("import", address, "--yes")
        assert counts["new"] == 301
        assert counts["left_out"] == {
            "points without a document": 1,
            "the field metadata.colour": 1,
        }
        [memory] = command.json("list", "--tag", "db")
        assert memory["timestamp"].startswith("2025-01-02")
        assert command.json("import", address, "--yes")["unchanged"] == 301
        assert "Name the collection" in command.run("import", qdrant.url, code=2).stderr


class TestAsking:
    def test_shows_what_it_would_take_and_asks(self, command: Command, tmp_path: Path) -> None:
        folder = folder_of(tmp_path / "export", CLAUDE)
        result = command.run("import", str(folder), input="n\n", code=1)
        assert "said in conversations, from Claude's data export: 1" in result.stdout
        assert "saved memories, from Claude's data export: 4" in result.stdout
        assert "documents of projects (1)" in result.stdout
        assert "Nothing is sent anywhere" in result.stderr
        assert "Import 6 memories for sam?" in result.stderr
        assert "Nothing was changed" in result.stderr and not command.root.exists()
        assert "Nobody is there" in command.run("import", str(folder), code=1).stderr
        assert "add --yes" in command.run("import", str(folder), "--json", code=2).stderr
        said = command.run("import", str(folder), input="y\n")
        assert "6 new" in said.stdout
        assert "Undo: agent-memory forget" in said.stderr and "--tag from-claude" in said.stderr

    def test_undone_by_its_tag_what_was_there_before_stays(
        self, command: Command, tmp_path: Path
    ) -> None:
        command.run("store", "Sam likes tabs.")
        command.run("import", str(folder_of(tmp_path / "export", CLAUDE)), "--yes")
        command.run("import", str(tmp_path / "export"), "--yes")
        command.run("forget", "--tag", "from-claude", "--yes")
        assert texts(command) == {"Sam likes tabs."}

    def test_rules_are_pinned_if_the_person_says_so(self, command: Command, tmp_path: Path) -> None:
        file = tmp_path / "AGENTS.md"
        file.write_text("- Never commit to main.\n- Run the tests.\n")
        command.run("import", str(file), "--yes")
        assert command.json("list", "--pinned") == []
        said = command.run("import", str(file), "--yes", "--pin").stdout
        assert "Pinned as rules in the file, or by --pin: 2." in said
        assert texts(command, "--pinned") == {"Never commit to main.", "Run the tests."}
        command.run("import", str(folder_of(tmp_path / "chats", CLAUDE)), "--yes", "--pin")
        assert len(command.json("list", "--pinned")) == 2

    def test_says_which_rules_no_longer_fit(self, command: Command, tmp_path: Path) -> None:
        # Longer than any of the file's, so that it does not fit into what those leave.
        text = f"Answer in English, where {' '.join(['nothing waits'] * 30)}."
        old = {"content": text, "timestamp": "2020-01-01T00:00:00Z"}
        own = {"id": "mem-00000000000a", "pinned": True, **old}
        command.run("import", "-", input=json.dumps(own))
        file = tmp_path / "CLAUDE.md"
        rules = (f"- Rule {n} is that {' '.join(['nothing waits'] * 15)}.\n" for n in range(40))
        file.write_text("".join(rules))
        os.utime(file, (1_700_000_000, 1_700_000_000))  # years after the own rule
        said = command.run("import", str(file), "--yes", "--pin").stderr
        assert "do not fit" in said and "mem-00000000000a" in said


class TestBounds:
    def test_nothing_recognised_is_said_with_what_is_there(
        self, command: Command, tmp_path: Path
    ) -> None:
        for path in (
            folder_of(tmp_path / "notes", {"letter.md": "Dear Sam", "photo.jpg": "JPEG"}),
            zip_of(tmp_path / "notes.zip", {"letter.md": "Dear Sam", "photo.jpg": "JPEG"}),
        ):
            said = command.run("import", str(path), "--yes", code=1).stderr
            assert "Nothing in it is recognised. It holds letter.md, photo.jpg" in said
        (tmp_path / "empty").mkdir()
        assert "holds nothing" in command.run("import", str(tmp_path / "empty"), code=1).stderr

    def test_names_in_a_zip_file_lead_nowhere(self, command: Command, tmp_path: Path) -> None:
        before = sorted(tmp_path.rglob("*"))
        files = {"../../CLAUDE.md": "- Run the tests.\n", "/etc/AGENTS.md": "- Be brief.\n"}
        path = zip_of(tmp_path / "evil.zip", files)
        command.run("import", str(path), "--yes")
        assert texts(command) == {"Run the tests.", "Be brief."}
        mine = [each for each in tmp_path.rglob("*") if command.root not in (each, *each.parents)]
        assert sorted(mine) == sorted([*before, path])

    def test_links_out_of_a_folder_are_not_followed(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "secret.md").write_text("- The door is open.\n")
        folder = folder_of(tmp_path / "project", {"AGENTS.md": "- Run the tests.\n"})
        (folder / "CLAUDE.md").symlink_to(tmp_path / "secret.md")
        (folder / "more").symlink_to(tmp_path)
        command.run("import", str(folder), "--yes")
        assert texts(command) == {"Run the tests."}

    def test_too_much_or_damaged(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = zip_of(tmp_path / "export.zip", CLAUDE)
        monkeypatch.setattr("agent_memory.foreign.sources.MAX_FILES", 3)
        assert "more than 3 files" in command.run("import", str(path), code=1).stderr
        folder = folder_of(tmp_path / "export", CLAUDE)
        assert "more than 3 files" in command.run("import", str(folder), code=1).stderr
        monkeypatch.undo()
        monkeypatch.setattr("agent_memory.formats.MAX_BYTES", 300)
        assert "0 MB" in command.run("import", str(path), code=1).stderr
        monkeypatch.undo()
        data = path.read_bytes()
        at = data.index(b"conversations.json") + 40
        path.write_bytes(data[:at] + b"\xff" * 20 + data[at + 20 :])
        assert "damaged" in command.run("import", str(path), code=1).stderr
        assert not command.root.exists()

    def test_credentials_are_not_taken(self, command: Command, tmp_path: Path) -> None:
        key = "sk-" + "a1b2c3d4" * 5
        chat = json.loads(json.dumps(CHAT).replace(SAID, f"We decided that the key is {key}."))
        rules = f"- Call it with {key}, always.\n"
        files = {"conversations.json": [chat], "CLAUDE.md": rules}
        counts = command.json("import", str(folder_of(tmp_path / "all", files)), "--yes")
        assert counts["masked_secrets"] == 1 and counts["new"] == 1
        assert key not in json.dumps(command.json("list"))

    def test_texts_and_tags_that_do_not_fit(self) -> None:
        haul, form = Haul(), Form("a form", "from-it")
        words = [f"word{number}" for number in range(5_000)]
        haul.add(form, "notes", " ".join(words), tags=["x" * 51, 7, *map(str, range(12))])
        assert len(haul.found) > 1 and all(len(text) <= 10_000 for text in haul.found)
        assert " ".join(haul.found).split() == words
        assert haul.left["tags that do not fit"] == 4


def test_times_in_any_form_but_none_to_come() -> None:
    haul = Haul(now=datetime(2025, 6, 1, tzinfo=UTC))
    expected = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    for value in ("2025-01-02T03:04:05Z", "2025-01-02T04:04:05+01:00", expected.timestamp()):
        assert haul.moment(value) == expected
    later = (haul.now + timedelta(seconds=1)).isoformat()
    for value in (later, "soon", None, [], 1e300, float("nan"), "0001-01-01T00:00+14:00"):
        assert haul.moment(value) is None


@pytest.mark.parametrize(
    "text", ["", "#", "- ", "```", "1. a\n2. b", "<!--", "a:\n- b\n\n\n- c", "* * *"]
)
def test_any_markdown_can_be_read(text: str) -> None:
    assert all(content for _, content in blocks(text))


JUNK: list[Any] = [None, 0, 1.5, True, "x", "", [], {}, [1], [None], {"a": 1}, ["x"], 1e300]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in `value`, with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield from places(value[key])
            yield value, key


@pytest.mark.parametrize("tag", ["from-claude", "from-chatgpt", "from-mem0", "from-mcp-memory"])
def test_values_of_any_kind_in_the_fields_of_a_form(tag: str) -> None:
    for file in FORMS[tag][0].values():
        lines = file.splitlines() if tag == "from-mcp-memory" else []
        document = [*map(json.loads, lines)] or [file]
        for container, key in places(document):
            right = container[key]
            for container[key] in JUNK:
                haul = Haul()
                if not (len(document) == 1 and chats.read(document[0], None, haul)):
                    records.read(document, None, haul)
                assert all(entry.fields["content"] for entry in haul.found.values())
            container[key] = right


def test_fields_that_are_not_understood_are_counted(command: Command) -> None:
    lines = [
        {"content": "We squash.", "category": "git", "context": "reviews", "tags": ["team"]},
        {"content": "We rebase.", "category": {"a": 1}, "colour": "red", "id": "7", "size": None},
    ]
    given = "\n".join(map(json.dumps, lines))
    said = command.run("import", "-", input=given).stdout
    assert "left out: category (1), colour (1), id (1)." in said
    [memory] = command.json("list", "--tag", "git")
    assert memory["content"] == "We squash.\nContext: reviews" and memory["tags"] == ["git", "team"]


def test_most_of_what_is_taken_of_conversations_is_worth_it() -> None:
    script = runpy.run_path(str(REPOSITORY / "benchmarks/import/score.py"))
    assert sum(len(turns) for *_, turns in script["conversations"]()) == 300
    found = script["taken"]()
    assert len(found) >= 30
    assert sum(worth for *_, worth in found) / len(found) >= 0.9
