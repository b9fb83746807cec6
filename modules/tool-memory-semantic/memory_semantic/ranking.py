"""Which memories answer a question best: similarity, and a boost for the last seven days.

    score = max(similarity, 0) × (1.2 if younger than 7 days else 1)      V1 design, section 6
    similarity = (cosine + weight × overlap) / (1 + weight)

`overlap`, between 0 and 1, is how much of the question's words the memory contains, the rare ones
counting more: the sum of the rarities of those it contains, divided by the sum of them all. The
rarity of a word that `n` of the `N` memories with words contain is
ln(1 + (N - n + 0.5) / (n + 0.5)), the IDF of BM25. With weight 0 the similarity is the cosine.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from unicodedata import normalize
from zlib import crc32

from .models import RECENCY_BOOST, RECENCY_WINDOW, Memory

# Where words count, the similarity is worked out for so many memories: the nearest by meaning, and
# those that hold most of the words. With all 100,000 of a large store it would take 0.35 s.
CANDIDATES = 10_000
# The cosine of a memory that has no vector: it makes a similarity lower than any, which is -1.
NO_COSINE = -10.0


def rarity_of_unknown(memories: int) -> float:
    """The rarity of a word that none of so many memories contains."""
    return math.log(1 + (memories + 0.5) / 0.5)


def words(text: str) -> list[int]:
    """The different words of `text` as numbers of 32 bits, sorted; case and the ways to write an
    accent make no difference. A language that puts no blanks between words gains nothing by them.
    """
    plain = normalize("NFKC", text).casefold()
    return sorted({crc32(word.encode()) for word in re.findall(r"\w+", plain)})


def score(similarity: float, timestamp: datetime, now: datetime) -> float:
    """max(similarity, 0), times 1.2 if `timestamp` is younger than 7 days.

    The similarity is also capped at 1, which float16 storage can exceed by 2e-5.
    """
    similarity = min(max(similarity, 0.0), 1.0)
    return similarity * RECENCY_BOOST if now - timestamp < RECENCY_WINDOW else similarity


def rank(found: Iterable[tuple[Memory, float]], now: datetime, limit: int) -> list[Memory]:
    """The best `limit` of (memory, similarity) pairs, best first, each with its score.

    Equal scores: the newer first, then by id.
    """
    scored = [
        replace(memory, score=score(similarity, memory.timestamp, now))
        for memory, similarity in found
    ]
    scored.sort(key=lambda memory: memory.id)
    scored.sort(key=lambda memory: (memory.score, memory.timestamp), reverse=True)
    return scored[:limit]
