"""The question of a search: its vector and, where words count, its words.

Words that are common in the store are left out of the text to embed, so their rarities are needed
first. If the model can embed at once, the store is opened once for both; else twice.
"""

from collections.abc import Awaitable, Callable

from .. import ranking
from ..points import Question, StoreInfo
from ..store import Store
from .choice import vectors_of
from .generator import EmbeddingGenerator, english_only

# What is asked of a store for a question: the text to embed, and what its rarities add up to.
Asked = tuple[str, float]


async def prepare(
    query: str,
    generator: EmbeddingGenerator,
    info: StoreInfo,
    weight: float,
    run: Callable[[Callable[[Store], Asked]], Awaitable[Asked]],
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

    def ask(store: Store) -> Asked:
        rarities = store.rarities(words)
        common = ranking.common(words, rarities, store.info.memories)
        return ranking.without_common(query, common), sum(rarities)

    if english_only(info.model):
        weight = ranking.weight_of(query, weight)
    if await generator.load():

        def embed(store: Store) -> Question:
            text, rarity = ask(store)
            return Question(generator.embed_now(text), words, weight, rarity)

        return embed
    text, rarity = await run(ask)
    [vector] = await embedded(text)
    return lambda _: Question(vector, words, weight, rarity)
