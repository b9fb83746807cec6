"""Which memories answer a question best: similarity, and a boost for the last seven days."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from .models import RECENCY_BOOST, RECENCY_WINDOW, Memory


def score(cosine: float, timestamp: datetime, now: datetime) -> float:
    """max(cosine, 0), times 1.2 if `timestamp` is younger than 7 days (V1 design, section 6).

    The cosine is also capped at 1, which float16 storage can exceed by 2e-5.
    """
    similarity = min(max(cosine, 0.0), 1.0)
    return similarity * RECENCY_BOOST if timestamp > now - RECENCY_WINDOW else similarity


def rank(found: Iterable[tuple[Memory, float]], now: datetime, limit: int) -> list[Memory]:
    """The best `limit` of (memory, cosine) pairs, best first, each with its score.

    Equal scores: the newer first, then by id.
    """
    scored = [
        replace(memory, score=score(cosine, memory.timestamp, now)) for memory, cosine in found
    ]
    scored.sort(key=lambda memory: memory.id)
    scored.sort(key=lambda memory: (memory.score, memory.timestamp), reverse=True)
    return scored[:limit]
