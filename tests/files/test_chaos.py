"""A minute of everyday life at its worst: four sessions on one store, killed at random."""

import asyncio
import json
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from memory_semantic import MemoryStorage
from processes import start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SECONDS = 62

WORKER = """
import random
log, name = arguments
async def main():
    with open(log, "a", buffering=1) as notes:
        for i in range(10**9):
            content = f"Worker {name} noted fact {i}: {random.randbytes(6).hex()}"
            memory_id = await storage().store(content)
            notes.write(json.dumps([memory_id, content]) + "\\n")
            assert (await storage().search(content))[0].content == content
asyncio.run(main())
"""


def test_nothing_that_was_acknowledged_is_lost(root: Path, tmp_path: Path) -> None:
    source = random.Random(time.time())
    counts: Counter[str] = Counter()
    logs = [tmp_path / f"{i}.log" for i in range(4)]

    def begin(i: int) -> "subprocess.Popen[str]":
        return start(root, WORKER, str(logs[i]), f"{i}.{counts['kills']}")

    workers = [begin(i) for i in range(4)]
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        time.sleep(source.uniform(0.2, 2.5))
        i = source.randrange(4)
        alive = workers[i].poll() is None
        workers[i].kill()
        complaints = workers[i].communicate()[1]
        assert alive, complaints
        counts["kills"] += 1
        workers[i] = begin(i)
    for worker in workers:
        worker.kill()
        worker.communicate()

    acknowledged = dict(
        json.loads(line) for log in logs for line in log.read_text().splitlines() if line[-1] == "]"
    )
    storage = MemoryStorage("sam", {"storage_root": str(root), "embedding_model": "local"})

    async def verify() -> None:
        kept = {memory.id: memory.content for memory in await storage.get_recent(10**6)}
        assert acknowledged.items() <= kept.items()
        assert len(kept) <= len(acknowledged) + counts["kills"] + 4
        assert await storage.check() == []
        for content in source.sample(sorted(acknowledged.values()), 100):
            assert (await storage.search(content))[0].content == content

    asyncio.run(verify())
    print(f"{len(acknowledged)} acknowledged, {counts['kills']} kills, none lost")
    assert len(acknowledged) > 100 and counts["kills"] > 10
