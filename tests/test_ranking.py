"""The order of results is exactly V1's formula: max(cosine, 0) x 1.2 when younger than 7 days."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from conftest import Clock, MakeStorage
from memory_semantic import EmbeddingGenerator, MemoryStorage
from memory_semantic.ranking import score

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
WEEK = timedelta(days=7)
MOMENT = timedelta(microseconds=1)

# float16 storage moves a cosine of 256 dimensions by some 1e-5: scores closer than this may change
# places.
BAND = 1e-4


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (timedelta(0), 0.6),
        (WEEK - MOMENT, 0.6),
        (WEEK, 0.5),
        (WEEK + MOMENT, 0.5),
        (timedelta(days=-400), 0.6),  # from the future: the clock was set back
    ],
)
def test_younger_than_seven_days_is_a_fifth_more(age: timedelta, expected: float) -> None:
    assert score(0.5, NOW - age, NOW) == pytest.approx(expected)


def test_opposites_score_nothing_and_nothing_is_more_than_identical() -> None:
    assert score(-0.7, NOW, NOW) == 0
    assert score(1.00002, NOW, NOW) == 1.2
    assert score(1.00002, NOW - WEEK, NOW) == 1.0


class Given(EmbeddingGenerator):
    """A model with vectors that the test chooses."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        super().__init__("given")
        self._vectors = vectors

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


async def ages(storage: MemoryStorage, clock: Clock, by_age: dict[str, timedelta]) -> None:
    now = clock.now
    for text, age in by_age.items():
        clock.now = now - age
        await storage.store(text)
    clock.now = now


@pytest.mark.parametrize("seed", range(6))
async def test_the_best_are_those_that_a_full_scan_finds(
    root: Path, clock: Clock, seed: int
) -> None:
    source = random.Random(seed)

    def vector() -> list[float]:
        return [source.gauss(0, 1) for _ in range(256)]

    texts = [f"memory {i}" for i in range(source.choice([1, 3, 40, 120]))]
    vectors = {text: vector() for text in [*texts, "question"]}
    moments = [timedelta(days=source.uniform(-1, 14)) for _ in range(5)]
    stored_at = {text: clock.now - source.choice(moments) for text in texts}
    storage = MemoryStorage(
        "sam", {"storage_root": str(root)}, embeddings=Given(vectors), clock=clock
    )
    now = clock.now
    for moment in sorted(set(stored_at.values())):
        clock.now = moment
        await storage.store_many([text for text in texts if stored_at[text] == moment])
    clock.now = now

    for limit in (1, 2, 5, 20):
        for since in (None, now - timedelta(days=3), now - timedelta(days=10)):
            scan = {
                text: score(cosine(vectors[text], vectors["question"]), stored_at[text], now)
                for text in texts
                if since is None or stored_at[text] >= since
            }
            best = sorted(scan.values(), reverse=True)[:limit]
            found = await storage.search("question", limit=limit, since=since)
            assert len(found) == len(best)
            for memory, expected in zip(found, best, strict=True):
                assert memory.score is not None
                assert memory.score == pytest.approx(scan[memory.content], abs=BAND)
                assert memory.score == pytest.approx(expected, abs=BAND)
            keys = [(-(memory.score or 0), -memory.timestamp.timestamp()) for memory in found]
            assert keys == sorted(keys)


async def test_a_recent_memory_far_down_by_cosine_is_not_missed(root: Path, clock: Clock) -> None:
    old = {f"old {i}": [1.0, 0.70 - i * 1e-3] for i in range(30)}
    vectors = {**old, "recent": [1.0, 0.95], "question": [1.0, 0.0]}
    storage = MemoryStorage(
        "sam", {"storage_root": str(root)}, embeddings=Given(vectors), clock=clock
    )
    await ages(storage, clock, {"recent": timedelta(0), **dict.fromkeys(old, 2 * WEEK)})
    assert cosine(vectors["recent"], [1, 0]) < min(cosine(v, [1, 0]) for v in old.values())
    assert [m.content for m in await storage.search("question", limit=2)][0] == "recent"


async def test_of_equal_scores_the_newer_comes_first(root: Path, clock: Clock) -> None:
    names = [f"opposite {i}" for i in range(12)]
    vectors = {name: [-1.0, i / 10] for i, name in enumerate(names)}
    vectors |= {"alike": [1.0, 0.1], "question": [1.0, 0.0]}
    storage = MemoryStorage(
        "sam", {"storage_root": str(root)}, embeddings=Given(vectors), clock=clock
    )
    await ages(
        storage,
        clock,
        {"alike": 3 * WEEK, **{name: timedelta(days=i) for i, name in enumerate(names)}},
    )
    found = await storage.search("question", limit=6)
    assert [memory.content for memory in found] == ["alike", *names[:5]]
    assert [memory.score for memory in found[1:]] == [0.0] * 5


async def test_the_boost_ends_when_seven_days_are_over(
    make_storage: MakeStorage, clock: Clock
) -> None:
    storage = make_storage()
    await storage.store("We chose PostgreSQL.")
    clock.advance(days=7, microseconds=-1)
    [young] = await storage.search("We chose PostgreSQL.")
    clock.advance(microseconds=1)
    [old] = await storage.search("We chose PostgreSQL.")
    assert young.score == pytest.approx(1.2, abs=1e-4)
    assert old.score == pytest.approx(1.0, abs=1e-4)
