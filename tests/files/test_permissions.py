"""What may not be read is reported, and never taken for missing."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from command import AS_ANYBODY, EXECUTABLE, Command, settings


def run(*arguments: str, code: int) -> "subprocess.CompletedProcess[str]":
    """What the command says to a user who is not root."""
    command = [*AS_ANYBODY, EXECUTABLE, *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == code, (arguments, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    return result


OF_AN_AGENT = [
    ("list",),
    ("search", "x"),
    ("show", "mem-00000000"),
    ("stats",),
    ("export", "-"),
    ("forget", "--tag", "x"),
    ("store", "x"),
]


@pytest.mark.parametrize("mode", [0o000, 0o100])
def test_a_root_that_may_not_be_read(command: Command, root: Path, mode: int) -> None:
    command.run("store", "one")
    root.chmod(mode)
    where = ("--root", str(root))
    try:
        for words in (("agents",), ("agents", "--json"), ("list",)):
            result = run(*words, *where, code=1)
            assert "Permission denied" in result.stderr, words
        if mode:  # by its name the agent can be reached
            assert "one" in run("list", *where, "--agent", "sam", code=0).stdout
            return
        for words in OF_AN_AGENT:
            result = run(*words, *where, "--agent", "sam", code=1)
            assert "Permission denied" in result.stderr, words
            assert "no memory" not in result.stderr, words
        doctor = run("doctor", *where, "--agent", "sam", code=1)
        assert "Permission denied" in doctor.stdout and "--repair" not in doctor.stdout
    finally:
        root.chmod(0o700)


def test_an_agent_s_folder_that_may_not_be_read(command: Command, root: Path) -> None:
    command.run("store", "one")
    (root / "sam").chmod(0)
    (root / "lost+found").mkdir(0)
    where = ("--root", str(root))
    [sam] = json.loads(run("agents", "--json", *where, code=0).stdout)
    assert sam["agent"] == "sam" and "Permission denied" in sam["problem"]
    for words in OF_AN_AGENT:
        for named in ((), ("--agent", "sam")):
            result = run(*words, *where, *named, code=1)
            assert "Permission denied" in result.stderr, words
            assert "no memory" not in result.stderr, words
    doctor = run("doctor", *where, "--agent", "sam", code=1)
    assert "Permission denied" in doctor.stdout and "--repair" not in doctor.stdout


@pytest.mark.parametrize("name", ["lock", "page_0.dat"])
def test_a_file_of_a_store_that_may_not_be_read(command: Command, root: Path, name: str) -> None:
    """As a command run with sudo leaves it."""
    command.run("store", "one")
    for path in root.rglob(name):
        path.chmod(0)
    where = ("--root", str(root), "--agent", "sam")
    said = run("list", *where, code=1).stderr
    assert "Permission denied" in said and "damaged" not in said
    doctor = run("doctor", *where, code=1).stdout
    assert "Permission denied" in doctor and "--repair" not in doctor
    assert "has no locks" not in doctor


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user's folder")
def test_a_store_that_another_user_has_made(command: Command, root: Path) -> None:
    command.run("store", "one")
    os.chown(root / "sam", 65534, 65534)
    where = ("--root", str(root))
    [sam] = json.loads(run("agents", "--json", *where, code=0).stdout)
    assert sam["agent"] == "sam" and "belongs to another user" in sam["problem"]
    assert "belongs to another user" in run("doctor", *where, "--agent", "sam", code=1).stdout
    for words in OF_AN_AGENT:
        result = run(*words, *where, code=1)
        assert "belongs to another user" in result.stderr, words


def test_a_root_that_is_a_file(command: Command, root: Path) -> None:
    root.write_text("")
    settings(storage_root=str(root))
    for words in (["agents"], ["list"], ["list", "--agent", "sam"]):
        result = subprocess.run([EXECUTABLE, *words], capture_output=True, text=True)
        assert result.returncode == 1 and "Not a directory" in result.stderr, words
