"""Corrections as a person meets them: with `--replaces`, `--replaced`, `show` and `unreplace`.

And rules: `pin`, `unpin`, `list --pinned`, `import --pin`.
"""

import json
from pathlib import Path

from command import Command
from memory_semantic.remembered import point_id

OLD, NEW = "The staging server is at 10.0.0.5.", "The staging server moved to 10.0.0.9."


def stored(command: Command, text: str, *options: str) -> str:
    return command.json("store", text, *options)["memory_id"]


def test_a_correction_its_undo_and_what_forgetting_it_brings_back(command: Command) -> None:
    old = stored(command, OLD)
    told = command.run("store", NEW, "--replaces", old.removeprefix("mem-"))
    assert f"It replaces {old}. Undo: agent-memory unreplace" in told.stderr
    [new] = command.json("list")
    [found] = command.json("search", "Where is the staging server?")
    assert found["id"] == new["id"] and new["content"] == NEW
    [replaced] = command.json("list", "--replaced")
    assert replaced["id"] == old and replaced["replaced_by"] == str(point_id(NEW))
    assert f"Replaced by {new['id']}: {NEW}" in command.run("show", old).stdout
    assert f"Replaces {old}: {OLD}" in command.run("show", new["id"]).stdout
    assert "holds again" in command.run("unreplace", old).stdout
    assert "was not replaced" in command.run("unreplace", old).stdout
    stored(command, NEW, "--replaces", old)
    told = command.run("forget", new["id"], "--yes")
    assert f"What they had replaced holds again: {old}" in told.stderr
    assert [memory["id"] for memory in command.json("list")] == [old]


def test_what_cannot_be_replaced_pinned_or_expire_changes_nothing(command: Command) -> None:
    old = stored(command, OLD)
    assert "text's own" in command.run("store", OLD, "--replaces", old, code=2).stderr
    told = command.run("store", NEW, "--expires", "2020-01-01", code=2).stderr
    assert "must be a time in the future" in told and len(command.json("list")) == 1
    new = stored(command, NEW, "--replaces", old, "--expires", "7d")
    assert "Expires " in command.run("show", new).stdout and not command.json("list", "--expired")
    assert f"{old} is replaced by {new}: pin that." in command.run("pin", old, code=1).stderr
    assert command.json("list", "--pinned") == []
    told = command.run("share", old, "--to", "alice", code=1).stderr
    assert f"{old} is replaced by {new}: share that. Nothing was changed." in told


def test_an_export_keeps_corrections_and_an_import_without_them_says_so(
    command: Command, tmp_path: Path
) -> None:
    old = stored(command, OLD)
    new = stored(command, NEW, "--replaces", old)
    whole, file = str(tmp_path / "memories.jsonl"), tmp_path / "memories.json"
    command.run("export", whole)
    command.run("import", whole, "--agent", "alice", input="y\n")
    assert f"Replaced by {new}" in command.run("show", old, "--agent", "alice").stdout
    file.write_text(json.dumps(command.json("list", "--replaced")))
    told = command.run("import", str(file), "--agent", "bob", input="y\n").stdout
    assert "Not replaced here, as their corrections did not come along: 1." in told
    assert command.json("list", "--replaced", "--agent", "bob") == []
    assert command.json("import", str(file))["unlinked"] == 0  # where it is
    assert len(command.json("list", "--replaced")) == 1


def test_a_rule_is_pinned_and_unpinned(command: Command) -> None:
    rule, other = stored(command, "Never deploy on a Friday."), stored(command, OLD)
    assert command.run("pin", rule).stdout == f"Pinned: {rule}: Never deploy on a Friday.\n"
    assert command.json("show", rule)["pinned"] and "pinned" not in command.json("show", other)
    assert "Pinned: recall shows it" in command.run("show", rule).stdout
    new = stored(command, "Never deploy on a Thursday.", "--replaces", rule)
    assert [memory["id"] for memory in command.json("list", "--pinned")] == [new]
    command.run(
        "import", "-", input='{"content": "old", "id": "mem-000000000001", "expires": "2020-01-01"}'
    )
    told = command.run("pin", "mem-000000000001", code=1).stderr
    assert "has expired: store its text again, with --pin. Nothing was changed." in told
    told = command.run("unpin", new).stdout
    assert told == f"Not pinned any more: {new}: Never deploy on a Thursday.\n"
    assert command.json("list", "--pinned") == []
    said = command.run("store", "Never deploy at night.", "--pin", "--replaces", other)
    [pinned] = command.json("list", "--pinned")
    assert ", pinned\n" in said.stdout and pinned["content"] == "Never deploy at night."


def test_a_correction_holds_where_the_old_one_did(command: Command) -> None:
    shop = {"project": "shop", "project_id": "0123456789ab"}
    line = {"id": "mem-0123456789ab", "content": OLD, "metadata": shop}
    command.run("import", "-", input=json.dumps(line))
    new = command.json("show", stored(command, NEW, "--replaces", line["id"]))
    assert new["metadata"] == {"stored_by": "agent-memory store", **shop}


def test_rules_beyond_what_recall_shows_are_named(command: Command) -> None:
    first = stored(command, "The first rule, which is the oldest of all of them.")
    assert not command.run("pin", first).stderr
    rules = "\n".join(f"Rule {i} says what to do in case number {i}." for i in range(80))
    command.run("import", "-", "--pin", input=rules)
    assert len(command.json("list", "--pinned", "--all")) == 81
    told = command.run("pin", first).stderr
    assert "Recall shows about 1,000 tokens" in told and first in told


def test_memories_of_a_time(command: Command) -> None:
    lines = [{"content": OLD, "timestamp": "2026-03-05T12:00:00Z"}, {"content": NEW}]
    command.run("import", "-", input="\n".join(map(json.dumps, lines)))
    march = ("--since", "2026-03-01", "--until", "2026-03-31")
    assert [each["content"] for each in command.json("list", *march)] == [OLD]
    assert [each["content"] for each in command.json("search", "staging", *march)] == [OLD]
    header, line = map(json.loads, command.run("export", "-", *march).stdout.splitlines())
    assert header["memories"] == 1 and line["content"] == OLD


def test_show_says_who_said_it(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    speakers = {"user": "Said by the user", "tool": "by a page or tool", "agent": "by the agent"}
    lines = [{"content": f"Of the {name}.", "said_by": name} for name in (*speakers, "king")]
    file.write_text("\n".join(map(json.dumps, lines)))
    command.run("import", str(file), input="y\n")
    shown = {each["content"]: each for each in command.json("list")}
    assert "said_by" not in shown["Of the king."]
    for name, words in speakers.items():
        memory = shown[f"Of the {name}."]
        assert memory["said_by"] == name and words in command.run("show", memory["id"]).stdout
