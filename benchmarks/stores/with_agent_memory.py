# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "amplifier-module-tool-memory-semantic[server]", # for server.py
# ]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../../modules/tool-memory-semantic"
# editable = true
# ///
# pyright: reportMissingImports=false
"""This project: its public class `MemoryStorage`, in three variants by the first argument.

`vectors`: the vectors cost next to nothing, so the times are those of the store. `endpoint`: by
an embeddings service, as with OpenAI. `local`: the built-in model, which reads the words.

Durable: a memory is on disk, fsync included, when the call returns. A call opens the store under a
lock between processes; calls that come together share one opening. What is forgotten is in no file
when the call returns.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import worker
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage
from worker import Item

AGENT = "bench"


class Vectors(EmbeddingGenerator):
    """The vectors that the other stores get, made within the call."""

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return [worker.vector(text).tolist() for text in texts]


class AgentMemory(worker.Store):
    def __init__(self, variant: str) -> None:
        self._variant = variant

    def open(self, folder: Path) -> None:
        config: dict[str, Any] = {"storage_root": str(folder)}
        generator = None
        if self._variant == "vectors":
            generator = Vectors(dimensions=worker.DIMENSIONS)
        elif self._variant == "endpoint":
            config["embedding_model"] = "text-embedding-3-small"
            config["base_url"] = os.environ["BENCHMARK_ENDPOINT"]
        else:
            config["embedding_model"] = "local"
        self._runner = asyncio.Runner()
        self._storage = MemoryStorage(AGENT, config, embeddings=generator)

    def add(self, items: Sequence[Item]) -> None:
        if len(items) == 1:  # as the tool does
            self._runner.run(self._storage.store(items[0].text))
            return
        memories = [
            Memory(
                id=f"mem-{worker.number_of(item.text):012x}",
                agent_id=AGENT,
                content=item.text,
                timestamp=item.timestamp,
            )
            for item in items
        ]
        self._runner.run(self._storage.restore(memories))

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        found = self._runner.run(self._storage.search(question.text, limit, since))
        return [memory.content for memory in found]

    def forget(self, found: int) -> None:
        self._runner.run(self._storage.delete([f"mem-{found:012x}"]))

    def texts(self) -> list[str]:
        return [memory.content for memory in self._runner.run(self._storage.get_recent(10**9))]

    def close(self) -> None:
        self._runner.close()


if __name__ == "__main__":
    worker.main(AgentMemory(sys.argv.pop(1)))
