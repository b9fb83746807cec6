"""Which model embeds: the store's own; for a new store, the one in the settings, if any. And how a
question is put to the store: its vector and, where words count, its words.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from datetime import datetime

from .. import ranking
from ..errors import UNCHANGED, StorageError
from ..limits import (
    BUILT_IN_MODELS,
    DEFAULT_MODEL,
    DIMENSIONS,
    INDEXED,
    LEXICAL_WEIGHT,
    LOCAL_MODEL,
)
from ..points import EmbeddingModel, Question, StoreInfo
from ..remembered import utc_now
from ..settings import StorageConfig
from ..store import Store
from .generator import EmbeddingGenerator, english_only, is_optional

logger = logging.getLogger(__name__)

# The text to try a model with: it says nothing about anybody.
_SAMPLE = "How long does one text take?"
# What is asked of a store for a question: the text to embed, and what its rarities add up to.
Asked = tuple[str, float]


def choose(
    agent: str,
    config: StorageConfig,
    info: StoreInfo | None,
    given: EmbeddingGenerator | None = None,
) -> EmbeddingGenerator:
    """The model for the store that `info` describes, or for a new store if it is None; `given`
    replaces the one in the settings. Raises StorageError if that is not the store's model.
    """
    model, dimensions = config.embedding_model, config.dimensions
    if info:
        model = model or info.model.model
        if info.model.dimensions != DIMENSIONS.get(info.model.model, info.model.dimensions):
            dimensions = dimensions or info.model.dimensions  # these must have been requested
    generator = given or EmbeddingGenerator(
        model or _default(agent, config), base_url=config.base_url, dimensions=dimensions
    )
    if info:
        if info.model.model == generator.model and info.endpoint and not generator.endpoint:
            raise StorageError(
                f"The store of {agent!r} was embedded by the service at {info.endpoint}, which "
                f"base_url does not name now. {UNCHANGED} Set it."
            )
        _require_same(info, generator)
    return generator


async def vectors_of(
    texts: list[str],
    generator: EmbeddingGenerator,
    info: StoreInfo | None,
    *,
    questions: bool = False,
) -> list[list[float]]:
    """The vectors of `texts`, which are `questions` or memories. Raises EmbeddingError, and
    StorageError if the store that `info` describes has another model.
    """
    vectors = await generator.generate_batch(texts, questions=questions)
    if info:
        _require_same(info, generator)
    return vectors


def _model(generator: EmbeddingGenerator, dimensions: int = 0) -> EmbeddingModel:
    return EmbeddingModel(generator.model, generator.version, generator.dimensions or dimensions)


def _require_same(info: StoreInfo, generator: EmbeddingGenerator) -> None:
    model = _model(generator, info.model.dimensions)
    if info.model != model:
        raise StorageError(
            f"The store of {info.agent!r} was made with the embedding model {info.model}, but "
            f"{model} is configured now. {UNCHANGED} Set embedding_model, base_url and dimensions "
            f"back, or give the store the other model: agent-memory reembed --model {model.model}"
        )


def lexical_weight(config: StorageConfig, model: str) -> float:
    """How much shared words count besides meaning with this embedding model."""
    if config.lexical_weight is not None:
        return config.lexical_weight
    known = model in BUILT_IN_MODELS or is_optional(model, config.base_url)
    return LEXICAL_WEIGHT if known else 0.0


def new_info(
    agent: str, config: StorageConfig, generator: EmbeddingGenerator, created: datetime
) -> StoreInfo:
    """The description of a new store for the vectors of `generator`, which has made some."""
    return StoreInfo(
        agent=agent,
        embedding=_model(generator),
        endpoint=generator.endpoint,
        words=INDEXED if lexical_weight(config, generator.model) else 0,
        created=created,
    )


async def info_for(agent: str, config: StorageConfig, generator: EmbeddingGenerator) -> StoreInfo:
    """What a store of `agent` made now will be; `generator` embeds a sample to show that it
    works.
    """
    await generator.generate(_SAMPLE)
    return new_info(agent, config, generator, utc_now())


def _default(agent: str, config: StorageConfig) -> str:
    if config.base_url or os.environ.get("OPENAI_API_KEY", "").strip():
        return DEFAULT_MODEL
    logger.info(
        "No embedding_model is configured and OPENAI_API_KEY is not set: the new store of %r uses "
        "the built-in model, and keeps it.",
        agent,
    )
    return LOCAL_MODEL


async def prepare(
    query: str,
    generator: EmbeddingGenerator,
    info: StoreInfo,
    weight: float,
    run: Callable[[Callable[[Store], Asked]], Awaitable[Asked]],
) -> Callable[[Store], Question]:
    """A function that makes the question once the store that `info` describes is open. `weight` is
    how much shared words count if the store has words; `run` works on the store. Words that are
    common there are left out of the text to embed, so their rarities are asked for first: if the
    model can embed at once, where the store is open anyway; else by `run`.

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
