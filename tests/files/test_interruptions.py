"""Killed at any moment, imports and reembeds of 2,000 memories resume and lose nothing."""

import asyncio
import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import Command
from embeddings_server import EmbeddingsServer
from memory_semantic import MemoryStorage
from processes import finish, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FACTS = [f"Fact {number} of {2_000} that were written down." for number in range(2_000)]

STORES = """
async def main():
    await asyncio.sleep(0.2)
    for number in range(10_000):
        text = f"Stored meanwhile, number {number}."
        await MemoryStorage("sam", {"storage_root": root}).store(text)
        print(text, flush=True)
        if os.path.exists(os.path.join(root, "stop")):
            break
        await asyncio.sleep(0.05)
asyncio.run(main())
"""


@contextmanager
def another_process_stores(root: Path) -> Iterator[list[str]]:
    """Fills a list with what was acknowledged, once the block has ended."""
    acknowledged: list[str] = []
    root.mkdir(exist_ok=True)
    process = start(root, STORES)
    try:
        yield acknowledged
    finally:
        (root / "stop").touch()
        acknowledged += finish(process).splitlines()
        (root / "stop").unlink()


def killed_until_done(command: Command, *arguments: str) -> int:
    """Runs a command again and again, killing it a little later each time; returns how often."""
    kills = 0
    for patience in range(10_000):
        process = command.start(*arguments)
        try:
            _, complaints = process.communicate(timeout=0.4 + random.uniform(0, 0.12) * patience)
        except subprocess.TimeoutExpired:  # still at work
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        assert process.returncode == 0, complaints
        return kills
    raise AssertionError


async def everything(storage: MemoryStorage) -> list[str]:
    assert await storage.check() == []
    return [memory.content for memory in await storage.get_recent(10_000)]


def test_an_import_and_reembeds(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: EmbeddingsServer
) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps({"content": fact, "tags": ["x"]}) + "\n" for fact in FACTS))
    command = Command(root)
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    expected = sorted(FACTS)
    for model in ("", "text-embedding-3-small", "local"):
        work = ("reembed", "--model", model, "--yes") if model else ("import", str(file))
        if model:
            monkeypatch.setenv("OPENAI_API_KEY", "a-key")
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with another_process_stores(root) as acknowledged:
            kills = killed_until_done(command, *work)
            time.sleep(0.5)
        print(f"{work[0]} {model}: {kills} kills, {len(acknowledged)} stored meanwhile")
        assert kills > 2 and acknowledged
        info = asyncio.run(storage.info())
        assert info and info.model.model == (model or "local")
        expected = sorted({*expected, *acknowledged})
        assert sorted(asyncio.run(everything(storage))) == expected
        assert not storage.folder.gathered
        best = asyncio.run(storage.search(FACTS[7], limit=1))
        assert best[0].content == FACTS[7]  # with the vectors of the new model
    assert command.json("import", str(file))["unchanged"] == 2_000
