"""`agent-memory model`: fetching and listing the models that run on this machine."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import EXECUTABLE
from model_hub import ENGLISH, MULTILINGUAL, ModelHub


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub() as running:
        yield running


def run(hub: ModelHub, folder: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "FASTEMBED_CACHE_PATH": str(folder)}
    command = [str(EXECUTABLE), "model", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_a_fetched_model_is_listed_as_such(hub: ModelHub, tmp_path: Path) -> None:
    said, progress = run(hub, tmp_path, "fetch", "multilingual")
    assert said.startswith(f"{MULTILINGUAL} is here") and "100%" in progress
    assert "agent-memory reembed --model multilingual" in progress
    rows = json.loads(run(hub, tmp_path, "list", "--json")[0])
    states = {row["model"]: (row["name"], row["state"]) for row in rows}
    assert states == {
        ENGLISH: ("english", "not fetched"),
        MULTILINGUAL: ("multilingual", "fetched"),
    }


def test_with_json_nothing_else_is_printed(hub: ModelHub, tmp_path: Path) -> None:
    said, progress = run(hub, tmp_path, "fetch", "english", "--json")
    assert json.loads(said)["model"] == ENGLISH and progress == ""


def test_a_name_that_is_not_listed_is_a_usage_error(hub: ModelHub, tmp_path: Path) -> None:
    assert "Did you mean 'english'" in run(hub, tmp_path, "fetch", "englsh", code=2)[1]
    assert "agent-memory model list" in run(hub, tmp_path, "fetch", "no/such", code=2)[1]
