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
    ("show", "mem-000000000000"),
    ("stats",),
    ("export", "-"),
    ("forget", "--tag", "x"),
    ("store", "x"),
]


def refuses(reason: str, *where: str) -> None:
    """Every command for an agent says why, and claims neither damage nor that there is nothing."""
    for words in OF_AN_AGENT:
        said = run(*words, *where, code=1).stderr
        assert reason in said and "no memory" not in said and "damaged" not in said, words
    doctor = run("doctor", *where, "--agent", "sam", code=1).stdout
    assert reason in doctor and "--repair" not in doctor and "has no locks" not in doctor


@pytest.mark.parametrize("mode", [0o000, 0o100])
def test_a_root_that_may_not_be_read(command: Command, root: Path, mode: int) -> None:
    command.run("store", "one")
    root.chmod(mode)
    where = ("--root", str(root))
    try:
        for words in (("list", "--agents"), ("list", "--agents", "--json"), ("list",)):
            assert "Permission denied" in run(*words, *where, code=1).stderr, words
        if mode:  # by its name the agent can be reached
            assert "one" in run("list", *where, "--agent", "sam", code=0).stdout
        else:
            refuses("Permission denied", *where, "--agent", "sam")
    finally:
        root.chmod(0o700)


def test_an_agent_s_folder_that_may_not_be_read(command: Command, root: Path) -> None:
    command.run("store", "one")
    (root / "sam").chmod(0)
    (root / "lost+found").mkdir(0)
    [sam] = json.loads(run("list", "--agents", "--json", "--root", str(root), code=0).stdout)
    assert sam["agent"] == "sam" and "Permission denied" in sam["problem"]
    for named in ((), ("--agent", "sam")):
        refuses("Permission denied", "--root", str(root), *named)


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
    [sam] = json.loads(run("list", "--agents", "--json", "--root", str(root), code=0).stdout)
    assert sam["agent"] == "sam" and "belongs to another user" in sam["problem"]
    refuses("belongs to another user", "--root", str(root))


def test_a_root_that_is_a_file(command: Command, root: Path) -> None:
    root.write_text("")
    settings(storage_root=str(root))
    for words in (["list", "--agents"], ["list"], ["list", "--agent", "sam"]):
        result = subprocess.run([EXECUTABLE, *words], capture_output=True, text=True)
        assert result.returncode == 1 and "Not a directory" in result.stderr, words
