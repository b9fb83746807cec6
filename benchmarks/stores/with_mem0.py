# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "mem0ai>=2.2,<2.3",
# ]
# ///
# pyright: reportMissingImports=false
"""mem0 with its default store, Qdrant's local mode, and without a language model (`infer=False`).

Embedding goes through its own OpenAI client to the service of the benchmark. `threshold=0`, so
that it does not leave out what is less similar; the time is set as `created_at` in the metadata.

Durable: as with_qdrant_local.py, and a second SQLite keeps the history; both fsync. Only one
process can open the folder.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import worker
from worker import Item

USER = "bench"


class Mem0(worker.Store):
    def open(self, folder: Path) -> None:
        # It reads these as it is imported: nothing is sent to its makers or put into the home.
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = str(folder / "mem0")
        from mem0 import Memory

        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(folder / "qdrant"),
                        "embedding_model_dims": worker.DIMENSIONS,
                    },
                },
                "embedder": {
                    "provider": "openai",
                    "config": {
                        "model": "text-embedding-3-small",
                        "openai_base_url": os.environ["BENCHMARK_ENDPOINT"],
                    },
                },
                # Never called, but made.
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "history_db_path": str(folder / "history.db"),
            }
        )

    def add(self, items: Sequence[Item]) -> None:
        for item in items:
            self._memory.add(
                item.text,
                user_id=USER,
                metadata={"created_at": item.timestamp.isoformat()},
                infer=False,
            )

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        filters: dict[str, Any] = {"user_id": USER}
        if since is not None:
            filters["created_at"] = {"gte": since.isoformat()}
        found = self._memory.search(question.text, top_k=limit, filters=filters, threshold=0)
        return [each["memory"] for each in found["results"]]

    def find(self, number: int) -> str:
        question = worker.memory(number, datetime.now(UTC))
        found = self._memory.search(question.text, top_k=1, filters={"user_id": USER}, threshold=0)
        return found["results"][0]["id"]

    def forget(self, found: str) -> None:
        self._memory.delete(found)

    def texts(self) -> list[str]:
        found = self._memory.get_all(filters={"user_id": USER}, top_k=10**9)
        return [each["memory"] for each in found["results"]]

    def close(self) -> None:
        self._memory.close()


if __name__ == "__main__":
    worker.main(Mem0())
