# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "chromadb>=1.5,<1.6",
# ]
# ///
# pyright: reportMissingImports=false
"""Chroma's `PersistentClient`: SQLite for the texts, an approximate index (HNSW) for vectors.

Durable: `add` returns after SQLite has fsynced the memory in its log, from which the index is made.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import chromadb
import worker
from chromadb.config import Settings
from worker import Item


class Chroma(worker.Store):
    def open(self, folder: Path) -> None:
        client = chromadb.PersistentClient(folder, Settings(anonymized_telemetry=False))
        self._collection = client.get_or_create_collection(
            "memories",
            configuration={"hnsw": {"space": "cosine"}},
            embedding_function=None,  # else it would load a model
        )

    def add(self, items: Sequence[Item]) -> None:
        self._collection.add(
            ids=[str(worker.number_of(item.text)) for item in items],
            embeddings=[item.vector.tolist() for item in items],
            documents=[item.text for item in items],
            metadatas=[{"time": item.timestamp.timestamp()} for item in items],
        )

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        found = self._collection.query(
            query_embeddings=[question.vector.tolist()],
            n_results=limit,
            where=None if since is None else {"time": {"$gte": since.timestamp()}},
            include=["documents"],
        )
        return found["documents"][0]

    def forget(self, found: int) -> None:
        self._collection.delete([str(found)])

    def texts(self) -> list[str]:
        return self._collection.get(include=["documents"])["documents"]


if __name__ == "__main__":
    worker.main(Chroma())
