"""The times that a question names, on Friday 2026-11-20, and memories that expire."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from memory_semantic import MemoryStorage
from memory_semantic.times import moment, named

NOW = datetime(2026, 11, 20, 20, tzinfo=UTC)
BEGINNING = "1970-01-02"
NAMED = [
    ("what changed in the auth service today", "2026-11-20", "2026-11-20"),
    ("What did we decide about the retry policy yesterday?", "2026-11-19", "2026-11-19"),
    ("Show me everything noted the day before yesterday.", "2026-11-18", "2026-11-18"),
    ("Who touched the Terraform modules three days ago?", "2026-11-17", "2026-11-17"),
    ("which queue did we pick 30 days ago", "2026-10-21", "2026-10-21"),
    ("What did Lena say about caching this week?", "2026-11-16", "2026-11-20"),
    ("Summarise last week's decisions on the public API.", "2026-11-09", "2026-11-15"),
    ("what broke a week ago", "2026-11-09", "2026-11-15"),
    ("What went on with the payments team this month?", "2026-11-01", "2026-11-20"),
    ("what were last month's biggest outages?", "2026-10-01", "2026-10-31"),
    ("What did we change recently?", "2026-11-13", "2026-11-20"),
    ("what keeps us busy these days?", "2026-11-13", "2026-11-20"),
    ("What was said over the last few days?", "2026-11-13", "2026-11-20"),
    ("What broke in the last week?", "2026-11-13", "2026-11-20"),
    ("the vendor of December, 2023", "2023-12-01", "2023-12-31"),
    ("what did we drop eleven, no, 11 months ago", "2025-12-01", "2025-12-31"),
    ("Which goals have we set ourselves this year?", "2026-01-01", "2026-11-20"),
    ("How did we handle certificate renewal last year?", "2025-01-01", "2025-12-31"),
    ("who led the team ten years ago", "2016-01-01", "2016-12-31"),
    ("What did we agree on in March?", "2026-03-01", "2026-03-31"),
    ("What broke in February?", "2026-02-01", "2026-02-28"),
    ("Why did we drop Redis back in December?", "2025-12-01", "2025-12-31"),
    ("Who joined the team last August?", "2026-08-01", "2026-08-31"),
    ("What did we note in November about quotas?", "2026-11-01", "2026-11-20"),
    ("What limits may tenants have had in May?", "2026-05-01", "2026-05-31"),
    ("what did we pick: MAY 2025 notes", "2025-05-01", "2025-05-31"),
    ("on Monday someone mentioned a memory leak; where?", "2026-11-16", "2026-11-16"),
    ("What did Priya report on Friday?", "2026-11-13", "2026-11-13"),
    ("Remind me of the blockers from Tuesday.", "2026-11-17", "2026-11-17"),
    ("Which alert fired last Thursday?", "2026-11-19", "2026-11-19"),
    ("architecture decisions from 2023", "2023-01-01", "2023-12-31"),
    ("Which experiments failed during 2025?", "2025-01-01", "2025-12-31"),
    ("Find what was recorded on 2026-10-03.", "2026-10-03", "2026-10-03"),
    ("2026-11-02: what was the root cause?", "2026-11-02", "2026-11-02"),
    ("2026-13-45 or yesterday", "2026-11-19", "2026-11-19"),
    ("What has changed in the schema since Monday?", "2026-11-16", "2026-11-20"),
    ("How many certificates have expired since 2024?", "2024-01-01", "2026-11-20"),
    ("What's new in the deploy docs after last week?", "2026-11-09", "2026-11-20"),
    ("Which naming conventions did we have before March?", BEGINNING, "2026-02-28"),
    ("What did we use for logging before 2025?", BEGINNING, "2024-12-31"),
    ("Who owned the gateway until yesterday?", BEGINNING, "2026-11-19"),
]
NAMES_NONE = """\
What may a plugin write to disk?
Do the nodes march in lockstep during a rolling restart?
Why does the second replica lag behind?
What do we usually do on the last day of a sprint?
This may break.
What did this march of progress cost us?
What was said on May 5?
Is version 2025 of the SDK supported?
Is it in 2025.1 or in 2025/26?
Which service listens on port 2025?
Does our parser follow RFC 2024?
What is planned for next week?
What is new in 2027, and since 2027-01-01?
Who is on call tomorrow?
Do we deploy on Mondays?
Which reports go out every week?
Do partners get a week's notice of a breaking change?
How do I request 3 days of leave?
How is the month view rendered in the calendar widget?
Is April still the owner of the billing repo?
Why did we raise the timeout from 2000 ms?
What type is the last_week column?
Is it a 2026-11-02-beta?
What happened 9999 years ago, or before 0001-01-01?
"""


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("question", "first", "last"), NAMED)
def test_a_time_that_a_question_names(question: str, first: str, last: str) -> None:
    span = named(question, NOW)
    assert span and (f"{span.since:%F %T}", f"{span.until:%F %T}") == (
        f"{first} 00:00:00",
        f"{last} 23:59:59",
    )


@pytest.mark.parametrize("question", NAMES_NONE.splitlines())
def test_what_names_no_time_in_the_past(question: str) -> None:
    assert named(question, NOW) is None


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


async def test_a_memory_of_that_time_comes_first_and_no_other_is_left_out(tmp_path: Path) -> None:
    clock = [NOW - timedelta(days=9)]
    storage = MemoryStorage(
        "sam", {"storage_root": str(tmp_path), "embedding_model": "local"}, clock=lambda: clock[0]
    )
    await storage.store("The payments team chose the retry queue.")
    clock[0] = NOW - timedelta(days=40)
    await storage.store("The payments team chose the nightly batch.")
    clock[0] = NOW
    asked = "what did the payments team choose"
    for when, said in (("last month", "nightly"), ("last week", "retry")):
        first, other = await storage.search(f"{asked} {when}")
        assert said in first.content
    [earlier] = await storage.search(asked, until="2026-10-31")
    assert earlier.content == other.content
    assert len(await storage.search(asked, since="2026-11-11", until="2026-11-11")) == 1
