"""Makes the stores of version 1.3.0 that the tests here open: `python tests/old/make.py`, where GNU
tar is. Of each it keeps an archive with its holes, and beside it what is in it.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

HERE = Path(__file__).parent

TOPICS = {
    "database": "PostgreSQL holds the users table, because MySQL locked it at every migration.",
    "deploy": "Releases go out on Tuesday mornings, after the canary has run for an hour.",
    "style": "Error messages say what happened, what was not changed and what to do.",
    "people": "Maria Gutiérrez reviews everything that touches billing.",
    "testing": "A flaky test is fixed on the day it is seen, or removed.",
    "한국어": "배포는 매주 화요일 오전에 하고, 금요일에는 절대로 배포하지 않는다.",
}
VARIANTS = (
    "{}",
    "Decided in week {week}: {}",
    "Still true in week {week}. {}",
    "{} See the minutes of week {week}.",
    "{} (번역: {week}주차에 확인함)",
    "For the new office: {} Weeks {week} and after.",
)
CRLF = "Backups run at three:\r\nfirst the database,\r\nand uploads last."
FORGOTTEN = "The spare key lies beneath the third flowerpot of the veranda."
TWINS = (
    "Coffee beans are ordered from the roastery near the harbour.",
    "Bicycles may be parked in the inner courtyard only.",
)


class Clock:
    """Each reading is seven hours after the last, so that no two memories have the same time."""

    def __init__(self) -> None:
        self.now = datetime(2025, 3, 1, 8, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(hours=7, microseconds=123)
        return self.now


def items() -> list[tuple[str, list[str], dict[str, str]]]:
    made = []
    for week, variant in enumerate(VARIANTS, 10):
        for tag, text in TOPICS.items():
            metadata = {"project": "atlas", "kind": "decision"} if week % 2 else {}
            made.append((variant.format(text, week=week), [tag, f"week {week}"], metadata))
    return made


async def fill(storage: Any) -> dict[str, Any]:
    """Fill a new store; returns what is in it then."""
    for text, tags, metadata in items():
        await storage.store(text, tags, metadata)
    await storage.delete([await storage.store(FORGOTTEN, ["private"])])
    # As version 1.2 stored it: with the line breaks that it was given.
    entry = import_module("memory_semantic.models").Entry(CRLF, ["backup"])
    [crlf] = await storage.put([entry])
    return {
        "crlf": crlf.id,
        "twins": await twins(storage),
        "memories": [
            {
                "id": memory.id,
                "content": memory.content,
                "tags": memory.tags,
                "timestamp": memory.timestamp.isoformat(),
                "metadata": memory.metadata,
            }
            for memory in await storage.get_recent(1_000)
        ],
    }


async def twins(storage: Any) -> str:
    """Two memories with one id, as two machines may draw it at the same moment on a server."""
    models, point = (import_module(f"memory_semantic.{name}") for name in ("models", "collection"))
    stored: list[str] = [await storage.store(text, ["twin"]) for text in TWINS]
    second: UUID = models.point_id(TWINS[1])

    def rename(store: Any) -> None:
        [found] = store.collection.retrieve([second])
        payload = {**found.payload, "id": stored[0]}
        store.collection.write([point.Point(second, found.vector, payload)], {})

    await storage.operate(rename, None)
    return stored[0]


def keep(name: str, settings: dict[str, Any]) -> None:
    """Make a store with these settings and keep it under this name."""
    storage = import_module("memory_semantic").MemoryStorage
    with tempfile.TemporaryDirectory() as root:
        made = storage("sam", {"storage_root": root, **settings}, clock=Clock())
        contents = json.dumps(asyncio.run(fill(made)), indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(contents + "\n")
        plain = ["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]
        archive = HERE / f"{name}.tar.xz"
        subprocess.run(["tar", "-cJSf", archive, *plain, "-C", root, "sam"], check=True)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    from embeddings_server import EmbeddingsServer

    from old import WHEEL

    sys.path.insert(0, str(WHEEL))  # before any other version

    keep("built-in", {"embedding_model": "local"})
    with EmbeddingsServer(dimensions=8) as server:
        service = {"embedding_model": "small", "base_url": server.base_url, "dimensions": 8}
        keep("service", service)
