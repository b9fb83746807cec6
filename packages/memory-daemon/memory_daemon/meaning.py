"""Decisions by meaning: the built-in model finds them by other words too."""

from typing import Any

import numpy as np
from memory_semantic import EmbeddingError, EmbeddingGenerator

from .bundle import Block, blocks
from .database import Connection

NEWEST = 5_000  # decisions to compare, which takes 10 ms

_MODEL = EmbeddingGenerator("local")  # needs no key and no network; loaded with its first text
_SEEN = """
  SELECT decision_id, vector, coalesce(ts_rank(tsv, any_word(%(query)s)), 0) AS words,
    CASE WHEN model IS DISTINCT FROM %(model)s THEN decision END AS to_embed
  FROM decisions WHERE status = %(status)s AND scope = ANY(%(scopes)s)
    AND visible(channel, sensitivity, actor_id, %(channel)s, %(agent_id)s)
  ORDER BY ts DESC, decision_id DESC LIMIT %(newest)s"""
_WHOLE = """
  SELECT decision_id AS event_id, ts, actor_id, refs,
    format('decision (%%s, %%s)', scope, status) || coalesce(' by ' || superseded_by, '') AS what,
    concat_ws(E'\\n', decision,
      'rationale: ' || array_to_string(nullif(rationale, '{}'), '; '),
      'constraints: ' || array_to_string(nullif(constraints, '{}'), '; '),
      'alternatives: ' || array_to_string(nullif(alternatives, '{}'), '; '),
      'consequences: ' || array_to_string(nullif(consequences, '{}'), '; ')) AS text
  FROM decisions WHERE decision_id = ANY(%(ids)s)
  ORDER BY array_position(%(ids)s::text[], decision_id::text)"""


async def vector(text: str) -> bytes:
    """The vector of `text`: float16, of length 1; zeros if the model knows none of its words."""
    try:
        return np.array(await _MODEL.generate(text), dtype=np.float16).tobytes()
    except EmbeddingError:
        return np.zeros(_MODEL.dimensions or 256, dtype=np.float16).tobytes()


def model() -> str:
    """The model and its version, as stored with each vector."""
    return _MODEL.version or _MODEL.model


async def decisions(
    connection: Connection, asked: dict[str, Any], query: str, limit: int
) -> list[Block]:
    """The decisions nearest to `query`, or the newest if it is empty.

    By meaning, or by words if the query is mostly not in Latin letters, which the model was made
    for. `asked` selects which: by status, scopes, channel, agent_id.
    """
    asked = asked | {"query": query, "model": model(), "newest": NEWEST}
    rows = await (await connection.execute(_SEEN, asked)).fetchall()
    if rows and query.strip():
        if _latin(query):
            stored = [await vector(r["to_embed"]) if r["to_embed"] else r["vector"] for r in rows]
            matrix = np.frombuffer(b"".join(stored), dtype=np.float16).reshape(len(rows), -1)
            scores = matrix.astype(np.float32) @ np.frombuffer(await vector(query), np.float16)
        else:
            scores = np.array([row["words"] for row in rows])
        rows = [rows[index] for index in np.argsort(-scores, kind="stable")]
    ids = [row["decision_id"] for row in rows[:limit]]
    return await blocks(connection, _WHOLE, {"ids": ids})


def _latin(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter < "\u0250" for letter in letters) >= len(letters)
