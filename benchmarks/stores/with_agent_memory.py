# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "amplifier-module-tool-memory-semantic",
# ]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../../modules/tool-memory-semantic"
# editable = true
# ///
# pyright: reportMissingImports=false
"""This project: its public class `MemoryStorage`, in four variants by the first argument.

`vectors`: the vectors cost next to nothing, so the times are those of the store. `endpoint`: by
an embeddings service, as with OpenAI. `local`: the built-in model, which reads the words. `open`:
an experiment, what a call would take if the store stayed open, and locked, between calls.

Durable: a memory is on disk, fsync included, when the call returns. Every call opens the store,
does its work under a lock between processes, and closes it again: none is kept open.
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import worker
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage
from memory_semantic.files.access import Visit
from memory_semantic.merging import merge
from memory_semantic.store import EmbeddingModel, Question, StoreInfo, Where, search
from worker import Item

AGENT = "bench"


class Vectors(EmbeddingGenerator):
    """The vectors that the other stores get, made within the call."""

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return [worker.vector(text).tolist() for text in texts]


class AgentMemory(worker.Store):
    ranking = "boosted"

    def __init__(self, variant: str) -> None:
        self._variant = variant

    def open(self, folder: Path) -> None:
        config: dict[str, Any] = {"storage_root": str(folder)}
        generator = None
        if self._variant in ("vectors", "open"):
            generator = Vectors(dimensions=worker.DIMENSIONS)
        elif self._variant == "endpoint":
            config["embedding_model"] = "text-embedding-3-small"
            config["base_url"] = os.environ["BENCHMARK_ENDPOINT"]
        else:
            config["embedding_model"] = "local"
        self._runner = asyncio.Runner()
        self._storage = MemoryStorage(AGENT, config, embeddings=generator)
        self._kept = ExitStack()
        self._held = None
        if self._variant == "open":
            self._storage.folder.make()
            visit = Visit(self._storage.folder, time.monotonic(), Event())
            self._kept.callback(visit.close)
            model = EmbeddingModel("bench", None, worker.DIMENSIONS)
            self._held = visit.store(
                StoreInfo(agent=AGENT, embedding=model, created=datetime.now(UTC))
            )

    def add(self, items: Sequence[Item]) -> None:
        if self._held:
            self._held.update(
                [
                    Memory(agent_id=AGENT, content=item.text, embedding=list(item.vector))
                    for item in items
                ],
                merge,
            )
            return
        if len(items) == 1:  # as the tool does
            self._runner.run(self._storage.store(items[0].text))
            return
        memories = [
            Memory(
                id=f"mem-{int(item.text.split(maxsplit=2)[1].rstrip(':')):08x}",
                agent_id=AGENT,
                content=item.text,
                timestamp=item.timestamp,
            )
            for item in items
        ]
        self._runner.run(self._storage.restore(memories))

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        if self._held:
            where, now = Where(since=since), datetime.now(UTC)
            found = search(self._held, Question(list(question.vector)), where, limit, now)
        else:
            found = self._runner.run(self._storage.search(question.text, limit, since))
        return [memory.content for memory in found]

    def texts(self) -> list[str]:
        return [memory.content for memory in self._runner.run(self._storage.get_recent(10**9))]

    def close(self) -> None:
        self._kept.close()
        self._runner.close()


if __name__ == "__main__":
    worker.main(AgentMemory(sys.argv.pop(1)))
