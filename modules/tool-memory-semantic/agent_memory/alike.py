"""Which memories are close to each other: by meaning, and by the words that they share.

    closeness = (cosine of the vectors + cosine of the pieces of their words) / 2

The vectors are those of the store; from each, a part of what all have in common is taken, because
some models put any two texts close together. A piece is four characters of a word, its ends
included, so that endings and compounds count less than the word; a rare piece counts more. The
built-in model alone knows too little of sentences, and words alone nothing of paraphrases.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize
from zlib import crc32

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Below this, two memories are about different things.
LEAST = 0.45
# With how many others a memory is paired at most: of many that are alike, not each with each.
_NEAREST = 2
# Pieces are counted in so many places, each in one by its hash. What falls together by chance adds
# or takes 0.03 at most.
_PLACES = 1024
_PIECE = 4
# In a store of so many memories, half of what all vectors have in common is taken from each.
_COMMON_FROM = 100
# Rows that are compared with all others at a time: 10,000 memories take 60 MB for that.
_BLOCK = 500

# What often says that something is not so, or not so any more.
_TURNS = re.compile(
    r"\b(?:not|no|never|without|longer|any ?more|instead|stopped|moved|switched|changed|now|only"
    r"|nicht|kein\w*|nie|mehr|statt|jetzt|nur)\b|n['\u2019]t\b",
    re.IGNORECASE,
)


class Alike(NamedTuple):
    """Two memories, by their places, and how close they are, up to 1."""

    closeness: float
    one: int
    other: int


def alike(texts: Sequence[str], vectors: "NDArray[Any]") -> list[Alike]:
    """The pairs of `texts` that are close, the closest first. A row of `vectors` is a text's."""
    import numpy as np

    if len(texts) < 2:
        return []
    meaning = vectors - vectors.mean(axis=0) * (len(texts) / (len(texts) + _COMMON_FROM))
    rows = np.hstack([_unit(meaning), _unit(_pieces(texts))]) / math.sqrt(2)
    found: dict[tuple[int, int], float] = {}
    for start in range(0, len(rows), _BLOCK):
        close = rows[start : start + _BLOCK] @ rows.T
        np.fill_diagonal(close[:, start:], -1)  # each is closest to itself
        nearest = np.argpartition(close, -min(_NEAREST, len(rows) - 1), axis=1)[:, -_NEAREST:]
        for place, others in enumerate(nearest.tolist()):
            for other in others:
                if (closeness := float(close[place, other])) >= LEAST:
                    one = start + place
                    found[min(one, other), max(one, other)] = closeness
    pairs = [Alike(closeness, *places) for places, closeness in found.items()]
    return sorted(pairs, key=lambda pair: (-pair.closeness, pair.one, pair.other))


def may_disagree(one: str, other: str) -> bool:
    """Whether two texts that are close name different numbers, or only one says "not", "no longer",
    "now" or the like. A guess, from their words alone.
    """
    numbers, others = (set(re.findall(r"\w*\d\w*", text)) for text in (one, other))
    if numbers and others and numbers != others:
        return True
    return bool(_TURNS.search(one)) != bool(_TURNS.search(other))


def _pieces(texts: Sequence[str]) -> "NDArray[Any]":
    import numpy as np

    known: dict[str, list[int]] = {}
    of_text: list[set[int]] = []
    for text in texts:
        pieces: set[int] = set()
        for word in _words(text):
            if word not in known:
                known[word] = [crc32(piece.encode()) for piece in _pieces_of(word)]
            pieces.update(known[word])
        of_text.append(pieces)
    texts_with = Counter(piece for pieces in of_text for piece in pieces)
    number = len(texts)
    rows = np.zeros((number, _PLACES), dtype=np.float32)
    for row, pieces in zip(rows, of_text, strict=True):
        for piece in pieces:
            with_it = texts_with[piece]
            rarity = math.log(1 + (number - with_it + 0.5) / (with_it + 0.5))  # as `ranking`
            row[piece % _PLACES] += rarity if piece & 1 << 31 else -rarity
    return rows


def _pieces_of(word: str) -> Iterator[str]:
    whole = f"^{word}$"
    return (whole[at : at + _PIECE] for at in range(max(1, len(whole) - _PIECE + 1)))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", normalize("NFKC", text).casefold()))


def _unit(rows: "NDArray[Any]") -> "NDArray[Any]":
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, 1e-9)
