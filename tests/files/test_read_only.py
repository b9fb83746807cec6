"""A store that cannot be written to, as in a snapshot: `export` gives its backup."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command


@pytest.fixture
def snapshot(command: Command, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a store in a snapshot; tests may run as root, who may write anywhere."""
    command.run("store", "in the snapshot")
    monkeypatch.setattr("memory_semantic.files.folder.os.access", lambda *_: False)
    yield root / "sam"


def test_an_export_is_its_backup(command: Command, snapshot: Path) -> None:
    result = command.run("export", "-")
    assert json.loads(result.stdout.splitlines()[1])["content"] == "in the snapshot"
    assert "read-only" in result.stderr and "its backup of 20" in result.stderr


@pytest.mark.parametrize("words", [("list",), ("store", "x"), ("search", "x"), ("doctor",)])
def test_all_else_says_how(command: Command, snapshot: Path, words: tuple[str, ...]) -> None:
    said = command.run(*words, code=1).output
    assert "agent-memory export" in said and "cp -a --sparse=always" in said


def test_without_a_backup_so_does_an_export(command: Command, snapshot: Path) -> None:
    (snapshot / "backup.jsonl").unlink()
    assert "cp -a --sparse=always" in command.run("export", "-", code=1).stderr
