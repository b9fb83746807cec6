"""Memories go to another machine: export, import, and what restoring a memory keeps."""

import asyncio
import gzip
import json
import os
import stat
import tempfile
import tracemalloc
import zipfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from agent_memory import files, formats, interchange
from command import Command
from conftest import Clock, MakeStorage
from embeddings_server import EmbeddingsServer
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from memory_semantic import InputError, Memory, MemoryStorage
from memory_semantic.remembered import point_id


@pytest.fixture
def elsewhere(tmp_path: Path) -> Command:
    """The new laptop."""
    return Command(tmp_path / "new")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memories.jsonl"


TEXTS = [
    "We chose PostgreSQL.",
    'Quotes " and \\ and\nlines\u2028and\ttabs\ufeff.',
    "漢字 👩‍👩‍👧 مرحبا",
    "<script>alert(1)</script>",
    "🙂" * 10_000,
]


class TestExportAndImport:
    def test_the_format_is_as_documented_and_is_found_elsewhere(
        self, command: Command, elsewhere: Command, file: Path, storage: MemoryStorage, clock: Clock
    ) -> None:
        for number, text in enumerate(TEXTS):
            clock.advance(days=number)
            asyncio.run(storage.store(text, [f"tag {number}", "all"]))
        assert command.json("export", str(file))["memories"] == 5
        header, *lines = [json.loads(line) for line in file.read_text().split("\n") if line]
        assert header.pop("exported").endswith("+00:00")
        assert header == {"format": "agent-memory", "version": 1, "agent": "sam", "memories": 5}
        assert [line["content"] for line in lines] == TEXTS  # oldest first
        assert set(lines[0]) == {"id", "timestamp", "tags", "content"}
        assert lines[0]["timestamp"] == "2026-06-15T12:00:00.000000+00:00"
        assert "漢字" in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        counts = elsewhere.json("import", str(file))
        assert (counts["new"], counts["merged"], counts["unchanged"]) == (5, 0, 0)
        assert elsewhere.json("search", "database")[0]["content"] == TEXTS[0]

    def test_asks_before_replacing_a_file_and_leaves_others_alone(
        self, command: Command, file: Path
    ) -> None:
        command.run("store", "one")
        beside = file.with_name(f"{file.name}.tmp")
        for path in (file, beside):
            path.write_text("dear")
        assert "Replace it?" in command.run("export", str(file), input="n\n").stderr
        assert file.read_text() == "dear"
        command.run("export", str(file), "--yes")
        assert "one" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
        assert beside.read_text() == "dear" and len(list(file.parent.glob("*memories*"))) == 2
        missing = file.with_name("missing") / "file"
        said = command.run("export", str(missing), code=1).stderr
        assert f"{missing} cannot be used: No such file or directory; it was not written" in said

    def test_a_link_is_followed(self, command: Command, file: Path) -> None:
        command.run("store", "one")
        file.symlink_to(file.with_name("real"))
        command.run("export", str(file), "--yes")
        assert file.is_symlink() and '"one"' in file.with_name("real").read_text()

    def test_an_export_is_utf_8_whatever_the_locale(self, command: Command) -> None:
        command.run("store", "漢字")
        process = command.start("export", "-", PYTHONIOENCODING="latin-1")
        output, _ = process.communicate()
        assert "漢字" in output


ENDS = [moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max)]
TIMES = st.sampled_from(ENDS) | st.datetimes(
    datetime(1, 1, 2),
    datetime(9999, 12, 30),
    timezones=st.integers(-14, 14).map(lambda hours: timezone(timedelta(hours=hours))),
)
ANY_MEMORY = st.fixed_dictionaries(
    {
        "id": st.integers(0, 2**48 - 1).map("mem-{:012x}".format),
        "content": st.text(min_size=1, max_size=200),
        "tags": st.lists(st.text(min_size=1, max_size=20), max_size=4),
        "timestamp": TIMES,
        "said_by": st.sampled_from((None, "user", "agent", "tool")),
    }
)


@pytest.mark.timeout(240)  # a dozen operations on stores for each example
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink a failure takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.lists(ANY_MEMORY, min_size=1, max_size=5))
def test_whatever_was_stored_survives_an_export(stored: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        here, there = Command(Path(folder) / "here"), Command(Path(folder) / "there")
        storage = MemoryStorage("sam", {"storage_root": str(here.root), "embedding_model": "local"})
        for fields in stored:
            with suppress(InputError):  # such as a text of blanks
                asyncio.run(storage.restore([Memory(agent_id="sam", **fields)]))
        assume(here.root.exists())
        file = str(Path(folder) / "memories.jsonl")
        here.run("export", file)
        memories = here.json("list", "--all")
        assert there.json("import", file)["new"] == len(memories)
        copied = there.json("list", "--all")
        by_id = {memory["id"]: memory for memory in memories}
        assert {memory["id"]: memory for memory in copied} == by_id
        counts = there.json("import", file)
        assert (counts["new"], counts["merged"]) == (0, 0)
        assert there.json("list", "--all") == copied


def read(name: str, data: str | bytes) -> list[Memory]:
    """The memories that `import` finds in a file of this name."""
    storage = MemoryStorage("sam", {"embedding_model": "local"})  # nothing is stored
    content = data.encode() if isinstance(data, str) else data
    return [memory for _, memory in interchange.read(formats.entries(content, name), storage)[0]]


DEV_MEMORY = """
# Memory Store - "Remember This" Entries

memories:
  - id: "mem-001"
    timestamp: "2026-01-05T12:00:00Z"
    category: "preference"
    content: "Testing the memory system"
    context: "Initial setup"
    tags: ["Test", "setup"]
  - id: mem-002
    timestamp: 2026-01-06T12:00:00Z
    category: git
    content: We squash.
    tags: [on, 1, 0x10]
  - id: mem-003
    timestamp: 2026-01-07
    content: Without a category
"""
# Beginnings of notes that are no JSON.
BRACKETS = [
    *("[ ] buy milk", "[x] done", "[1] Smith 2020", "[2026-01-01] We chose PostgreSQL.", "{", "["),
    *("[WIP] and more", "{name} is what the template says", "{1, 2} is a set"),
]
HEADER = (
    '{"format": "agent-memory", "version": 1, "agent": "sam", "exported": "2026-01-01T00:00Z", '
    '"memories": %d}\n{"content": "a"}'
)
JOURNAL = (HEADER % 0).replace("}\n", ', "shard": "shard-1"}\n')
LINE = '{"content": "We chose PostgreSQL, 漢字."}\r\n'
PACKED = [
    (name, gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    for name in ("memories.jsonl", "memories.jsonl.gz", "export")
    for data in (LINE.encode("utf-8-sig"),)
]


class TestOtherFiles:
    @pytest.mark.parametrize(
        ("name", "data", "texts"),
        [
            ("notes.txt", "\ufeffWe deploy.\n\n  Tabs. \r\n", ["We deploy.", "Tabs."]),
            *(("notes.txt", f"\n  {first}\nanother\n", [first, "another"]) for first in BRACKETS),
            *((name, data, ["We chose PostgreSQL, 漢字."]) for name, data in PACKED),
            ("x", '{"content": "this"}\n{"content": "and", "id": 7, "more": 1}\n', ["this", "and"]),
            ("x", "memories:\n- content: 2026\n  context: ''\n", ["2026"]),
            ("x", '[\n{"content": "this"},\n{"content": "and"}]', ["this", "and"]),
            ("x", f'{HEADER % 3}\n[{{"content": "b"}}, {{"content": "c", "format": 1}}]', [*"abc"]),
            ("x", JOURNAL + JOURNAL.replace('"a"', '"b"'), [*"ab"]),
            ("x", '{"content": "text", "format": "plain", "context": " "}', ["text"]),
            *(("x", empty, []) for empty in ("", " \n", "[]")),
        ],
    )
    def test_their_memories_are_found(self, name: str, data: str | bytes, texts: list[str]) -> None:
        assert [memory.content for memory in read(name, data)] == texts

    @pytest.mark.parametrize("name", ["memory-store.yaml", "memory-store.txt"])
    def test_the_yaml_of_dev_memory(self, name: str) -> None:
        yaml = DEV_MEMORY if name.endswith("yaml") else DEV_MEMORY.partition("\n\n")[2]
        first, second, third = read(name, yaml)
        assert first.content == "Testing the memory system\nContext: Initial setup"
        assert first.tags == ["preference", "test", "setup"] and third.tags == []
        assert second.tags == ["git", "on", "1", "0x10"]  # as they were written
        times = [f"{memory.timestamp:%F %T}" for memory in (first, second, third)]
        assert times == ["2026-01-05 12:00:00", "2026-01-06 12:00:00", "2026-01-07 00:00:00"]

    def test_a_text_that_occurs_twice_is_one_memory(self, elsewhere: Command, file: Path) -> None:
        key = "sk-" + "a1b2c3d4" * 5
        first = {"id": "mem-000000000001", "content": f"a {key}", "tags": [key]}
        second = {"id": "mem-000000000002", "content": f" a {key} ", "tags": ["y"]}
        file.write_text("\n".join(map(json.dumps, [first, second])))
        counts = elsewhere.json("import", str(file))
        assert (counts["new"], counts["merged"], counts["masked_secrets"]) == (1, 0, 3)
        [memory] = elsewhere.json("list")
        assert memory["id"] == "mem-000000000001" and key not in str(memory)
        assert memory["tags"] == ["(masked api key)", "y"]

    @pytest.mark.parametrize("words", [("show",), ("search", "We chose PostgreSQL"), ("list",)])
    def test_the_json_that_the_commands_print(
        self, command: Command, elsewhere: Command, words: tuple[str, ...]
    ) -> None:
        stored = command.json("store", "We chose PostgreSQL.\n{really}", "--tag", "database")
        arguments = ("show", stored["memory_id"]) if words == ("show",) else words
        printed = command.run(*arguments, "--json").stdout
        elsewhere.run("import", "-", input=printed * 2)
        assert elsewhere.json("list") == command.json("list")


LAUGHS = "".join(f"\n- &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))

# Of these, what is whole comes, and the rest is named; what may have been meant is not guessed.
TORN: list[tuple[str, list[str], list[str]]] = [
    ('{"content": "a"}\n{"content": 1}', ["a"], ["line 2: content must be a text"]),
    ('{"content": "a"}\n{"content"', ["a"], ["line 2: it is not a whole JSON object"]),
    ('{"content": "a"{"content": "b"}}]\n{"content": "c"}', [*"bc"], ["line 1: it is not a whole"]),
    ('\ufeff{"content": "a"}{"content": "b"}[{"content": "c"}]', [*"abc"], []),
    ('[{"content": "a"},\n{"content": "b', ["a"], ["line 1: it is not", "line 2: it is not"]),
    ('{"content": "a"}\n[1]', ["a"], ["memory 1: it is not an object"]),
    (HEADER % 2, ["a"], ["the end: it comes early, after 1 of 2 memories"]),
    (f"{HEADER % 2}\n{HEADER % 1}", [*"aa"], ["the end: it comes early, after 2 of 3"]),
    ("fine\n" + "x" * 10_001, ["fine"], ["line 2: content has 10,001 characters"]),
]

WRONG: list[tuple[str | bytes, str]] = [
    ('{"content": "a", "timestamp": "soon"}', "line 1: its timestamp"),
    ('{"content": "a", "timestamp": "0001-01-01T00:00+14:00"}', "line 1: its timestamp"),
    ('{"content": "a", "tags": "b", "category": "c"}', "line 1: tags must be a list"),
    ('{"content": "a", "tags": ' + "[" * 600 + "]" * 600 + "}", "a tag must be a text"),
    ('{"content": "a", "x": ' + "9" * 5_000 + "}", "line 1: it is not a whole JSON"),
    ('{\n  "content": 2\n}\n{\n  "content": 1\n}', "line 4: content must be a text"),
    ('{"content":' * 100_000, "nested too deeply"),
    ('["a", {"content": 1}]', "memory 1: it is not an object with a content.\nmemory 2: content"),
    (
        (HEADER % 1).replace(": 1,", ": 2,"),
        "line 1: no export of this version. If it is of a newer one, upgrade agent-memory.",
    ),
    ((HEADER % 1).replace("-memory", "-notes"), "line 1: no export of this version"),
    ("memories:\n- id: [", "line 2, column 8"),
    ("memories: []\n---\nmemories: []", "not one document of YAML"),
    ("memories:\n- content: hi\n  tags: {a: b}", "memory 1: tags must be a list"),
    (f"memories:\n- &l0 [content, content]{LAUGHS}", "YAML aliases"),  # gigabytes of them
    (f"memories:\n- content: {'1:' * 200_000}1", "400,001 characters"),  # slow as a number
    ("memories: " + "[" * 100_000, "nested too deeply"),
    ("memories: none", "no list of memories"),
    (
        "fine\nna\u00efve".encode("latin-1"),
        "not UTF-8 text. If an archive, unpack it. If it is text",
    ),
    (LINE.encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
    (LINE.encode("utf-16-le"), "not UTF-8 text"),
    (gzip.compress(b"fine\n" * 100, mtime=0)[:-10], "damaged or incomplete"),
    (gzip.compress(b"fine", mtime=0)[:12] + b"\xff" * 20, "damaged or incomplete"),
    (gzip.compress(b"\xff", mtime=0), "not UTF-8 text"),
]


class TestWrongFiles:
    @pytest.mark.parametrize(("data", "said"), WRONG, ids=range(len(WRONG)))
    def test_faults_name_their_place(self, data: str | bytes, said: str) -> None:
        with pytest.raises(InputError) as told:
            read("memories", data)
        assert said in str(told.value)

    @pytest.mark.parametrize(("data", "texts", "faults"), TORN, ids=range(len(TORN)))
    def test_what_can_be_read_of_it_comes(
        self, data: str, texts: list[str], faults: list[str]
    ) -> None:
        storage = MemoryStorage("sam", {"embedding_model": "local"})
        entries = formats.entries(data.encode(), "notes" if data[0] == "f" else "memories.json")
        found, told, *_ = interchange.read(entries, storage)
        assert [memory.content for _, memory in found] == texts
        assert len(told) == len(faults) and all(map(str.startswith, told, faults))

    @pytest.mark.parametrize("name", ["notes.csv", "notes.TSV", "notes.csv.gz"])
    def test_a_table(self, name: str) -> None:
        with pytest.raises(InputError, match=r'\{"content": '):
            read(name, "date,note\n2026-01-01,We chose PostgreSQL.\n")

    def test_nothing_is_changed_or_what_is_left_out_is_told(self, elsewhere: Command) -> None:
        wrong = '{"content": 1}\n' * 30
        said = elsewhere.run("import", "-", input=wrong, code=1).stderr
        assert "nothing was changed.\n  line 1: content must" in said and "and 20 more" in said
        assert not elsewhere.root.exists()
        said = elsewhere.run("import", "-", input='{"content": "good"}\n' + wrong, code=1)
        assert "Cannot be read, and left out: 30.\n  line 2: content must" in said.stderr
        assert "1 memory for sam: 1 new" in said.stdout and len(elsewhere.json("list")) == 1

    def test_what_never_ends_or_is_packed_to_do_harm(
        self, elsewhere: Command, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pipe, packed = file.with_name("pipe"), file.with_name("all.zip")
        os.mkfifo(pipe)
        for name in ("/dev/zero", str(pipe)):
            assert "a pipe or a device" in elsewhere.run("import", name, code=1).stderr
        file.write_bytes(gzip.compress(bytes(2**25)))
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("memories.json", bytes(2**25))
        for name in (file, packed):
            tracemalloc.start()
            said = elsewhere.run("import", str(name), code=1).stderr
            assert "Unpacked, it is over 100 times as large. Unpack it yourself." in said
            assert tracemalloc.get_traced_memory()[1] < 2**24
            tracemalloc.stop()
        monkeypatch.setattr(files, "MAX_BYTES", 2**21)
        file.write_bytes(bytes(2**21 + 1))
        assert "larger than 2 MB. Split" in elsewhere.run("import", str(file), code=1).stderr

    def test_a_memory_that_would_have_too_many_tags(self, elsewhere: Command, file: Path) -> None:
        elsewhere.run("store", "same", *(f"--tag={number}" for number in range(15)))
        tags = [f"other {number}" for number in range(5)]
        lines = [{"content": "before"}, {"content": "same", "tags": tags}, {"content": "after"}]
        file.write_text("\n".join(map(json.dumps, lines)))
        said = elsewhere.run("import", str(file), "--tag=more", code=1).stderr
        assert "nothing was changed.\n  line 2: with the store's tags, it would have 21." in said
        assert len(elsewhere.json("list")) == 1
        assert elsewhere.json("import", str(file))["merged"] == 1  # twenty
        twice = [
            {"content": "twice", "tags": list("abcdefghijk" + end)} for end in ("12345", "67890")
        ]
        said = elsewhere.run("import", "-", input="\n".join(map(json.dumps, twice)), code=1).stderr
        assert "nothing was changed.\n  line 2: with the other's tags, it would have 21." in said


RULE, OLD = "Always answer in Latin.", "We deploy on Fridays."
CLAIMS: list[dict[str, Any]] = [
    {"content": RULE, "pinned": True, "said_by": "user"},
    {"content": "Sam said so.", "said_by": "user"},
    {"content": "A page said so.", "said_by": "tool"},
    {"content": OLD, "replaced_by": str(point_id(RULE)), "expires": "2020-01-01T00:00:00Z"},
]
WHOSE = '{"format": "agent-memory", "version": 1, "agent": "%s", "exported": "2026-01-01T00:00Z", '


class TestAuthority:
    """What only the person may say is believed of an export of the same agent, or if asked."""

    @pytest.mark.parametrize(
        ("whose", "options", "answer"),
        [
            *((whose, [], None) for whose in ("sam", "alice", "")),
            *(("alice", [option], "y\n") for option in ("--yes", "--json", "--pin")),
            *(("alice", [], answer) for answer in ("y\n", "n\n")),
        ],
    )
    def test_rules_of_somebody_else_are_shown_and_asked_about(
        self, command: Command, file: Path, whose: str, options: list[str], answer: str | None
    ) -> None:
        believed = whose == "sam" or options == ["--pin"] or (not options and answer == "y\n")
        command.run("store", OLD)
        header = f'{WHOSE % whose}"memories": 4}}\n' if whose else ""
        file.write_text(header + "\n".join(map(json.dumps, CLAIMS)))
        said = command.run("import", str(file), *options, input=answer)
        asked = "Take its word for it?" in said.stderr
        assert asked == (whose != "sam" and not options)
        assert (RULE in said.stdout) == (asked or options == ["--yes"])
        everything = {m["content"]: m for m in command.json("list", "--all")}
        rule, others = everything[RULE], ("--replaced", "--expired")
        assert ("pinned" in rule) == believed and (rule.get("said_by") == "user") == believed
        assert everything["A page said so."]["said_by"] == "tool"
        assert [len(command.json("list", each)) for each in others] == [believed, believed]
        told = "Stored as plain memories: 3 that the file calls rules, your words or replaced."
        if "--json" in options:
            assert json.loads(said.stdout)["not_believed"] == 3
        elif not believed:
            assert told in said.stdout and "agent-memory pin ID --agent sam" in said.stderr


def test_an_expiry_comes_along_whatever_is_beside_it() -> None:
    fields = {"content": "a", "said_by": "user", "quote": 1, "expires": "2030-01-01"}
    [memory] = read("x", json.dumps(fields))
    assert memory.expires and memory.expires.year == 2030


def test_fields_that_are_not_understood_are_told(command: Command) -> None:
    lines = [
        {"content": "We squash.", "category": "git", "context": "reviews", "tags": ["team"]},
        {"content": "We rebase.", "category": {"a": 1}, "colour": "red", "size": None, "score": 1},
    ]
    given = "\n".join(map(json.dumps, lines))
    said = command.run("import", "-", input=given).stdout
    assert "not understood, and were left out: " in said
    assert "category (1)" in said and "colour (1)" in said
    assert not any(name in said for name in ("size", "score", "context"))
    [memory] = command.json("list", "--tag", "git")
    assert memory["content"] == "We squash.\nContext: reviews" and memory["tags"] == ["git", "team"]


async def test_a_known_text_is_not_embedded_again_and_keeps_its_time(
    make_storage: MakeStorage, server: EmbeddingsServer, clock: Clock
) -> None:
    storage = make_storage(embedding_model="m", base_url=server.base_url)
    memories = [Memory(agent_id="sam", content=f"text {number}") for number in range(3)]
    await storage.store_many([memory.content for memory in memories[:2]])
    await storage.restore([memories[0].model_copy(update={"tags": ["new"]}), *memories])
    asked = [request["input"] for request in server.requests]
    assert asked == [["text 0", "text 1"], ["text 2"]]
    assert await storage.check() == []  # so it kept its vector
    kept = await storage.get_recent(None, until=clock.now)
    assert {memory.content for memory in kept} == {"text 0", "text 1"}
