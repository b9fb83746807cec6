"""A stand-in for a model: 32 numbers that depend only on the text. Takes no time to load."""

import random

from memory_semantic import EmbeddingGenerator


class PlainVectors(EmbeddingGenerator):
    def __init__(self) -> None:
        super().__init__("plain", dimensions=32)

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return [vector_of(text, 32) for text in texts]


def vector_of(text: str, dimensions: int) -> list[float]:
    source = random.Random(text)
    return [source.gauss(0, 1) for _ in range(dimensions)]
