# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "lancedb>=0.40,<0.41",
# ]
# ///
# pyright: reportMissingImports=false
"""LanceDB's embedded database: exact search by cosine, without an index.

Every `add` is a version of the table with a file of its own; `optimize` joins them after an import.

Not durable as the others: it makes no fsync. A memory outlives the process, but a loss of power
only if the system had written it out by then.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import lancedb
import pyarrow
import worker
from worker import Item

SCHEMA = pyarrow.schema(
    [
        pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), worker.DIMENSIONS)),
        pyarrow.field("text", pyarrow.string()),
        pyarrow.field("time", pyarrow.timestamp("us", tz="UTC")),
    ]
)


class LanceDB(worker.Store):
    # Each import is a file; its documentation asks for few and large ones.
    batch = 10_000

    def open(self, folder: Path) -> None:
        # Zero: a search sees what other processes have added, as those of other stores do that
        # several can open. It takes some milliseconds; without it, it never sees them.
        database = lancedb.connect(folder, read_consistency_interval=timedelta(0))
        self._table = database.create_table("memories", schema=SCHEMA, exist_ok=True)

    def add(self, items: Sequence[Item]) -> None:
        self._table.add(
            [
                {"vector": item.vector.tolist(), "text": item.text, "time": item.timestamp}
                for item in items
            ]
        )

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        query = self._table.search(question.vector.tolist()).distance_type("cosine").limit(limit)
        if since is not None:
            query = query.where(f"time >= timestamp '{since.isoformat()}'", prefilter=True)
        return [row["text"] for row in query.select(["text", "_distance"]).to_list()]

    def forget(self, found: int) -> None:
        self._table.delete(f"text = '{worker.text(found)}'")

    def texts(self) -> list[str]:
        return self._table.to_arrow().column("text").to_pylist()

    def settle(self) -> None:
        self._table.optimize()


if __name__ == "__main__":
    worker.main(LanceDB())
