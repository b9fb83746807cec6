# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "qdrant-client>=1.20,<1.21",
# ]
# ///
# pyright: reportMissingImports=false
"""Qdrant's client in its local mode, `QdrantClient(path=...)`, which needs no server.

All vectors are in the memory of the process, in numpy; SQLite keeps them on disk. A lock keeps any
second process from opening the folder.

Durable: SQLite has fsynced the memory when `upsert` returns.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import worker
from qdrant_client import QdrantClient, models
from worker import Item

COLLECTION = "memories"


class QdrantLocal(worker.Store):
    def open(self, folder: Path) -> None:
        self._client = QdrantClient(path=str(folder))
        if not self._client.collection_exists(COLLECTION):
            self._client.create_collection(
                COLLECTION,
                models.VectorParams(size=worker.DIMENSIONS, distance=models.Distance.COSINE),
            )

    def add(self, items: Sequence[Item]) -> None:
        points = [
            models.PointStruct(
                id=worker.number_of(item.text),
                vector=item.vector.tolist(),
                payload={"text": item.text, "time": item.timestamp.isoformat()},
            )
            for item in items
        ]
        self._client.upsert(COLLECTION, points)

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        where = None
        if since is not None:
            condition = models.FieldCondition(key="time", range=models.DatetimeRange(gte=since))
            where = models.Filter(must=[condition])
        found = self._client.query_points(
            COLLECTION, question.vector.tolist(), query_filter=where, limit=limit
        )
        return [point.payload["text"] for point in found.points if point.payload]

    def forget(self, found: int) -> None:
        self._client.delete(COLLECTION, [found])

    def texts(self) -> list[str]:
        points, _ = self._client.scroll(COLLECTION, limit=10**9)
        return [point.payload["text"] for point in points if point.payload]

    def close(self) -> None:
        self._client.close()


if __name__ == "__main__":
    worker.main(QdrantLocal())
