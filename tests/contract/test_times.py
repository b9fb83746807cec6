"""The times that a question names, on Friday 2026-11-20, and memories that expire."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from conftest import Clock
from memory_semantic import MemoryStorage
from memory_semantic.times import moment, named

NOW = datetime(2026, 11, 20, 20, tzinfo=UTC)
TABLE = Path(__file__).with_name("times.txt").read_text().splitlines()
ROWS = [line.split(maxsplit=2) for line in TABLE if line and not line.startswith("#")]


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("first", "last", "question"), ROWS)
def test_the_time_in_the_past_that_a_question_names(first: str, last: str, question: str) -> None:
    span = named(question, NOW)
    times = span and (f"{span.since:%F %T}", f"{span.until:%F %T}")
    assert times == (None if first == "-" else (f"{first} 00:00:00", f"{last} 23:59:59"))


def test_a_date_is_the_whole_day_by_the_clock_it_is_said_at() -> None:
    east = timezone(timedelta(hours=9))
    assert moment("2026-03-05", east) == datetime(2026, 3, 4, 15, tzinfo=UTC)
    end = moment("2026-03-05", UTC, end=True)
    assert end == datetime(2026, 3, 5, 23, 59, 59, 999999, tzinfo=UTC)
    assert moment(" 2026-03-05T09:00 ", UTC, end=True) == datetime(2026, 3, 5, 9, tzinfo=UTC)
    os.environ["TZ"] = "Asia/Seoul"
    time.tzset()
    span = named("yesterday", NOW)  # there, it is Saturday already
    assert span and span.since == datetime(2026, 11, 19, 15, tzinfo=UTC)


async def test_a_memory_of_that_time_comes_first_and_no_other_is_left_out(
    storage: MemoryStorage, clock: Clock
) -> None:
    for days, text in (
        (9, "What the payments team chose: the retry queue."),
        (40, "The payments team took the nightly batch."),
        (400, "What the payments team chose: the first queue."),
    ):
        clock.now = NOW - timedelta(days=days)
        await storage.store(text)
    clock.now = NOW
    asked = "what did the payments team choose"
    for when, said in (("last month", "nightly"), ("last week", "retry")):
        first, *others = await storage.search(f"{asked} {when}")
        assert said in first.content and first.score == pytest.approx(1.6 * first.similarity)
        assert len(others) == 2 and all(each.score == each.similarity for each in others)
        assert any(each.similarity > first.similarity for each in others)
        assert await storage.search(f"{asked} {when}", limit=1) == [first]
    [earlier] = await storage.search(asked, since="2026-10-01", until="2026-10-31")
    assert "nightly" in earlier.content
    assert len(await storage.search(asked, since="2026-11-11", until="2026-11-11")) == 1
