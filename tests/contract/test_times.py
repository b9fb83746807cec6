"""The times that a question names, on Friday 2026-11-20, and memories that expire."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from memory_semantic import InputError, MemoryStorage
from memory_semantic.times import moment, named

NOW = datetime(2026, 11, 20, 20, tzinfo=UTC)
SPANS = {
    "2026-11-20 2026-11-20": "what came up today|was kam heute auf|오늘 뭐 했지|今日は何をした",
    "2026-11-19 2026-11-19": "what did I note yesterday?|was habe ich gestern notiert"
    "|qu'est-ce qu'on a décidé hier soir|¿qué decidimos ayer?|어제 뭐라고 했지|昨日の決定",
    "2026-11-18 2026-11-18": "the day before yesterday|vorgestern|avant-hier"
    "|anteayer|그저께|一昨日",
    "2026-11-17 2026-11-17": "what broke three days ago|vor drei Tagen"
    "|il y a 3 jours|hace tres días"
    "|3일 전에 뭐가|3日前に",
    "2026-11-16 2026-11-20": "what did we do this week|diese Woche|cette semaine"
    "|esta semana|이번 주|今週",
    "2026-11-09 2026-11-15": "what did we decide last week|letzte Woche|la semaine dernière"
    "|la semana pasada|지난주에|先週の",
    "2026-11-02 2026-11-08": "two weeks ago|vor zwei Wochen|il y a deux semaines|hace dos semanas"
    "|2주 전|二週間前",
    "2026-11-13 2026-11-20": "in the past week|what changed recently|in den letzten Tagen|récemment"
    "|últimamente|최근 결정|最近の変更|over the last seven days",
    "2026-10-01 2026-10-31": "last month|letzten Monat|le mois dernier|el mes pasado|지난달|先月"
    "|in October|im Oktober|en octobre|en octubre|10월에|10月に",
    "2026-09-20 2026-11-20": "in the last two months|in den letzten zwei Monaten|지난 2개월",
    "2025-01-01 2025-12-31": "what did we choose in 2025|last year|im Jahr 2025"
    "|en 2025|작년|2025年",
    "2025-03-01 2025-03-31": "in March 2025|im März 2025|en mars 2025"
    "|en marzo de 2025|2025년 3월|2025年3月",
    "2026-11-16 2026-11-16": "what happened on Monday|am Montag"
    "|lundi dernier|el lunes pasado|월요일에",
    "2026-11-09 2026-11-20 ": "since last week|seit letzter Woche"
    "|depuis la semaine dernière|지난주부터",
    "2026-03-01 2026-11-20": "since March|seit März|depuis mars|desde marzo|3월부터|3月以降",
    "1970-01-02 2026-02-28": "before March|avant mars|antes de marzo|3월 이전",
    "2026-03-05 2026-03-05": "what happened on 2026-03-05",
    "": "what did we decide hier im Team nicht|may I merge it|march on|which port is 2025|RFC 2025"
    "|version 2025.1|next week|tomorrow|on Mondays|every day|the second step|a 3 days' notice"
    "|montags|매주 월요일|毎週月曜",
}


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("days", SPANS)
def test_a_time_that_a_question_names(days: str) -> None:
    for question in SPANS[days].split("|"):
        span = named(question, NOW)
        found = f"{span.since:%Y-%m-%d} {span.until:%Y-%m-%d}" if span else ""
        assert found == days.strip(), question


def test_a_date_is_the_whole_day_by_the_clock_it_is_said_at() -> None:
    east = timezone(timedelta(hours=9))
    assert moment("2026-03-05", east) == datetime(2026, 3, 4, 15, tzinfo=UTC)
    end = moment("2026-03-05", UTC, end=True)
    assert end == datetime(2026, 3, 5, 23, 59, 59, 999999, tzinfo=UTC)
    assert moment("2026-03-05T09:00", UTC, end=True) == datetime(2026, 3, 5, 9, tzinfo=UTC)
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
    first, other = await storage.search(f"{asked} last month")
    assert "nightly" in first.content and "retry" in other.content
    first, other = await storage.search(f"{asked} last week")
    assert "retry" in first.content
    assert [m.content for m in await storage.search(asked, until="2026-10-31")] == [other.content]
    assert len(await storage.search(asked, since="2026-11-11", until="2026-11-11")) == 1


async def test_what_has_expired_is_found_no_more_but_kept(tmp_path: Path) -> None:
    clock = [NOW]
    storage = MemoryStorage(
        "sam", {"storage_root": str(tmp_path), "embedding_model": "local"}, clock=lambda: clock[0]
    )
    [stored] = await storage.upsert(["The staging server is down."], expires="2026-11-21")
    await storage.store("The staging server is in Oslo.")
    assert len(await storage.search("staging server")) == 2
    clock[0] += timedelta(days=2)
    assert [m.content for m in await storage.search("staging server")] == [
        "The staging server is in Oslo."
    ]
    assert len(await storage.get_recent(holding=True)) == 1
    [expired] = await storage.get_recent(expired=True)
    assert expired.id == stored.id and await storage.get(stored.id)
    await storage.store("The staging server is down.")
    assert len(await storage.search("staging server")) == 2
    with pytest.raises(InputError, match="expires must be a time in the future"):
        await storage.upsert(["late"], expires="2026-11-20")
