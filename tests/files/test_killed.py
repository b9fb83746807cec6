"""Killed at any moment, an import and reembeds resume, and what was stored meanwhile stays."""

import asyncio
import json
import random
import subprocess
from pathlib import Path

import pytest
from command import Command
from embeddings_server import EmbeddingsServer
from memory_semantic import MemoryStorage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FACTS = [f"Fact {number} of {1_000} that were written down." for number in range(1_000)]


def killed_until_done(command: Command, session: MemoryStorage, *arguments: str) -> set[str]:
    """What the session stored while the command was run again and again, killed a little later each
    time.
    """
    stored = set[str]()
    for kills in range(10_000):
        process = command.start(*arguments)
        try:
            _, complaints = process.communicate(timeout=0.4 + random.uniform(0, 0.3) * kills)
        except subprocess.TimeoutExpired:  # still at work
            process.kill()
            process.communicate()
            stored.add(text := f"{arguments[0]}: noted after {kills} kills")
            asyncio.run(session.store(text))
            continue
        assert process.returncode == 0 and kills > 2, complaints
        return stored
    raise AssertionError


def test_an_import_and_reembeds(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: EmbeddingsServer
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps({"content": fact, "tags": ["x"]}) + "\n" for fact in FACTS))
    command, expected = Command(root), set(FACTS)
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    for model in ("", "text-embedding-3-small", "local"):
        work = ("reembed", "--model", model, "--yes") if model else ("import", str(file))
        if model:
            monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        stored = killed_until_done(command, storage, *work)
        info = asyncio.run(storage.info())
        assert info and info.model.model == (model or "local")
        assert asyncio.run(storage.check()) == [] and not storage.folder.gathered
        expected |= stored
        assert {memory.content for memory in asyncio.run(storage.get_recent(None))} == expected
        for text in [FACTS[7], *stored]:
            best = asyncio.run(storage.search(text, limit=1))
            assert best[0].content == text  # with the vectors of the new model
    assert command.json("import", str(file))["unchanged"] == 1_000
