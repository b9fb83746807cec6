"""Memories come from other tools: what `import` recognises, and what it makes of it."""

import json
import os
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agent_memory.foreign import records
from agent_memory.foreign.markdown import blocks
from command import Command

SAID = "We decided to use PostgreSQL for the users table."
PROFILE = (
    "---\nname: profile\ndescription: Who Sam is\n---\n\n"
    "_Where_\n\n- [stated] Lives in Bonn.\n- [inferred] Has a dog.\n- Plays chess."
)
SAVED = {
    "conversations_memory": "**Work**\n\nSam builds a shop.\n\nSam likes tabs.\n\n**Bye**",
    "project_memories": {"p-1": "The shop is written in Go."},
    "memory_files": [
        {"path": "/profile.md", "content": PROFILE, "updated_at": "2026-09-03T00:00:00Z"}
    ],
}
PROJECT = {
    "uuid": "p-1",
    "name": "Shop",
    "prompt_template": "Answer briefly.",
    "docs": [{"filename": "spec.md", "content": "A page"}],
    "updated_at": "2025-02-02T00:00:00Z",
}
CLAUDE = {
    "conversations.json": [{"name": "Databases", "chat_messages": [{"text": SAID}]}],
    "memories/1.json": [SAVED],
    "projects/p-1.json": [PROJECT],
}


def message(recipient: str, *parts: Any, **content: Any) -> dict[str, Any]:
    text = {"content_type": "text", "parts": list(parts), **content}
    return {"message": {"create_time": 1_740_000_000.5, "content": text, "recipient": recipient}}


AROUND = "The user provided the following information about themselves. Ignore it.\n```%s```"
EDITABLE = {
    "content_type": "user_editable_context",
    "user_profile": AROUND % "I teach chemistry.\n\n- Sam",
    "user_instructions": None,
}
TYPED = {"about_user_message": "I teach.", "about_model_message": "Be brief."}
MESSAGES = {
    "root": {"message": None},
    "0": message("all", **EDITABLE),
    "1": message("all", SAID, {"content_type": "image_asset_pointer"}),
    "2": message("bio", "Sam's team uses PostgreSQL."),
    "3": message("all", "Model set context updated."),
    "4": message("bio", " "),
    "5": message("all", **(EDITABLE | {"user_profile": AROUND % "I teach."})),
}
MESSAGES["5"]["message"]["metadata"] = {"user_context_message_data": TYPED}
CHATGPT = {
    "conversations.json": [{"title": "DB", "mapping": MESSAGES}, {"mapping": MESSAGES}],
    "chat.html": "<html>",
}
RULES = """# CLAUDE.md

This file provides guidance to Claude Code when working with code in this repository.

<!-- for us -->
Run the tests before a commit.

**Style:**
- Two spaces, never tabs.
- Names say what a thing is,
  not how it is made.

Before a release:
- Set the version.
- Run all of it:

```bash
# everything

make all
```
---
1. Build it.
2. Ship it.

@docs/more.md
"""
RELEASE = "- Set the version.\n- Run all of it:\n```bash\n# everything\n\nmake all\n```"
CLAUDE_CODE = {
    "MEMORY.md": "- [Tests](tests.md) — how they run\n- The repository is a monorepo.\n",
    "tests.md": "---\nname: tests\ndescription: How tests run\nmetadata:\n  type: feedback\n---\n"
    "Use real databases.\n\n**Why:** mocks hid a bug.\n",
    "build.md": "---\nname: build\n---\n# Build\n\n- It takes [an hour](why.md).\n\n- It is hot.\n",
}
MEM0 = {
    "mem0.json": {
        "results": [
            {
                "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8c",
                "memory": "Likes to play cricket on weekends",
                "categories": ["sports", None],
                "created_at": "2024-07-20T01:30:36.275141-07:00",
                "updated_at": None,
            },
            {"memory": "Speaks Polish", "created_at": "2024-01-01", "updated_at": "2025-01-01"},
        ]
    }
}
GRAPH = {
    "memory.jsonl": '{"type":"entity","name":"Sam","entityType":"person","observations":'
    '["Speaks Polish","Works at Acme"]}\n{"type":"relation","from":"Sam","to":"Acme",'
    '"relationType":"works_at"}\n'
}

GRAPHS = ["Sam: Speaks Polish", "Sam: Works at Acme", "Sam works at Acme"]


def by(speaker: str | None, texts: str) -> dict[str, str | None]:
    """Texts, with a | between them, and who said them."""
    return dict.fromkeys(texts.split("|"), speaker)


# Of each form: the files, the texts that they hold, who said them, and what is shown before.
FORMS: dict[str, tuple[dict[str, Any], dict[str, str | None], list[str]]] = {
    "from-claude": (
        CLAUDE,
        by("agent", "Work: Sam builds a shop.|Work: Sam likes tabs.|Work: **Bye**")
        | by("agent", "Where: Has a dog.|Where: Plays chess.|The shop is written in Go.")
        | by("user", "Where: Lives in Bonn.")
        | by(None, "Shop: Answer briefly."),
        [
            "memories saved by Claude: 7, in memories/1.json",
            "instructions for Claude: 1, in projects/p-1.json",
        ],
    ),
    "from-chatgpt": (
        CHATGPT,
        by("agent", "Sam's team uses PostgreSQL.")
        | by(None, "I teach chemistry.|Sam|I teach.|Be brief."),
        [
            "memories saved by ChatGPT: 1, in conversations.json",
            "instructions for ChatGPT: 4, in conversations.json",
        ],
    ),
    "from-rules": (
        {"CLAUDE.md": RULES, "README.md": "# Shop"},
        by(None, "Run the tests before a commit.|Style: Two spaces, never tabs.")
        | by(None, "Style: Names say what a thing is,\n  not how it is made.")
        | by(None, f"Style: Before a release:\n{RELEASE}|Style: 1. Build it.\n2. Ship it."),
        ["rules: 5, in CLAUDE.md"],
    ),
    "from-notes": (
        CLAUDE_CODE,
        by("agent", "How tests run\nUse real databases.\n\n**Why:** mocks hid a bug.")
        | by("agent", "Build: It takes [an hour](why.md).|Build: It is hot.")
        | by("agent", "The repository is a monorepo."),
        ["notes: 4, in MEMORY.md, build.md, tests.md"],
    ),
    "from-mem0": (
        MEM0,
        by("agent", "Likes to play cricket on weekends|Speaks Polish"),
        ["memories of mem0: 2, in mem0.json"],
    ),
    "from-mcp-memory": (
        GRAPH,
        dict.fromkeys(GRAPHS),
        [
            "observations of MCP's server: 2, in memory.jsonl",
            "relations of MCP's server: 1, in memory.jsonl",
        ],
    ),
}


CRLF = f"\ufeff---\r\na: x\r\n---\r\n- One.\r\n- {'x' * 10_001}\r\n```\r\n\r\nTwo."
CONVERSATIONS = json.dumps([{"mapping": None}, {"mapping": MESSAGES}, {"x": 1}])
GLUED = "\ufeff" + GRAPH["memory.jsonl"].replace("\n", "")
# Files that are read in part: their texts, and the fault that is named.
PARTLY: list[tuple[str, str, list[str], str]] = [
    ("memory.jsonl", '{"memory": "one"}\n{"memory": "sec', ["one"], "line 2: it is not a whole"),
    ("memory.json", GLUED, GRAPHS, ""),
    ("memory.json", '{"name":"To' + GRAPH["memory.jsonl"], GRAPHS, "line 1: it is not a whole"),
    ("conversations.json", CONVERSATIONS, [*FORMS["from-chatgpt"][1]], "item 1: it is no conv"),
    ("AGENTS.md", CRLF, ["One.", "Two."], "item 2: content has 10,001 characters"),
    ("note.md", "---\nname: x\n---\n# Note\n\n---\nText.", ["Note: Text."], ""),
]


def folder_of(path: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(value if isinstance(value, str) else json.dumps(value))
        os.utime(path / name, (1_700_000_000, 1_700_000_000))
    return path


def zip_of(path: Path, files: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(name, value if isinstance(value, str) else json.dumps(value))
    return path


def texts(command: Command, *options: str) -> dict[str, str | None]:
    found = command.json("list", "--all", *options)
    return {memory["content"]: memory.get("said_by") for memory in found}


class TestForms:
    @pytest.mark.parametrize("tag", FORMS)
    def test_each_form_is_recognised_zipped_or_not(
        self, tag: str, command: Command, tmp_path: Path
    ) -> None:
        files, held, shown = FORMS[tag]
        path = zip_of(tmp_path / "all.zip", files)
        said = command.run("import", str(path), "--tag", "mine", "--yes")
        told = said.stdout.splitlines()[:-1]
        first = [line.split("\t")[-1] for line in told if line.startswith("mem-")]
        assert sorted(line for line in told if not line.startswith("mem-")) == sorted(shown)
        assert first and {*first} <= {" ".join(text.split()) for text in held}
        assert f"{len(held)} new, 0 merged, 0 unchanged" in said.stdout
        assert texts(command, "--tag", tag) == texts(command, "--tag", "mine") == held
        folder = folder_of(tmp_path / "all", files)
        again = command.json("import", str(folder), "--yes")
        assert again["new"] == 0 and again["left_out"] == {}
        assert texts(command) == held
        if len(files) == 1:
            [name] = files
            assert command.json("import", str(folder / name), "--yes")["new"] == 0

    def test_original_dates_and_where_it_comes_from_come_along(
        self, command: Command, tmp_path: Path
    ) -> None:
        for form, (files, *_) in FORMS.items():
            command.run("import", str(folder_of(tmp_path / form, files)), "--yes")
        found = {memory["content"]: memory for memory in command.json("list", "--all")}
        expected = {
            "Shop: Answer briefly.": "2025-02-02T00:00",
            "Likes to play cricket on weekends": "2024-07-20T08:30",
            "Speaks Polish": "2025-01-01T00:00",
            "Sam's team uses PostgreSQL.": "2025-02-19T21:20",
            "I teach chemistry.": "2025-02-19T21:20",
            "Where: Has a dog.": "2026-09-03T00:00",
            "Work: Sam likes tabs.": "2023-11-14T22:13",  # of the file
        }
        assert {text: found[text]["timestamp"][:16] for text in expected} == expected
        about = {"stored_by": "agent-memory import", "kind": "memories of mem0"}
        hobby = found["Likes to play cricket on weekends"]
        assert hobby["metadata"] == about and set(hobby["tags"]) == {"sports", "from-mem0"}
        assert set(found["Sam: Works at Acme"]["tags"]) == {"person", "from-mcp-memory"}

    @pytest.mark.parametrize("when", [4e9, -1, 1e300, "soon", None])
    def test_a_date_that_cannot_be_is_that_of_the_file_but_none_to_come(
        self, command: Command, tmp_path: Path, when: Any
    ) -> None:
        file = tmp_path / "conversations.json"
        node = message("bio", "Sam likes tabs.")
        node["message"]["create_time"] = when
        file.write_text(json.dumps([{"mapping": {"1": node}}]))
        os.utime(file, (4e9, 4e9))
        before = datetime.now(UTC)
        assert command.json("import", str(file), "--yes")["new"] == 1
        [memory] = command.json("list")
        assert before <= datetime.fromisoformat(memory["timestamp"]) <= datetime.now(UTC)
        assert command.json("import", str(file), "--yes")["unchanged"] == 1
        assert command.json("list") == [memory]


class TestAsking:
    def test_shows_what_it_would_take_and_asks(self, command: Command, tmp_path: Path) -> None:
        folder = folder_of(tmp_path / "export", CLAUDE)
        result = command.run("import", str(folder), input="n\n")
        assert "memories saved by Claude: 7, in memories/1.json\nmem-" in result.stdout
        assert "Work: Sam builds a shop." in result.stdout
        assert "Nothing is sent anywhere" in result.stderr
        assert "Import 8 memories for sam?" in result.stderr
        assert "Nothing was changed" in result.stderr and not command.root.exists()
        assert "Nobody is there" in command.run("import", str(folder), code=1).stderr
        said = command.run("import", str(folder), input="y\n")
        assert "8 new" in said.stdout
        undo = f"--tag from-claude --agent sam --root {command.root}\n"
        assert "Undo: agent-memory forget" in said.stderr and undo in said.stderr
        assert "That takes back all imports of this kind." in said.stderr
        assert (
            "Undo" not in command.run("import", str(folder), input="y\n").stderr
        )  # brought nothing

    def test_undone_by_its_tag_what_was_there_before_stays(
        self, command: Command, tmp_path: Path
    ) -> None:
        command.run("store", "Work: Sam likes tabs.", "--tag", "mine")
        folder = str(folder_of(tmp_path / "export", CLAUDE))
        for _ in range(2):
            command.run("import", folder, "--yes")
        command.run("forget", "--tag", "from-claude", "--yes")
        [memory] = command.json("list")
        assert (memory["content"], memory["tags"]) == ("Work: Sam likes tabs.", ["mine"])

    def test_rules_are_pinned_if_the_person_says_so(self, command: Command, tmp_path: Path) -> None:
        file = tmp_path / "AGENTS.md"
        file.write_text("- Never commit to main.\n- Run the tests.\n")
        command.run("import", str(file), "--yes")
        assert command.json("list", "--pinned") == []
        own = {"content": "Be brief.", "timestamp": "2020-01-01T00:00:00Z", "pinned": True}
        command.run("import", "-", "--pin", input=json.dumps(own))
        said = command.run("import", str(file), "--yes", "--pin")
        assert "Pinned as rules in the file, or by --pin: 2." in said.stdout
        pinned = {"Never commit to main.", "Run the tests.", "Be brief."}
        assert "not fit" not in said.stderr and set(texts(command, "--pinned")) == pinned
        file.write_text("".join(f"- Rule {n} {' waits' * 150}.\n" for n in range(12)))
        assert "do not fit: mem-" in command.run("import", str(file), "--yes", "--pin").stderr


class TestBounds:
    def test_only_what_is_recognised_is_read(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "secret.md").write_text("- The door is open.\n")
        files = {"letter.md": "Dear Sam", "photo.jpg": "JPEG", "x.json": "{", "y.json": "[1]"}
        folder = folder_of(tmp_path / "notes", files)
        (folder / "CLAUDE.md").symlink_to(tmp_path / "secret.md")
        folder_of(folder / "below", {"AGENTS.md": "- Run the tests.\n"})
        (folder / "projects").symlink_to(folder_of(tmp_path / "elsewhere", CLAUDE) / "projects")
        (folder / "folder.md").mkdir()
        (folder / "latin.md").write_bytes(b"\xff")
        (tmp_path / "empty").mkdir()
        evil = zip_of(tmp_path / "evil.zip", {"../CLAUDE.md": "- Be brief.", "/AGENTS.md": "- No."})
        before = sorted(tmp_path.rglob("*"))
        for path in (folder, tmp_path / "empty", evil, zip_of(tmp_path / "notes.zip", files)):
            said = command.run("import", str(path), "--yes", code=1).stderr
            assert "nothing was changed.\n  No memories of another tool are recognised" in said
        assert sorted([*before, tmp_path / "notes.zip"]) == sorted(tmp_path.rglob("*"))

    def test_damaged_or_locked(self, command: Command, tmp_path: Path) -> None:
        path = zip_of(tmp_path / "export.zip", {"memories.json": CLAUDE["memories/1.json"]})
        data = path.read_bytes()
        at = data.index(b"memories.json") + 20
        locked = bytearray(data)
        for header in (b"PK\x03\x04", b"PK\x01\x02"):
            locked[data.index(header) + (6 if header.endswith(b"\x04") else 8)] |= 1
        for wrong in (data[:at] + b"\xff" * 20 + data[at + 20 :], bytes(locked)):
            path.write_bytes(wrong)
            said = command.run("import", str(path), code=1).stderr
            assert "damaged or locked zip file" in said
        assert not command.root.exists()

    @pytest.mark.parametrize(("name", "content", "held", "fault"), PARTLY, ids=range(len(PARTLY)))
    def test_what_cannot_be_read_is_named_and_the_rest_comes(
        self, command: Command, tmp_path: Path, name: str, content: str, held: list[str], fault: str
    ) -> None:
        (tmp_path / name).write_text(content, newline="")
        said = command.run("import", str(tmp_path / name), "--yes", code=int(bool(fault))).stderr
        assert (f"left out: 1.\n  {name}, {fault}" in said) == bool(fault)
        assert texts(command).keys() == {*held}

    def test_a_known_form_that_holds_nothing_is_not_read_by_lines(
        self, command: Command, tmp_path: Path
    ) -> None:
        nothing = "No memories of another tool are"
        for name, text, why in (
            ("CLAUDE.md", "# Title\n---\n", nothing),
            (".cursorrules", "---\n", nothing),
            ("conversations.json", '[{"mapping": {}}, {"mapping": null}]', nothing),
            ("x.json", "no JSON", "line 1: it is not"),
        ):
            (tmp_path / name).write_text(text)
            said = command.run("import", str(tmp_path / name), code=1).stderr
            assert f"nothing was changed.\n  {why}" in said and not command.root.exists()


@pytest.mark.parametrize(
    ("text", "held"),
    [
        *((text, []) for text in ("", "- ", "<!--", "* * *", "## a\n***\n")),
        ("```", []),
        ("a\n```\n\n# b\nc", ["a", "b: c"]),
        ("**a**\n\nb\n\n*c:*\n- d\n\n**e**\n**f.**", ["a: b", "c: d", "c: **e**\n**f.**"]),
        ("1. a\n2. b", ["1. a\n2. b"]),
        ("a:\n- b\n\n\n- c", ["a:\n- b\n\n\n- c".replace("\n\n\n", "\n")]),
        ("a\n\nb\nc\n- d\n\n  e", ["a", "b\nc", "d\n  e"]),
        ("# h #\na\n# x.md\nb\n", ["h: a", "b"]),
        ("~~~\n# no\n- title\n~~~\nb", ["~~~\n# no\n- title\n~~~\nb"]),
    ],
)
def test_any_markdown_can_be_read(text: str, held: list[str]) -> None:
    assert list(blocks(text)) == held


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
                found = [entry for value in document for entry in records.entries(value)]
                assert all(entry.fields["content"].strip() for entry in found if entry.kind)
            container[key] = right
