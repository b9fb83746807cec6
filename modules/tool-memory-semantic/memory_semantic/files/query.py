"""The questions of `store` in the engine's own terms."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import qdrant_edge as edge

from ..memory import timestamp_text
from ..ranking import CANDIDATES, NO_COSINE
from ..store import Question, Where

# The name of the sparse vector that holds a text's words; the dense one has none.
WORDS = "words"


def condition(where: Where) -> edge.Filter | None:
    """The filter for `where`; None if it lets everything through."""
    must: list[Any] = []
    if where.since or where.until:
        bounds = edge.RangeDateTime(
            gte=timestamp_text(where.since) if where.since else None,
            lte=timestamp_text(where.until) if where.until else None,
        )
        must.append(edge.FieldCondition("timestamp", range=bounds))
    for name, values in (("tags", where.tags), ("id", where.ids)):
        if values:
            must.append(edge.FieldCondition(name, match=edge.MatchAny(list(values))))
    if where.replaced_by:
        keys = edge.MatchAny(list(map(str, where.replaced_by)))
        must.append(edge.FieldCondition("replaced_by", match=keys))
    if where.replaced:
        must.append(edge.Filter(must_not=[edge.IsEmptyCondition("replaced_by")]))
    if where.pinned:
        must.append(edge.Filter(must_not=[edge.IsEmptyCondition("pinned")]))
    if where.expired:
        must.append(_expired(where.expired))
    if where.holding:
        must.append(edge.IsEmptyCondition("replaced_by"))
        must.append(edge.Filter(must_not=[_expired(where.holding)]))
    return edge.Filter(must=must) if must else None


def _expired(now: datetime) -> edge.FieldCondition:
    return edge.FieldCondition("expires", range=edge.RangeDateTime(lte=timestamp_text(now)))


def similarity(question: Question, where: Where, limit: int) -> edge.QueryRequest:
    """The request for the `limit` memories most similar to `question`, as `ranking` defines it."""
    by_meaning = edge.Query.Nearest(list(question.vector))
    filter = condition(where)
    if not (question.words and question.rarity):
        return edge.QueryRequest(limit, query=by_meaning, filter=filter, with_payload=True)
    by_words = edge.Prefetch(CANDIDATES, query=containing(question.words), filter=filter)
    return edge.QueryRequest(
        limit,
        prefetches=[
            edge.Prefetch(CANDIDATES, query=by_meaning, filter=filter),
            by_words,
            edge.Prefetch(CANDIDATES, query=by_meaning, prefetches=[by_words]),
        ],
        query=_formula(question),
        with_payload=True,
    )


def containing(words: Sequence[int]) -> edge.Query:
    """A query that scores each text by the rarities of the `words` it has, added up."""
    return edge.Query.Nearest(sparse(words), using=WORDS)


def sparse(words: Sequence[int]) -> edge.SparseVector:
    """The sparse vector that says which words a text has."""
    return edge.SparseVector(list(words), [1.0] * len(words))


def _formula(question: Question) -> edge.Formula:
    # The scores of three prefetches: cosines of the nearest, added rarities of the words that a
    # text contains, cosines of those texts.
    nearest, contained, cosine = (edge.Expression.Variable(f"$score[{i}]") for i in range(3))
    share = edge.Expression.Mult([edge.Expression.Constant(1 / question.rarity), contained])
    overlap = edge.Expression.Mult([edge.Expression.Constant(question.weight), share, share])
    total = edge.Expression.Sum([edge.Expression.Max([nearest, cosine]), overlap])
    nothing = NO_COSINE * (1 + question.weight)
    return edge.Formula(
        edge.Expression.Mult([edge.Expression.Constant(1 / (1 + question.weight)), total]),
        {"$score[0]": nothing, "$score[1]": 0.0, "$score[2]": nothing},
    )
