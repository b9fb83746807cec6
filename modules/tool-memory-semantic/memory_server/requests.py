"""What is asked in the server's own terms: new collections, points, questions and filters."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from memory_semantic import ranking
from memory_semantic.memory import Memory
from memory_semantic.ranking import CANDIDATES, NO_COSINE
from memory_semantic.store import Question, Record, Where
from qdrant_client import models

from .info import ServerInfo
from .settings import ServerConfig

WORDS = "words"  # the name of a memory's sparse vector; the info has that of the dense one

# The quantized vectors find twice as many as are asked for; these are compared by the true ones.
_RESCORED = models.SearchParams(
    quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)
)
_EXACT = models.SearchParams(exact=True)

# The fields of a point to filter or sort by, and their indexes.
INDEXES = {
    "id": models.PayloadSchemaType.KEYWORD,
    "tags": models.PayloadSchemaType.KEYWORD,
    "replaced_by": models.PayloadSchemaType.KEYWORD,
    "pinned": models.PayloadSchemaType.BOOL,
    "revision": models.PayloadSchemaType.KEYWORD,
    "timestamp": models.PayloadSchemaType.DATETIME,
    "expires": models.PayloadSchemaType.DATETIME,
}

_FLOAT16 = 2  # bytes
# The smaller copy of the vectors, which stays in memory while they are on disk.
_QUANTIZATIONS = {
    "int8": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "none": None,
}


def parameters(info: ServerInfo, config: ServerConfig) -> dict[str, Any]:
    """The client's arguments, besides the name, for a new collection for the store `info`."""
    size = info.model.dimensions
    vectors = models.VectorParams(
        size=size,
        distance=models.Distance.COSINE,
        datatype=models.Datatype.FLOAT16,
        on_disk=True,
    )
    words = models.SparseVectorParams(modifier=models.Modifier.IDF)
    optimizers = models.OptimizersConfigDiff(
        # In kB of vectors: smaller segments have no graph, and all their vectors are compared.
        indexing_threshold=max(1, config.qdrant_exact_below * size * _FLOAT16 // 1024),
        # An agent's store is small, and every segment takes additional files and RAM.
        default_segment_number=1,
    )
    return {
        "vectors_config": {info.vector: vectors},
        "sparse_vectors_config": {WORDS: words} if info.words else None,
        "shard_number": config.qdrant_shards,
        "replication_factor": config.qdrant_replicas,
        "write_consistency_factor": config.write_consistency,
        "optimizers_config": optimizers,
        # The write-ahead log; a collection keeps two files of it. Qdrant's default is 32 MB each.
        "wal_config": models.WalConfigDiff(wal_capacity_mb=4),
        "quantization_config": _QUANTIZATIONS[config.qdrant_quantization],
        "metadata": info.metadata(),
    }


def similarity(question: Question, vector: str, where: Where, limit: int) -> models.QueryRequest:
    """The query for the `limit` memories most similar to `question`, by the vector of that name."""
    filter = condition(where)
    if not (question.words and question.rarity):
        return models.QueryRequest(
            query=question.vector,
            using=vector,
            filter=filter,
            params=_RESCORED,
            limit=limit,
            with_payload=True,
        )
    by_meaning = models.Prefetch(
        query=question.vector, using=vector, filter=filter, params=_RESCORED, limit=CANDIDATES
    )
    by_words = models.Prefetch(
        query=sparse(question.words), using=WORDS, filter=filter, limit=CANDIDATES
    )
    their_meaning = models.Prefetch(
        query=question.vector, using=vector, params=_EXACT, limit=CANDIDATES, prefetch=[by_words]
    )
    return models.QueryRequest(
        prefetch=[by_meaning, by_words, their_meaning],
        query=_formula(question.weight, question.rarity),
        limit=limit,
        with_payload=True,
    )


def point_of(memory: Memory, info: ServerInfo) -> models.PointStruct:
    """The memory as the store `info` keeps it, with a new revision."""
    vectors: dict[str, Any] = {info.vector: memory.embedding}
    if info.words:
        vectors[WORDS] = sparse(ranking.indexed(memory.content))
    payload = {**memory.dict_for_storage(), "revision": secrets.token_hex(8)}
    return models.PointStruct(id=str(memory.key), vector=vectors, payload=payload)


def record_of(point: Any, info: ServerInfo) -> Record:
    """What the store `info` holds of a memory, as the server answered it."""
    vectors = point.vector or {}
    words = None
    if info.words:
        words = vectors[WORDS].indices if WORDS in vectors else []  # a text may have none
    vector = vectors.get(info.vector) or []
    score = getattr(point, "score", None)
    return Record(UUID(str(point.id)), point.payload or {}, vector, words, score)


def sparse(words: Sequence[int]) -> models.SparseVector:
    """The words in the form in which they are stored and asked for."""
    return models.SparseVector(indices=list(words), values=[1.0] * len(words))


def condition(where: Where) -> models.Filter | None:
    """The filter for `where`; None if it lets everything through."""
    must: list[models.Condition] = []
    if where.since or where.until:
        bounds = models.DatetimeRange(gte=where.since, lte=where.until)
        must.append(models.FieldCondition(key="timestamp", range=bounds))
    for name, values in (("tags", where.tags), ("id", where.ids)):
        if values:
            must.append(any_of(name, values))
    if where.replaced_by:
        must.append(any_of("replaced_by", list(map(str, where.replaced_by))))
    not_replaced = models.IsEmptyCondition(is_empty=models.PayloadField(key="replaced_by"))
    if where.replaced:
        must.append(models.Filter(must_not=[not_replaced]))
    if where.pinned:
        must.append(models.FieldCondition(key="pinned", match=models.MatchValue(value=True)))
    if where.expired:
        must.append(_expired(where.expired))
    if where.holding:
        must += [not_replaced, models.Filter(must_not=[_expired(where.holding)])]
    return models.Filter(must=must) if must else None


def _expired(now: datetime) -> models.FieldCondition:
    return models.FieldCondition(key="expires", range=models.DatetimeRange(lte=now))


def any_of(name: str, values: Sequence[str]) -> models.FieldCondition:
    """The condition that the field `name` is, or contains, one of `values`."""
    return models.FieldCondition(key=name, match=models.MatchAny(any=list(values)))


def _formula(weight: float, rarity: float) -> models.FormulaQuery:
    """The similarity of `ranking`, from the scores of three prefetches: cosines of the nearest,
    added rarities of the words that a text contains, cosines of those texts.
    """
    nearest, contained, cosine = (f"$score[{i}]" for i in range(3))
    # The larger of the two is half the sum of them and their distance; Max is newer than 1.19.
    distance = models.AbsExpression(
        abs=models.SumExpression(sum=[nearest, models.NegExpression(neg=cosine)])
    )
    larger = models.MultExpression(
        mult=[0.5, models.SumExpression(sum=[nearest, cosine, distance])]
    )
    overlap = models.MultExpression(mult=[weight / rarity**2, contained, contained])
    total = models.SumExpression(sum=[larger, overlap])
    no_cosine = NO_COSINE * (1 + weight)  # whatever the words add
    return models.FormulaQuery(
        formula=models.MultExpression(mult=[1 / (1 + weight), total]),
        defaults={nearest: no_cosine, contained: 0.0, cosine: no_cosine},
    )
