"""Killed at any moment, imports and reembeds of 2,000 memories resume, and nothing is lost that was
acknowledged meanwhile by three sessions on the same store, which are killed as well.
"""

import asyncio
import json
import random
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from command import Command
from embeddings_server import EmbeddingsServer
from memory_semantic import MemoryStorage
from processes import start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FACTS = [f"Fact {number} of {2_000} that were written down." for number in range(2_000)]
SESSIONS = 3

SESSION = """
import random
async def main():
    with open(arguments[0], "a", buffering=1) as notes:
        while True:
            content = f"A session noted the fact {random.randbytes(9).hex()}"
            session = MemoryStorage("sam", {"storage_root": root})
            await session.store(content)
            notes.write(json.dumps(content) + "\\n")
            assert (await session.search(content))[0].content == content
            await asyncio.sleep(0.05)
asyncio.run(main())
"""


@contextmanager
def sessions_are_killed(root: Path, logs: list[Path]) -> Iterator[list[int]]:
    """Sessions store and search, each with a log of what was acknowledged; now and then one is
    killed and another begins. Fills a list with the process ids of all.
    """
    ended, ids = Event(), list[int]()

    def begin(log: Path) -> "subprocess.Popen[str]":
        session = start(root, SESSION, str(log))
        ids.append(session.pid)
        return session

    def kill() -> None:
        sessions = [begin(log) for log in logs]
        try:
            while not ended.wait(random.uniform(0.2, 2.5)):
                i = random.randrange(len(sessions))
                alive = sessions[i].poll() is None
                sessions[i].kill()
                complaints = sessions[i].communicate()[1]
                assert alive, complaints
                sessions[i] = begin(logs[i])
        finally:
            for session in sessions:
                session.kill()
                session.communicate()

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        try:
            yield ids
        finally:
            ended.set()
        killing.result()


def killed_until_done(command: Command, *arguments: str) -> int:
    """Runs a command again and again, killing it a little later each time; returns how often."""
    for kills in range(10_000):
        process = command.start(*arguments)
        try:
            _, complaints = process.communicate(timeout=0.4 + random.uniform(0, 0.12) * kills)
        except subprocess.TimeoutExpired:  # still at work
            process.send_signal(signal.SIGKILL)
            process.communicate()
            continue
        assert process.returncode == 0, complaints
        return kills
    raise AssertionError


def test_an_import_and_reembeds(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: EmbeddingsServer
) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps({"content": fact, "tags": ["x"]}) + "\n" for fact in FACTS))
    command = Command(root)
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    logs = [tmp_path / f"{number}.log" for number in range(SESSIONS)]
    expected = set(FACTS)
    for model in ("", "text-embedding-3-small", "local"):
        work = ("reembed", "--model", model, "--yes") if model else ("import", str(file))
        if model:
            monkeypatch.setenv("OPENAI_API_KEY", "a-key")
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with sessions_are_killed(root, logs) as sessions:
            kills = killed_until_done(command, *work)
        lines = [line for log in logs for line in log.read_text().splitlines()]
        acknowledged = {json.loads(line) for line in lines if line.endswith('"')}
        print(f"{work[0]} {model}: {kills} kills, and of sessions {len(sessions)}")
        assert kills > 2 and len(sessions) > SESSIONS
        info = asyncio.run(storage.info())
        assert info and info.model.model == (model or "local")
        assert asyncio.run(storage.check()) == [] and not storage.folder.gathered
        found = [memory.content for memory in asyncio.run(storage.get_recent(None))]
        expected |= acknowledged
        assert expected <= set(found) and len(found) <= len(expected) + len(sessions)
        expected = set(found)
        for text in [FACTS[7], *random.sample(sorted(acknowledged), 20)]:
            best = asyncio.run(storage.search(text, limit=1))
            assert best[0].content == text  # with the vectors of the new model
    assert command.json("import", str(file))["unchanged"] == 2_000
