# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "numpy>=2",
# ]
# ///
# pyright: reportMissingImports=false
"""The physical limit: a file of float32 rows, mapped into memory, and a dot product.

A row is the vector, its time, and where its text begins in the file of texts. No index, no
deletion, no repair: what is left when a store does nothing but its task.

Durable: both files are fsynced when `add` returns. A lock keeps several writers apart.
"""

import fcntl
import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import worker
from worker import Item

ROW = np.dtype([("vector", "<f4", worker.DIMENSIONS), ("time", "<f8"), ("offset", "<i8")])
# As this project ranks: a memory of the last week counts a fifth more.
BOOST = 1.2


class Numpy(worker.Store):
    can_forget = False

    def open(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._texts = os.open(folder / "texts.jsonl", flags, 0o600)
        self._rows = os.open(folder / "rows", flags, 0o600)
        self._path = folder / "rows"
        self._mapped = np.empty(0, ROW)

    def add(self, items: Sequence[Item]) -> None:
        rows = np.empty(len(items), ROW)
        lines = [json.dumps(item.text).encode() + b"\n" for item in items]
        fcntl.flock(self._rows, fcntl.LOCK_EX)
        try:
            offset = os.fstat(self._texts).st_size
            for row, item, line in zip(rows, items, lines, strict=True):
                row["vector"] = item.vector
                row["time"] = item.timestamp.timestamp()
                row["offset"] = offset
                offset += len(line)
            # The text first: what has a row is complete.
            for file, content in ((self._texts, b"".join(lines)), (self._rows, rows.tobytes())):
                os.write(file, content)
                os.fsync(file)
        finally:
            fcntl.flock(self._rows, fcntl.LOCK_UN)

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        rows, scores = self._scores(question, since)
        limit = min(limit, len(scores))
        best = np.argpartition(-scores, limit - 1)[:limit] if limit else []
        return [self._text(rows[each]) for each in sorted(best, key=lambda each: -scores[each])]

    def answers(self, question: Item, since: datetime | None) -> dict[str, list[str]]:
        """The exact answers by the plain rule, and by the one of this project.

        Only those above 0: not every store gives what has nothing in common with the question.
        """
        rows, cosines = self._scores(question, since)
        week_ago = (question.timestamp - worker.WEEK).timestamp()
        boosted = cosines * np.where(rows["time"] > week_ago, BOOST, 1)
        return {
            rule: [
                self._text(rows[each])
                for each in np.argsort(-scores)[: worker.LIMIT]
                if cosines[each] > 0
            ]
            for rule, scores in (("plain", cosines), ("boosted", boosted))
        }

    def texts(self) -> list[str]:
        return [self._text(row) for row in self._map()]

    def _scores(self, question: Item, since: datetime | None) -> tuple[np.ndarray, np.ndarray]:
        """The rows that count, and their cosines."""
        rows = self._map()
        if since is not None:
            rows = rows[rows["time"] >= since.timestamp()]
        return rows, rows["vector"] @ np.array(question.vector, "<f4")

    def _map(self) -> np.ndarray:
        """The rows, mapped anew if there are more than there were."""
        if os.fstat(self._rows).st_size // ROW.itemsize > len(self._mapped):
            self._mapped = np.memmap(self._path, ROW, "r")
        return self._mapped

    def _text(self, row: Any) -> str:
        with open(self._texts, "rb", closefd=False) as file:
            file.seek(int(row["offset"]))
            return json.loads(file.readline())

    def close(self) -> None:
        os.close(self._texts)
        os.close(self._rows)


if __name__ == "__main__":
    worker.main(Numpy())
