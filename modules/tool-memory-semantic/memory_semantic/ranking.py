"""Which memories answer a question best: meaning, shared words, and a boost for the last week.

    score = min(max(similarity, 0), 1) × (1.2 if younger than 7 days else 1)
    similarity = (cosine + w × overlap²) / (1 + w)

`cosine` is that of the memory and of the question without its common words. `overlap`, between 0
and 1, is how much of the question the memory contains, rare words counting more: the sum of the
rarities of those tokens of the question that it has, divided by the sum of them all. Squared, so
that a few chance hits of a long question count next to nothing. The rarity of a token that `n` of
`N` memories have is ln(1 + (N - n + 0.5) / (n + 0.5)), the IDF of BM25. `w` is the setting
`lexical_weight`; with 0 the similarity is the cosine.

The tokens of a text are its words. Korean joins endings to them, Chinese and Japanese put no blanks
between them: there, all pairs of neighbouring characters are tokens besides, and single ones where
they may be a word.
"""

import math
import re
from collections.abc import Container, Iterable
from datetime import datetime
from unicodedata import normalize
from zlib import crc32

from .limits import RECENCY_BOOST, RECENCY_WINDOW
from .memory import Memory

# Where words count, the similarity is worked out for so many memories: the nearest by meaning, and
# those that hold most of the words. Of 10,000 memories, 2,000 gave the same answers as all, in the
# same order, to 150 of 150 questions, and half as late.
CANDIDATES = 2_000
# The cosine of a memory that has no vector: it makes a similarity lower than any, which is -1.
NO_COSINE = -10.0
# A word of lower rarity is common: a third of the memories or more contain it; half or a quarter
# found as much in benchmarks/recall. In a store of fewer memories no word is.
COMMON = math.log(3)
COMMON_FROM = 20
# How much more shared words count in a question that the built-in model cannot read. With this
# weight the cosine decides between memories that share the same.
_UNREADABLE = 50

_WORD = re.compile(r"\w+")
# Han with its iteration mark, Hangul, and kana with the mark for long vowels, in NFKC.
_HAN = "\u3005\u3400-\u9fff\U00020000-\U0003ffff"
_HANGUL = "\uac00-\ud7a3"
_CHARACTERS = f"{_HAN}{_HANGUL}\u3041-\u3096\u30a1-\u30fa\u30fc"
# Compiled by `re` at first use: so many characters take some milliseconds.
_CJK = f"[{_CHARACTERS}]"
_RUN = f"{_CJK}+|[^{_CHARACTERS}]+"
# What may be a word of one character, with or without an ending: a Han character that has none
# beside it, and the first syllable of at most three.
_SINGLE = (
    f"(?<![{_HAN}])[{_HAN}](?![{_HAN}])"
    f"|(?<![{_HANGUL}])[{_HANGUL}](?=[{_HANGUL}]{{0,2}}(?![{_HANGUL}]))"
)


def rarity_of_unknown(memories: int) -> float:
    """The rarity of a token that none of so many memories has."""
    return math.log(1 + (memories + 0.5) / 0.5)


def common(words: Iterable[int], rarities: Iterable[float], memories: int) -> set[int]:
    """Those of `words` that say little, of rarities in a store of so many memories."""
    if memories < COMMON_FROM:
        return set()
    return {word for word, rarity in zip(words, rarities, strict=True) if rarity < COMMON}


def words(text: str) -> list[int]:
    """The different words of `text` as numbers of 32 bits, sorted; case and the ways to write an
    accent make no difference. They are all that 1.3 knows of a text.
    """
    return sorted(set(map(_number, _words(text))))


def indexed(text: str) -> list[int]:
    """The tokens of a memory, or of a question, as numbers of 32 bits, sorted: its `words`, and the
    pieces of those that hold Korean, Chinese or Japanese.
    """
    return sorted(set(map(_number, _tokens(text))))


def unreadable(text: str) -> bool:
    """Whether most of `text` is Korean, Chinese or Japanese, unknown to the built-in model."""
    tokens = _tokens(text)
    foreign = [token for token in tokens if not token.isascii() and re.search(_CJK, token)]
    return 2 * len(foreign) > len(tokens)


def weight_of(question: str, weight: float) -> float:
    """How much shared words count with the built-in model: more if it is `unreadable`."""
    return weight * _UNREADABLE if unreadable(question) else weight


def without_common(question: str, common: Container[int]) -> str:
    """`question` without the words whose tokens are `common`: the text to embed. Itself, if it has
    none of them or fewer than 2 others.
    """
    plain = normalize("NFKC", question)
    found = _WORD.findall(plain)
    left = [word for word in found if _number(word.casefold()) not in common]
    if len(left) < 2 or len(left) == len(found):
        return question
    kept = _WORD.sub(lambda word: word[0] if word[0] in left else "", plain)
    return " ".join(kept.split())


def score(similarity: float, timestamp: datetime, now: datetime) -> float:
    """`similarity` within 0 to 1, times 1.2 if `timestamp` is younger than 7 days."""
    similarity = min(max(similarity, 0.0), 1.0)  # with vectors of 16 bits it can be 1.00002
    return similarity * RECENCY_BOOST if now - timestamp < RECENCY_WINDOW else similarity


def rank(memories: Iterable[Memory], now: datetime, limit: int) -> list[Memory]:
    """The best `limit` of `memories`, best first, of equals the newer, then by id. In their `score`
    the similarity becomes the final score.
    """
    ranked = list(memories)
    for memory in ranked:
        memory.score = score(memory.score or 0.0, memory.timestamp, now)
    ranked.sort(key=lambda memory: memory.id)
    ranked.sort(key=lambda memory: (memory.score, memory.timestamp), reverse=True)
    return ranked[:limit]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalize("NFKC", text).casefold()))


def _tokens(text: str) -> set[str]:
    words = _words(text)
    return words.union(*(_pieces(word) for word in words if not word.isascii()))


def _pieces(word: str) -> list[str]:
    """`postgresql을쓰기` gives postgresql, 을쓰, 쓰기 and 을; `naïve` gives itself."""
    pieces: list[str] = re.findall(_SINGLE, word)
    for run in re.findall(_RUN, word):
        pairs = [run[i : i + 2] for i in range(len(run) - 1)]
        pieces += pairs if re.match(_CJK, run) else [run]
    return pieces


def _number(token: str) -> int:
    return crc32(token.encode())
