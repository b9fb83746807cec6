"""Which memories answer a question best: meaning, shared words, and a boost for the last week.

    score = min(max(similarity, 0), 1) × (1.2 if younger than 7 days else 1)
    similarity = (cosine + w × overlap²) / (1 + w)

`cosine` is that of the memory and of the question without its common words. `overlap`, between 0
and 1, is how much of the question the memory contains, rare words counting more: the sum of the
rarities of those tokens of the question that it has, divided by the sum of them all. Squared, so
that a few chance hits of a long question count next to nothing. The rarity of a token that `n` of
`N` memories have is ln(1 + (N - n + 0.5) / (n + 0.5)), the IDF of BM25. `w` is the setting
`lexical_weight`; with 0 the similarity is the cosine.

Tokens are the words of a text. Korean, Chinese and Japanese either put no blanks between words or
join endings to them, and are cut into pairs of characters besides.
"""

import math
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from unicodedata import normalize
from zlib import crc32

from .limits import RECENCY_BOOST, RECENCY_WINDOW
from .memory import Memory

# Where words count, the similarity is worked out for so many memories: the nearest by meaning, and
# those that hold most of the words. With all 100,000 of a large store it would take 0.35 s.
CANDIDATES = 10_000
# The cosine of a memory that has no vector: it makes a similarity lower than any, which is -1.
NO_COSINE = -10.0
# A word of lower rarity is common: more than a third of the memories contain it.
COMMON = math.log(3)
# A question is embedded without its common words only if so many others are left.
_LEFT = 2

_WORD = re.compile(r"\w+")
# Han with its iteration mark, kana with the mark for long vowels, Hangul; the ones of half width
# and the compatibility forms become these by NFKC.
_CJK = "\u3005\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
_RUN = re.compile(f"[{_CJK}]+|[^{_CJK}]+")
_IN_CJK = re.compile(f"[{_CJK}]")


def rarity_of_unknown(memories: int) -> float:
    """The rarity of a token that none of so many memories has."""
    return math.log(1 + (memories + 0.5) / 0.5)


def words(text: str) -> list[int]:
    """The different words of `text` as numbers of 32 bits, sorted; case and the ways to write an
    accent make no difference.
    """
    return sorted({_token(word) for word in _split(text)})


def indexed(text: str) -> list[int]:
    """The tokens that are stored with a memory, sorted: its words, and the pieces of those that
    hold Korean, Chinese or Japanese.

    All of `words` are among them, so that 1.3, which asks for words alone, finds by them too.
    """
    return sorted({_token(token) for word in _split(text) for token in {word, *_pieces(word)}})


def asked(text: str) -> list[int]:
    """The tokens of a question, sorted: as `indexed`, but a word that has pieces is asked for by
    these alone, since hardly a memory has it whole.
    """
    return sorted({_token(token) for word in _split(text) for token in _pieces(word) or [word]})


def without_common(question: str, is_common: Callable[[int], bool]) -> str:
    """The text to embed for `question`: without the words whose tokens `is_common`.

    The question as it is, if it has none of them or fewer than 2 other words.
    """
    plain = normalize("NFKC", question)
    found = _WORD.findall(plain)
    left = [word for word in found if not is_common(_token(word.casefold()))]
    if len(left) < _LEFT or len(left) == len(found):
        return question
    kept = _WORD.sub(lambda word: word[0] if word[0] in left else "", plain)
    return " ".join(kept.split())


def score(similarity: float, timestamp: datetime, now: datetime) -> float:
    """`similarity` within 0 to 1, times 1.2 if `timestamp` is younger than 7 days.

    It is capped because storage in 16 bits can exceed 1 by 2e-5.
    """
    similarity = min(max(similarity, 0.0), 1.0)
    return similarity * RECENCY_BOOST if now - timestamp < RECENCY_WINDOW else similarity


def rank(memories: Iterable[Memory], now: datetime, limit: int) -> list[Memory]:
    """The best `limit` of `memories`, best first; their `score`, a similarity so far, becomes the
    final one in place.

    Equal scores: the newer first, then by id.
    """
    ranked = list(memories)
    for memory in ranked:
        memory.score = score(memory.score or 0.0, memory.timestamp, now)
    ranked.sort(key=lambda memory: memory.id)
    ranked.sort(key=lambda memory: (memory.score, memory.timestamp), reverse=True)
    return ranked[:limit]


def _split(text: str) -> list[str]:
    return _WORD.findall(normalize("NFKC", text).casefold())


def _token(word: str) -> int:
    return crc32(word.encode())


def _pieces(word: str) -> list[str]:
    if word.isascii() or not _IN_CJK.search(word):
        return []
    pieces = []
    for run in _RUN.findall(word):
        whole = len(run) == 1 or not _IN_CJK.match(run)
        pieces += [run] if whole else [run[i : i + 2] for i in range(len(run) - 1)]
    return pieces
