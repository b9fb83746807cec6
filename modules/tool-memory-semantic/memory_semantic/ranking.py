"""Which memories answer a question best: meaning, shared words, and boosts for the last week and
for a time that the question names.

    score = min(max(similarity, 0), 1) × (1.2 if younger than 7 days else 1)
            × (1.6 if of a time that the question names else 1)
    similarity = (cosine + w × overlap²) / (1 + w)

`cosine` compares the memory with the question without its common words. `overlap`, from 0 to 1, is
how much of the question the memory contains, with rare words counting more: the rarities of the
question's pieces that the memory has, divided by the rarities of all of them. It is squared so that
a few chance hits of a long question count next to nothing. The rarity of a piece that `n` of `N`
memories have is ln(1 + (N - n + 0.5) / (n + 0.5)), the IDF of BM25. `w` is the setting
`lexical_weight`; with 0 the similarity is the cosine.

The pieces of a word are every four neighbouring characters of it, its ends counting as one each:
`<fri`, `frid`, `rida`, `iday` and `day>`. So a word is found in another form, in a compound, and
with a typing error. A word that is shorter is one piece, and one with a digit is a piece besides,
because it may be the name of something. Korean joins endings to words, and Chinese and Japanese put
no spaces between them: there, pieces are of two characters, and a single character that may be a
word is one too.
"""

import math
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from operator import mul
from unicodedata import normalize
from zlib import crc32

from .limits import NAMED_BOOST, RECENCY_BOOST, RECENCY_WINDOW
from .memory import Memory
from .times import Span

# Where words count, the similarity is computed for this many memories: the nearest by meaning and
# those that share the most pieces. Of 10,000 memories, 1,000 gave the same first five as all to 148
# of 150 questions, in a quarter of the time. In files, up to twice as many are all candidates.
CANDIDATES = 1_000
# The cosine of a memory without a vector: it puts the similarity below the lowest, which is -1.
NO_COSINE = -10.0
# A piece of lower rarity is common: at least a third of the memories contain it. So is a word whose
# pieces all are. Half or a quarter found as much in benchmarks/recall. In a store with fewer
# memories than this, none is common.
COMMON = math.log(3)
COMMON_FROM = 20
# How much more shared words count in a question that the built-in model cannot read. The cosine
# then decides only between memories that share the same words.
_UNREADABLE = 50

# The length of a piece. In benchmarks/recall and on LoCoMo, 3 and 5 found less.
_PIECE = 4

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
# Han with its iteration mark, Hangul, and kana with the mark for long vowels, in NFKC.
_HAN = "\u3005\u3400-\u9fff\U00020000-\U0003ffff"
_HANGUL = "\uac00-\ud7a3"
_CHARACTERS = f"{_HAN}{_HANGUL}\u3041-\u3096\u30a1-\u30fa\u30fc"
# Compiled by `re` at first use: so many characters take some milliseconds.
_CJK = f"[{_CHARACTERS}]"
_RUN = f"{_CJK}+|[^{_CHARACTERS}]+"
# What may be a word of one character, with or without an ending: a Han character with no other
# beside it, and the first of at most three Hangul syllables.
_SINGLE = (
    f"(?<![{_HAN}])[{_HAN}](?![{_HAN}])"
    f"|(?<![{_HANGUL}])[{_HANGUL}](?=[{_HANGUL}]{{0,2}}(?![{_HANGUL}]))"
)


def rarity_of_unknown(memories: int) -> float:
    """The rarity of a piece that no memory has, in a store of this many."""
    return math.log(1 + (memories + 0.5) / 0.5)


def common(pieces: Iterable[int], rarities: Iterable[float], memories: int) -> set[int]:
    """The common ones among `pieces`, by their rarities in a store of this many memories."""
    if memories < COMMON_FROM:
        return set()
    return {piece for piece, rarity in zip(pieces, rarities, strict=True) if rarity < COMMON}


def indexed(text: str) -> list[int]:
    """The pieces of a memory or a question as sorted 32-bit numbers. Case and the encoding of
    accents make no difference.
    """
    words = set(_WORD.findall(normalize("NFKC", text).casefold()))
    return sorted(set().union(*map(_pieces, words)))


def unreadable(text: str) -> bool:
    """Whether `text` is mostly Korean, Chinese or Japanese, which a model for English cannot read.
    A character of these counts as much as a word of others.
    """
    plain = normalize("NFKC", text)
    return len(re.findall(_CJK, plain)) > len(_WORD.findall(re.sub(_CJK, " ", plain)))


def weight_of(question: str, weight: float) -> float:
    """How much shared words count with a model for English: more if `question` is `unreadable`."""
    return weight * _UNREADABLE if unreadable(question) else weight


def without_common(question: str, common: AbstractSet[int]) -> str:
    """The text to embed: `question` without the words whose pieces are all `common`, or
    unchanged if it has none of them or fewer than 2 others.
    """
    plain = normalize("NFKC", question)
    found = _WORD.findall(plain)
    # A word may have no piece, such as a single kana.
    left = [w for w in found if not (pieces := _pieces(w.casefold())) or not pieces <= common]
    if len(left) < 2 or len(left) == len(found):
        return question
    kept = _WORD.sub(lambda word: word[0] if word[0] in left else "", plain)
    return " ".join(kept.split())


def score(similarity: float, timestamp: datetime, now: datetime, span: Span | None = None) -> float:
    """`similarity` within 0 to 1, times 1.2 if `timestamp` is younger than 7 days, and times 1.6 if
    it is in the `span` that the question names.
    """
    similarity = min(max(similarity, 0.0), 1.0)  # with vectors of 16 bits it can be 1.00002
    if span and span.has(timestamp):
        similarity *= NAMED_BOOST
    return similarity * RECENCY_BOOST if now - timestamp < RECENCY_WINDOW else similarity


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors; 0 for one without a length."""
    length = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / length if length else 0.0


def rank(
    memories: Iterable[Memory], now: datetime, limit: int, span: Span | None = None
) -> list[Memory]:
    """The best `limit` of `memories`, best first; among equals the newest first, then by id.
    Replaces the similarity in their `score` with the final score.
    """
    ranked = list(memories)
    for memory in ranked:
        memory.similarity = max(memory.score or 0.0, 0.0)
        memory.score = score(memory.similarity, memory.timestamp, now, span)
    ranked.sort(key=lambda memory: memory.id)
    ranked.sort(key=lambda memory: (memory.score, memory.timestamp), reverse=True)
    return ranked[:limit]


def _pieces(word: str) -> set[int]:
    """`postgresql을쓰기` gives 을쓰, 쓰기, 을, and `<pos` to `sql>`; `s3` gives `<s3>`."""
    if word.isascii():
        return set(map(_number, _parts(word)))
    pieces: list[str] = re.findall(_SINGLE, word)
    for run in re.findall(_RUN, word):
        pairs = [run[i : i + 2] for i in range(len(run) - 1)]
        pieces += pairs if re.match(_CJK, run) else _parts(run)
    return set(map(_number, pieces))


def _parts(word: str) -> list[str]:
    whole = f"<{word}>"
    if len(word) < _PIECE:
        return [whole]
    parts = [whole[i : i + _PIECE] for i in range(len(whole) - _PIECE + 1)]
    return [*parts, whole] if _DIGIT.search(word) else parts


def _number(piece: str) -> int:
    return crc32(piece.encode())
