"""`agent-memory model`: fetching and listing the models that run on this machine."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from command import EXECUTABLE, invoke
from model_hub import ENGLISH, MULTILINGUAL, ModelHub


def test_a_fetched_model_is_listed_as_such_and_with_json_nothing_else_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))

    def states() -> dict[str, tuple[str, str]]:
        rows = json.loads(invoke("model", "list", "--json").stdout)
        return {row["model"]: (row["name"], row["state"]) for row in rows}

    def fetch(*arguments: str) -> tuple[str, str]:
        done = subprocess.run(
            [str(EXECUTABLE), "model", "fetch", *arguments],
            env={**os.environ, "HF_ENDPOINT": hub.url},
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    with ModelHub() as hub:
        said, progress = fetch("multilingual")
        assert said.startswith(f"{MULTILINGUAL} is here") and "100%" in progress
        assert "agent-memory reembed --model multilingual" in progress
        here = ("multilingual", "fetched")
        assert states() == {ENGLISH: ("english", "not fetched"), MULTILINGUAL: here}
        said, progress = fetch("english", "--json")
        assert json.loads(said)["model"] == ENGLISH and progress == ""


def test_a_name_that_is_not_listed_is_a_usage_error() -> None:
    assert "Did you mean 'english'" in invoke("model", "fetch", "englsh", code=2).stderr
    assert "agent-memory model list" in invoke("model", "fetch", "no/such", code=2).stderr
