"""A store in a dictionary, which does what every store promises in the simplest way there is: all
memories are compared with a question, by the formula of `ranking`. What others do is held to it.
"""

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from memory_semantic.backend import Backend, Finding, Progress, Repair, ShowProgress, untold
from memory_semantic.embeddings.generator import EmbeddingGenerator
from memory_semantic.errors import UNCHANGED, ReplacedStoreError, StorageError
from memory_semantic.limits import ALL, HERE
from memory_semantic.memory import Memory, timestamp_text
from memory_semantic.merging import merge_all
from memory_semantic.ranking import indexed
from memory_semantic.settings import StorageConfig
from memory_semantic.store import (
    EVERYWHERE,
    Merge,
    Question,
    Record,
    Stored,
    StoreInfo,
    Where,
    memory_of,
)

T = TypeVar("T")


class DictBackend(Backend):
    """The `Backend` of one agent, for one caller at a time."""

    url = HERE  # nowhere else, as far as a session is concerned
    where = "a dictionary"
    forgotten = "Gone from the dictionary."

    def __init__(self, agent: str = "sam", store: "DictStore | None" = None) -> None:
        self.agent = agent
        self.store = store

    async def run(
        self,
        work: Callable[["DictStore"], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        if self.store is None and create:
            self.store = DictStore(create)
        if self.store is None:
            return None
        await self.info()
        if (asked := create or expect) and asked.model != self.store.info.model:
            raise ReplacedStoreError("It has another model.")
        return work(self.store)

    async def close(self) -> None:
        pass

    async def info(self) -> StoreInfo | None:
        if self.store and self.store.info.agent != self.agent:
            raise StorageError(f"It belongs to {self.store.info.agent!r}.", UNCHANGED)
        return self.store and self.store.info

    def agents(self) -> list[str]:
        return [self.agent] if self.store else []

    def size(self) -> None:
        pass

    async def exists(self) -> bool:
        return self.store is not None

    async def findings(
        self, config: StorageConfig, progress: ShowProgress
    ) -> AsyncIterator[Finding]:
        yield Finding("ok", "store", "in a dictionary")

    async def repair(self, config: StorageConfig) -> Repair:
        raise StorageError("Nothing can happen to it.")

    async def reembed(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        assert self.store
        texts = [memory.content for memory in self.store.newest(ALL)]
        vectors = dict(zip(texts, await generator.generate_batch(texts), strict=True))
        self.store.records = {
            key: record._replace(vector=vectors[record.payload["content"]])
            for key, record in self.store.records.items()
        }
        self.store.present = info
        return len(texts)


class DictStore:
    """The `Store` in it."""

    def __init__(self, info: StoreInfo) -> None:
        self.present = info
        self.records: dict[UUID, Record] = {}

    @property
    def info(self) -> StoreInfo:
        return self.present.model_copy(update={"memories": len(self.records)})

    def count(self, where: Where = EVERYWHERE) -> int:
        return len(self._those(where))

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        return {key: self._memory(self.records[key]) for key in keys if key in self.records}

    def update(self, memories: Sequence[Memory], merge: Merge) -> list[Stored]:
        known = self.get(memory.key for memory in memories)
        changed, stored = merge_all(memories, known, self.info, merge)
        for memory in changed:
            words = indexed(memory.content) if self.present.words else None
            payload = memory.dict_for_storage()
            self.records[memory.key] = Record(memory.key, payload, memory.embedding, words)
        return stored

    def nearest(self, asked: Sequence[tuple[Question, Where]], limit: int) -> list[list[Memory]]:
        answers = []
        for question, where in asked:
            scored = [
                each._replace(score=self._similarity(each, question)) for each in self._those(where)
            ]
            scored.sort(key=lambda record: record.score or 0, reverse=True)
            answers.append([self._without_vector(record) for record in scored[:limit]])
        return answers

    def newest(self, limit: int, where: Where = EVERYWHERE) -> list[Memory]:
        records = self._those(where)
        records.sort(key=lambda record: record.payload["timestamp"], reverse=True)
        return [self._without_vector(record) for record in records[:limit]]

    def rarities(self, words: Sequence[int]) -> list[float]:
        texts = [set(indexed(record.payload["content"])) for record in self.records.values()]
        with_words = sum(map(bool, texts))  # only these count for a word that a memory has
        having = [sum(word in text for text in texts) for word in words]
        among = [with_words if n else len(texts) for n in having]
        return [
            math.log(1 + (of - n + 0.5) / (n + 0.5)) for of, n in zip(among, having, strict=True)
        ]

    def scan(self) -> Iterator[list[Record]]:
        yield list(self.records.values())

    def second_copy(self) -> None:
        pass

    def delete(self, memories: Sequence[Memory], changed: Sequence[Memory] = ()) -> None:
        for memory in changed:
            payload = memory.dict_for_storage()
            self.records[memory.key] = self.records[memory.key]._replace(payload=payload)
        for memory in memories:
            del self.records[memory.key]

    def _memory(self, record: Record) -> Memory:
        return memory_of(record, self.present.agent)

    def _without_vector(self, record: Record) -> Memory:
        return self._memory(record._replace(vector=[]))

    def _those(self, where: Where) -> list[Record]:
        return [record for record in self.records.values() if _is_in(record.payload, where)]

    def _similarity(self, record: Record, question: Question) -> float:
        a, b = np.array(record.vector), np.array(question.vector)
        cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        if not (question.words and question.rarity):
            return cosine
        shared = sorted(set(indexed(record.payload["content"])) & set(question.words))
        overlap = sum(self.rarities(shared)) / question.rarity
        return (cosine + question.weight * overlap**2) / (1 + question.weight)


def _is_in(payload: dict[str, Any], where: Where) -> bool:
    return (
        (not where.since or payload["timestamp"] >= timestamp_text(where.since))
        and (not where.until or payload["timestamp"] <= timestamp_text(where.until))
        and (not where.tags or not set(where.tags).isdisjoint(payload["tags"]))
        and (not where.ids or payload["id"] in where.ids)
        and (not where.expired or _expired(payload, where.expired))
        and not (where.holding and _expired(payload, where.holding))
        and (not where.pinned or "pinned" in payload)
        and (not where.replaced or "replaced_by" in payload)
        and not (where.holding and "replaced_by" in payload)
        and (
            not where.replaced_by
            or payload.get("replaced_by") in [str(key) for key in where.replaced_by]
        )
    )


def _expired(payload: dict[str, Any], now: datetime) -> bool:
    return "expires" in payload and payload["expires"] <= timestamp_text(now)
