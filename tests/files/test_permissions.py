"""What may not be read is reported, and never taken for missing; what may not be written to is read
from its journal, as in a snapshot.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import AS_ANYBODY, Command, settings

# Runs each command line that it is given, and prints the exit codes and what was said.
RUN = """
import json, sys
from agent_memory.cli import cli
from click.testing import CliRunner
results = [CliRunner().invoke(cli, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.output] for result in results]))
"""

OF_AN_AGENT = [
    ("list",),
    ("search", "x"),
    ("show", "mem-000000000000"),
    ("stats",),
    ("export", "-"),
    ("forget", "--tag", "x"),
    ("store", "x"),
    ("doctor", "--agent", "sam"),
]


def run(*commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """The exit codes of commands and what they say to a user who is not root."""
    process = [*AS_ANYBODY, sys.executable, "-c", RUN, json.dumps(commands)]
    return json.loads(subprocess.run(process, capture_output=True, text=True, check=True).stdout)


def agents(root: Path) -> dict[str, str]:
    [(code, said)] = run(("list", "--agents", "--json", "--root", str(root)))
    [row] = json.loads(said)
    assert code == 0 and row["agent"] == "sam"
    return row


def refuses(reason: str, *where: str) -> None:
    """Every command for an agent says why, and claims neither damage nor that there is nothing."""
    for code, said in run(*((*words, *where) for words in OF_AN_AGENT)):
        assert code == 1 and reason in said
        for wrong in ("no memory", "damaged", "--repair", "has no locks"):
            assert wrong not in said, said


@pytest.mark.parametrize("mode", [0o000, 0o100])
def test_a_root_that_may_not_be_read(command: Command, root: Path, mode: int) -> None:
    command.run("store", "one")
    root.chmod(mode)
    where = ("--root", str(root))
    try:
        for code, said in run(("list", "--agents", *where), ("list", *where)):
            assert code == 1 and "Permission denied" in said
        if mode:  # by its name the agent can be reached
            [(code, said)] = run(("list", *where, "--agent", "sam"))
            assert code == 0 and "one" in said
        else:
            refuses("Permission denied", *where, "--agent", "sam")
    finally:
        root.chmod(0o700)


def test_an_agent_s_folder_that_may_not_be_read(command: Command, root: Path) -> None:
    command.run("store", "one")
    (root / "sam").chmod(0)
    (root / "lost+found").mkdir(0)
    assert "Permission denied" in agents(root)["problem"]
    refuses("Permission denied", "--root", str(root))


@pytest.mark.parametrize("name", ["lock", "page_0.dat"])
def test_a_file_of_a_store_that_may_not_be_read(command: Command, root: Path, name: str) -> None:
    """As a command run with sudo leaves it."""
    command.run("store", "one")
    for path in root.rglob(name):
        path.chmod(0)
    refuses("Permission denied", "--root", str(root), "--agent", "sam")


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user's folder")
def test_a_store_that_another_user_has_made(command: Command, root: Path) -> None:
    command.run("store", "one")
    os.chown(root / "sam", 65534, 65534)
    assert "belongs to another user" in agents(root)["problem"]
    refuses("belongs to another user", "--root", str(root))


def test_a_root_that_is_a_file(root: Path) -> None:
    root.write_text("")
    settings(storage_root=str(root))
    for code, said in run(("list", "--agents"), ("list",), ("list", "--agent", "sam")):
        assert code == 1 and "Not a directory" in said


def test_a_read_only_store_is_exported_from_its_journal_and_all_else_says_how(
    command: Command, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.run("store", "in the snapshot")
    # Tests may run as root, who may write anywhere.
    monkeypatch.setattr("memory_semantic.files.folder.os.access", lambda *_: False)
    result = command.run("export", "-")
    assert json.loads(result.stdout.splitlines()[1])["content"] == "in the snapshot"
    assert "read-only" in result.stderr and "its journal, which is whole" in result.stderr
    for words in (("list",), ("store", "x"), ("search", "x"), ("doctor",)):
        said = command.run(*words, code=1).output
        assert "agent-memory export" in said and "cp -a --sparse=always" in said
    journal = root / "sam/memories.jsonl"
    journal.write_bytes(journal.read_bytes()[:-3])
    assert "some cannot be read" in command.run("export", "-").stderr
