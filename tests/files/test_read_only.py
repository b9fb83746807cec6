"""A store on a file system that cannot be written to: exported from a copy, and refused plainly."""

import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import AS_ANYBODY, EXECUTABLE, Command
from qdrant_server import QdrantServer

READ_ONLY = "read-only"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary copies are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def snapshot(command: Command, root: Path) -> Iterator[Path]:
    """A root with a store of `sam` that cannot be written to, as in a copy of a backup."""
    command.run("store", "We chose PostgreSQL.", "--tag", "database")
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    yield root
    for folder in folders:
        folder.chmod(0o700)


def run(root: Path, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    where = ["--root", str(root), *(["--agent", "sam"] if arguments[0] != "agents" else [])]
    line = [*AS_ANYBODY, EXECUTABLE, *arguments, *where]
    result = subprocess.run(line, capture_output=True, text=True)
    assert result.returncode == code, (arguments, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr and "damaged" not in result.stderr
    return result


def state(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}


def test_an_export_is_made_from_a_copy(snapshot: Path, temporary: Path, tmp_path: Path) -> None:
    before = state(snapshot)
    file = tmp_path / "memories.jsonl"
    result = run(snapshot, "export", str(file))
    assert f"{READ_ONLY}" in result.stderr and str(temporary) in result.stderr
    assert "Tightened" not in result.stderr  # nothing of the user's was
    [line] = file.read_text().splitlines()[1:]
    assert json.loads(line)["content"] == "We chose PostgreSQL."
    assert list(temporary.iterdir()) == [] and state(snapshot) == before
    assert "PostgreSQL" in run(snapshot, "export", "-").stdout


def test_the_copy_is_removed_after_an_error(snapshot: Path, temporary: Path) -> None:
    [manifest] = snapshot.glob("sam/qdrant.db/manifest.json")
    text = manifest.read_text()
    manifest.write_text(text.replace('"memories": 1', '"memories": 2'))
    line = [*AS_ANYBODY, EXECUTABLE, "export", "-", "--agent", "sam", "--root", str(snapshot)]
    result = subprocess.run(line, capture_output=True, text=True)
    assert result.returncode == 1 and "1 of at least 2" in result.stderr
    assert list(temporary.iterdir()) == []


# Stops in the midst of the work on the copy, and says so.
PAUSED = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from memory_semantic.files.store import FileStore
from agent_memory.cli import cli
def newest(*arguments):
    for _ in range(2):
        print("at work", flush=True)
        time.sleep(60)
FileStore.newest = newest
cli(sys.argv[1:], prog_name="agent-memory")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_copy_is_private_and_removed_at_a_signal(
    snapshot: Path, temporary: Path, number: signal.Signals
) -> None:
    arguments = ["export", "-", "--agent", "sam", "--root", str(snapshot)]
    process = subprocess.Popen(
        [*AS_ANYBODY, sys.executable, "-c", PAUSED, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "at work\n"
    [copy] = temporary.iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    process.send_signal(number)
    _, notes = process.communicate(timeout=30)
    assert process.returncode in (1, 128 + number) and "Traceback" not in notes
    assert list(temporary.iterdir()) == []


def test_the_copy_keeps_holes(snapshot: Path, temporary: Path) -> None:
    from memory_semantic.maintenance.snapshot import copy_sparse

    files = [path for path in snapshot.rglob("*") if path.is_file()]
    for path in files:
        copy = temporary / "copy"
        copy_sparse(path, copy)
        assert copy.read_bytes() == path.read_bytes()
        assert copy.stat().st_blocks <= path.stat().st_blocks + 128
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        copy.unlink()
    assert sum(path.stat().st_size for path in files) > 30_000_000


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("search", "x"),
        ("show", "mem-00000000"),
        ("stats",),
        ("stats", "--html", "page.html"),
        ("store", "x"),
        ("forget", "--tag", "database", "--yes"),
        ("reembed", "--model", "local", "--yes"),
        ("import", __file__),
    ],
)
def test_the_other_commands_say_how(snapshot: Path, words: tuple[str, ...]) -> None:
    before = state(snapshot)
    result = run(snapshot, *words, code=1)
    assert READ_ONLY in result.stderr and "agent-memory export" in result.stderr
    assert "Nothing was changed" in result.stderr and state(snapshot) == before


def test_a_move_says_how_too(snapshot: Path) -> None:
    with QdrantServer() as server:
        result = run(snapshot, "move", "--to", server.url, "--yes", code=1)
    assert READ_ONLY in result.stderr and "agent-memory export" in result.stderr


def test_agents_and_the_doctor_say_so_too(snapshot: Path) -> None:
    [sam] = json.loads(run(snapshot, "agents", "--json").stdout)
    assert READ_ONLY in sam["problem"]
    for words in (("doctor",), ("doctor", "--repair", "--yes")):
        told = run(snapshot, *words, code=1).stdout
        assert READ_ONLY in told and "agent-memory export" in told and "--repair" not in told


def test_an_export_waits_for_a_writer(snapshot: Path, temporary: Path) -> None:
    """The same store may be writable elsewhere, as when a container mounts it read-only."""
    import fcntl

    with (snapshot / "sam/qdrant.db/lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = [*AS_ANYBODY, EXECUTABLE, "export", "-", "--agent", "sam", "--root", str(snapshot)]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        assert process.poll() is None
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and "PostgreSQL" in output


@pytest.mark.slow
def test_a_file_system_that_is_mounted_read_only(
    command: Command, root: Path, temporary: Path, tmp_path: Path
) -> None:
    command.run("store", "We chose PostgreSQL.")
    view = tmp_path / "view"
    view.mkdir()
    subprocess.run(["mount", "--bind", root, view], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", view], check=True)
        there = Command(view)
        assert "PostgreSQL" in there.run("export", "-").stdout
        assert READ_ONLY in there.run("list", code=1).stderr
        (root / "sam").chmod(0o755)  # cannot be tightened there
        assert "PostgreSQL" in there.run("export", "-").stdout
        assert READ_ONLY in there.run("list", code=1).stderr
        assert list(temporary.iterdir()) == []
    finally:
        subprocess.run(["umount", view], check=True)
