"""What a text means, as numbers: by the memory's built-in model of words, which takes 0.1 ms."""

import re
from hashlib import blake2b

import numpy as np
from memory_semantic import EmbeddingError, EmbeddingGenerator

MODEL = "static"  # 256 numbers
_WORD = re.compile(r"[^\W\d_]+")
_model = EmbeddingGenerator(MODEL)


async def load() -> None:
    """Read the model, in a tenth of a second. Raises EmbeddingError."""
    await _model.load()


def vector(text: str) -> str | None:
    """The vector of a text as pgvector reads it. None if it has no word that the model knows, or
    most of its letters are not Latin: the model reads no others.
    """
    letters = [letter for letter in text if letter.isalpha()]
    if 2 * sum(letter < "\u0250" for letter in letters) < len(letters) or not letters:
        return None
    try:
        return f"[{','.join(f'{number:.4g}' for number in _model.embed_now(text))}]"
    except EmbeddingError:
        return None


def gist(text: str) -> int | None:
    """64 bits, of which few differ between texts in nearly the same words, whatever their order and
    numbers; some 32 between others. None without a word. (Charikar's simhash, STOC 2002.)
    """
    words = set(_WORD.findall(text.lower()))
    if not words:
        return None
    hashes = b"".join(blake2b(word.encode(), digest_size=8).digest() for word in words)
    bits = np.unpackbits(np.frombuffer(hashes, np.uint8).reshape(-1, 8), axis=1)
    most = np.packbits(2 * bits.sum(axis=0) > len(words))
    return int.from_bytes(most.tobytes(), signed=True)
