# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "mcp-server-qdrant>=0.8,<0.9",
#     "qdrant-client>=1.18,<1.21",
# ]
# ///
# pyright: reportMissingImports=false
"""Qdrant's MCP server for memories, by the class behind its two tools, on a local folder.

Its model comes from a hub that not every machine reaches, so the vectors are ours, through the
interface that it has for models; they cost next to nothing. What MCP itself adds is not measured.

Durable: as with_qdrant_local.py, whose folder this is; only one process can open it.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import worker
from mcp_server_qdrant.embeddings.base import EmbeddingProvider
from mcp_server_qdrant.qdrant import Entry, QdrantConnector
from qdrant_client import models
from worker import Item


class Vectors(EmbeddingProvider):
    async def embed_documents(self, documents: list[str]) -> list[list[float]]:
        return [worker.vector(text).tolist() for text in documents]

    async def embed_query(self, query: str) -> list[float]:
        return worker.vector(query).tolist()

    def get_vector_name(self) -> str:
        return "bench"

    def get_vector_size(self) -> int:
        return worker.DIMENSIONS


class McpServerQdrant(worker.Store):
    can_forget = False  # it has no tool for it

    def open(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._connector = QdrantConnector(None, None, "memories", Vectors(), str(folder))

    def add(self, items: Sequence[Item]) -> None:
        async def store() -> None:
            for item in items:
                metadata = {"time": item.timestamp.timestamp()}
                await self._connector.store(Entry(content=item.text, metadata=metadata))

        self._runner.run(store())

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        where = None
        if since is not None:
            newer = models.Range(gte=since.timestamp())
            where = models.Filter(must=[models.FieldCondition(key="metadata.time", range=newer)])
        found = self._runner.run(
            self._connector.search(question.text, limit=limit, query_filter=where)
        )
        return [entry.content for entry in found]

    def texts(self) -> list[str]:
        found = self._runner.run(self._connector.search(worker.text(0), limit=10**9))
        return [entry.content for entry in found]

    def close(self) -> None:
        self._runner.close()


if __name__ == "__main__":
    worker.main(McpServerQdrant())
