"""Decisions by their meaning, which the built-in model finds in other words, too."""

from typing import Any

import numpy as np
from memory_semantic import EmbeddingError, EmbeddingGenerator

from .database import Connection

NEWEST = 5_000  # decisions that are compared: 10 ms

_SEEN = """
  SELECT decision_id, model, vector, CASE WHEN model IS DISTINCT FROM %(model)s THEN decision END AS text,
    coalesce(ts_rank(tsv, any_word(%(query)s)), 0) AS words
  FROM decisions WHERE status = %(status)s AND scope = ANY(%(scopes)s)
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent)s)
  ORDER BY ts DESC, decision_id DESC LIMIT %(newest)s"""


class Meaning:
    """The built-in model: no key, no network."""

    def __init__(self) -> None:
        self._generator = EmbeddingGenerator("local")
        self._model = self._generator.version or self._generator.model

    async def stored(self, text: str) -> dict[str, Any]:
        """The columns that a decision's vector takes."""
        vector = await self._vector(text)
        return {"model": self._model, "vector": None if vector is None else vector.tobytes()}

    async def _vector(self, text: str) -> np.ndarray | None:
        try:
            return np.array(await self._generator.generate(text), dtype=np.float16)
        except EmbeddingError:
            return None  # no word that the model knows

    async def decisions(
        self, connection: Connection, query: str, limit: int, **seen: Any
    ) -> list[dict[str, Any]]:
        """The decisions nearest to `query`, or the newest if it is empty.

        By meaning, which finds what is put in other words; by words where the question is in
        letters that the model was not made for. `seen` says which: status, scopes, channel, agent.
        """
        asked = {**seen, "query": query, "model": self._model, "newest": NEWEST}
        rows = await (await connection.execute(_SEEN, asked)).fetchall()
        if query.strip() and rows:
            scores = await self._scores(query, rows)
            rows = [rows[index] for index in np.argsort(-scores, kind="stable")]
        ids = [row["decision_id"] for row in rows[:limit]]
        found = await connection.execute(
            "SELECT * FROM decisions WHERE decision_id = ANY(%s)"
            " ORDER BY array_position(%s::text[], decision_id::text)",
            [ids, ids],
        )
        return await found.fetchall()

    async def _scores(self, query: str, rows: list[dict[str, Any]]) -> np.ndarray:
        asked = await self._vector(query) if latin(query) else None
        if asked is None:
            return np.array([row["words"] for row in rows])
        nothing = np.zeros_like(asked)
        vectors = []
        for row in rows:
            if row["text"] is not None:  # its vector is another model's
                vector = await self._vector(row["text"])
            else:
                vector = row["vector"] and np.frombuffer(row["vector"], dtype=np.float16)
            vectors.append(nothing if vector is None else vector)
        return np.array(vectors, dtype=np.float32) @ asked.astype(np.float32)


def latin(text: str) -> bool:
    """Whether most letters of `text` are Latin, which is what the built-in model reads."""
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter < "\u0250" for letter in letters) >= len(letters)
