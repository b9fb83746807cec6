# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "apsw>=3.54,<3.55",
#     "sqlite-vec>=0.1.9,<0.2",
# ]
# ///
# pyright: reportMissingImports=false
"""sqlite-vec: an extension of SQLite with exact search, here through apsw.

apsw brings an SQLite that can load extensions, which the one of many Pythons cannot.

Durable: with synchronous=FULL a commit returns after the one fsync of the write-ahead log.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import apsw
import sqlite_vec
import worker
from worker import Item


class SqliteVec(worker.Store):
    def open(self, folder: Path) -> None:
        self._database = apsw.Connection(str(folder / "memories.db"))
        self._database.set_busy_timeout(10_000)
        self._database.enable_load_extension(True)
        self._database.load_extension(sqlite_vec.loadable_path())
        self._database.enable_load_extension(False)
        self._database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._database.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS memories USING vec0("
            f"vector float[{worker.DIMENSIONS}] distance_metric=cosine, time float, +text text)"
        )

    def add(self, items: Sequence[Item]) -> None:
        rows = [(item.vector.tobytes(), item.timestamp.timestamp(), item.text) for item in items]
        with self._database:
            self._database.executemany(
                "INSERT INTO memories(vector, time, text) VALUES (?, ?, ?)", rows
            )

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        query = "SELECT text FROM memories WHERE vector MATCH ? AND k = ?"
        values: list[bytes | float] = [question.vector.tobytes(), limit]
        if since is not None:
            query += " AND time >= ?"
            values.append(since.timestamp())
        return [text for (text,) in self._database.execute(query + " ORDER BY distance", values)]

    def forget(self, found: int) -> None:
        with self._database:  # rows are numbered from 1, in the order of the filling
            self._database.execute("DELETE FROM memories WHERE rowid = ?", (found + 1,))

    def texts(self) -> list[str]:
        return [text for (text,) in self._database.execute("SELECT text FROM memories")]

    def close(self) -> None:
        self._database.close()


if __name__ == "__main__":
    worker.main(SqliteVec())
