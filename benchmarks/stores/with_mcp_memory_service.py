# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "mcp-memory-service>=12.4,<13",
#     "pysqlite3>=0.6",
# ]
# ///
# pyright: reportMissingImports=false
"""mcp-memory-service, by the class behind its tools, on its default store (SQLite with sqlite-vec).

Its own models come from a hub that not every machine reaches, so it asks the service of the
benchmark, by its setting for that. MCP itself is not measured. The last week is by its `recall`.

Not durable as the others: SQLite's log with `synchronous=NORMAL` outlives the process, but not
always a loss of power. pysqlite3 can load extensions, which the sqlite3 of many Pythons cannot.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pysqlite3
import worker
from worker import Item

sys.modules["sqlite3"] = pysqlite3
os.environ["MCP_EXTERNAL_EMBEDDING_URL"] = f"{os.environ.get('BENCHMARK_ENDPOINT')}/embeddings"
os.environ["MCP_EXTERNAL_EMBEDDING_MODEL"] = "text-embedding-3-small"


class McpMemoryService(worker.Store):
    def open(self, folder: Path) -> None:
        # It makes a folder of its own where this points, as it is imported.
        os.environ["MCP_MEMORY_BASE_DIR"] = str(folder)
        from mcp_memory_service.models.memory import Memory
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
        from mcp_memory_service.utils.hashing import generate_content_hash

        self._memory, self._hash = Memory, generate_content_hash
        self._runner = asyncio.Runner()
        self._storage = SqliteVecMemoryStorage(str(folder / "memories.db"))
        self._runner.run(self._storage.initialize())

    def add(self, items: Sequence[Item]) -> None:
        memories = [
            self._memory(
                content=item.text,
                content_hash=self._hash(item.text),
                created_at=item.timestamp.timestamp(),
                created_at_iso=item.timestamp.isoformat(),
            )
            for item in items
        ]
        if len(memories) == 1:
            stored = [self._runner.run(self._storage.store(memories[0]))]
        else:
            stored = self._runner.run(self._storage.store_batch(memories))
        for done, words in stored:
            if not done:
                raise RuntimeError(words)

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        if since is None:
            call = self._storage.retrieve(question.text, limit)
        else:
            call = self._storage.recall(question.text, limit, since.timestamp())
        return [found.memory.content for found in self._runner.run(call)]

    def forget(self, found: int) -> None:
        done, words = self._runner.run(self._storage.delete(self._hash(worker.text(found))))
        if not done:
            raise RuntimeError(words)

    def texts(self) -> list[str]:
        return [memory.content for memory in self._runner.run(self._storage.get_all_memories())]

    def close(self) -> None:
        self._runner.run(self._storage.close())
        self._runner.close()


if __name__ == "__main__":
    worker.main(McpMemoryService())
