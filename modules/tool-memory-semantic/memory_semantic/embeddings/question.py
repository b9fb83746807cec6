"""The question of a search: its vector and, where words count, its words.

Words that are common in the store are left out of the text to embed, so their rarities are needed
first: from the open store, if the model can embed at once, else from what the store has recorded.
"""

from collections.abc import Awaitable, Callable, Sequence

from .. import ranking
from ..store import Question, Store, StoreInfo
from .choice import vectors_of
from .generator import EmbeddingGenerator
from .optional import english_only


async def prepare(
    query: str,
    generator: EmbeddingGenerator,
    info: StoreInfo,
    weight: float,
    run: Callable[[Callable[[Store], list[float]]], Awaitable[list[float]]],
) -> Callable[[Store], Question]:
    """A function that makes the question once the store that `info` describes is open. `weight` is
    how much shared words count if the store has words; `run` works on the store.

    Raises EmbeddingError, and StorageError if the vector is not of the store's model.
    """

    async def embedded(text: str) -> list[list[float]]:
        return await vectors_of([text], generator, info, questions=True)

    words = ranking.indexed(query) if info.words and weight else []
    if not words:
        [vector] = await embedded(query)
        return lambda _: Question(vector)

    def without_common(rarities: Sequence[float]) -> str:
        return ranking.without_common(query, ranking.common(words, rarities, info.memories))

    if english_only(info.model.model):
        weight = ranking.weight_of(query, weight)
    if await generator.load():

        def ask(store: Store) -> Question:
            rarities = store.rarities(words)
            vector = generator.embed_now(without_common(rarities))
            return Question(vector, words, weight, sum(rarities))

        return ask
    if info.common is None:
        rarities = await run(lambda store: store.rarities(words))
        [vector] = await embedded(without_common(rarities))
        return lambda _: Question(vector, words, weight, sum(rarities))
    [vector] = await embedded(ranking.without_common(query, info.common))
    return lambda store: Question(vector, words, weight, sum(store.rarities(words)))
