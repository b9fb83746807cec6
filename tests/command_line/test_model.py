"""`agent-memory model`: one command from nothing to a store with a model that runs here."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import Command, invoke, settings
from memory_semantic import MemoryStorage
from memory_semantic.limits import MULTILINGUAL
from model_hub import BGE, FILE_OF, ModelHub

TEXTS = [f"The {color} door leads to room {number}." for number, color in enumerate("abc" * 50)]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelHub]:
    with ModelHub() as serving:
        monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "models"))
        monkeypatch.setenv("HF_ENDPOINT", serving.url)
        yield serving


def use(command: Command, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What `model use` prints in a process of its own, which reads HF_ENDPOINT."""
    process = command.start("model", "use", *arguments)
    said = process.communicate(timeout=50)
    assert process.returncode == code, said
    return said


async def test_one_command_fetches_a_model_reembeds_the_store_and_sets_it(
    hub: ModelHub, command: Command, root: Path, sam: MemoryStorage
) -> None:
    await sam.store_many(TEXTS[:3])
    file = settings()
    file.write_text("overrides:\n  # mine\n  tool-x: {config: {}}  # stays\n")
    said, notes = use(command, BGE, "--yes")
    assert said == f"3 memories of sam with the model {BGE}.\n"
    assert f"fetches 67.0 MB from {hub.url}, licence mit" in notes and "100%" in notes
    assert "embeds 3 memories of sam anew, now with local" in notes
    assert file.read_text() == (
        "overrides:\n  # mine\n  tool-x: {config: {}}  # stays\n"
        f"  tool-memory-semantic:\n    config:\n      embedding_model: {BGE}\n"
    )
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    info = await storage.info()
    assert info and info.model == (BGE, "c0ffeec0ffee.1", 384)
    hub.headers.clear()
    facts, notes = use(command, BGE, "--json")  # asks nothing: all is done
    assert json.loads(facts)["memories"] == 3 and notes == "" and hub.headers == []
    rows = json.loads(invoke("model", "list", "--json").stdout)
    states = {row["model"]: (row["name"], row["state"]) for row in rows}
    assert states == {MULTILINGUAL: ("multilingual", "not fetched"), BGE: ("", "fetched")}


def test_an_interruption_leaves_a_working_store_and_the_next_run_resumes(
    hub: ModelHub, command: Command
) -> None:
    command.run("import", "-", input=..., code=0)
