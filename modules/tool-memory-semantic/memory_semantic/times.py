"""The times that people name, in a filter and in a question.

A question may name a time in English: a day, week, month or year counted from today, a weekday, a
month by its name, a year after a preposition; and a date. "Recently" is a week. Weeks begin on
Monday. All of it is in the time zone of this machine.
"""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple


class Span(NamedTuple):
    """The time from `since` to `until`, both inclusive and in UTC."""

    since: datetime
    until: datetime

    def has(self, moment: datetime) -> bool:
        """Whether `moment` is in it."""
        return self.since <= moment <= self.until


def moment(text: str, zone: tzinfo | None, *, end: bool = False) -> datetime:
    """The time in UTC that ISO 8601 `text` names, by the clock of `zone` (None: of this machine)
    unless it names one: of a bare date the beginning, or with `end` the end. Raises ValueError or
    OverflowError for anything else.
    """
    text = text.strip()
    try:
        found = datetime.combine(date.fromisoformat(text), time.max if end else time.min)
    except ValueError:
        found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone) if zone else found.astimezone()
    return found.astimezone(UTC)


def named(question: str, now: datetime) -> Span | None:
    """The time in the past that `question` names first; None if it names none."""
    for match in _TIME.finditer(question.casefold()):
        with suppress(ValueError, OverflowError):  # the 13th month, 9999 years ago
            today = now.astimezone().date()
            first, last = _days(match, today)
            if match["word"] in ("since", "after"):
                last = today
            elif match["word"] == "before":
                first, last = _BEGINNING, first - timedelta(1)
            elif match["word"] == "until":
                first = _BEGINNING
            last = min(last, today)
            if _BEGINNING <= first <= last:
                since = datetime.combine(first, time.min).astimezone()
                until = datetime.combine(last, time.max).astimezone()
                return Span(since.astimezone(UTC), until.astimezone(UTC))
    return None


_BEGINNING = date(1970, 1, 2)  # nothing was stored before
_DAYS = ["today", "yesterday", "day before yesterday"]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august"]
_MONTHS += ["september", "october", "november", "december"]
_NUMBERS = ["a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
# "2025.1" and "2000 ms" are no years, and "the last week" is the last seven days.
_YEAR = r"(19|20)\d\d(?![-.:/,]?\w| ?(ms|px|[kmg]i?b|rows|tokens|users)\b)"
_TIME = re.compile(
    r"(?<![\w-])((?P<word>since|after|before|until|on|in|from|of|during) )?"
    r"((?P<recently>recently|lately|these days|(last|past) (few )?days|(the last|past) week)"
    rf"|(the )?(?P<day>{'|'.join(_DAYS)})|(?P<date>\d{{4}}-\d\d-\d\d)(?!-)"
    rf"|(?P<number>\d{{1,3}}|{'|'.join(_NUMBERS)}) (?P<ago>day|week|month|year)s? ago"
    rf"|(?<!the )(?P<counted>this|last) (?P<unit>week|month|year)|(?P<year>{_YEAR})"
    rf"|(?!this ma[yr])(?P<which>(this|last) )?((?P<weekday>{'|'.join(_WEEKDAYS)})"
    rf"|(?P<month>{'|'.join(_MONTHS)})(,? (?P<of>{_YEAR})|(?! \d))))(?!\w)"
)


def _days(match: re.Match[str], today: date) -> tuple[date, date]:
    """The first and the last day that `match` names. Raises ValueError or OverflowError if it names
    none: a weekday, "may" and 2025 are a time only behind a preposition or "last".
    """
    if match["date"]:
        return _period("day", (today - date.fromisoformat(match["date"])).days, today)
    if match["recently"]:
        return today - timedelta(7), today  # what people mean by it
    if match["day"]:
        return _period("day", _DAYS.index(match["day"]), today)
    if number := match["number"]:
        back = int(number) if number.isdecimal() else max(1, _NUMBERS.index(number))
        return _period(match["ago"], back, today)
    if match["unit"]:
        return _period(match["unit"], ["this", "last"].index(match["counted"]), today)
    if match["of"]:
        months = 12 * (today.year - int(match["of"])) + today.month
        return _period("month", months - 1 - _MONTHS.index(match["month"]), today)
    if not (match["word"] or match["which"]):
        raise ValueError
    if match["month"]:
        return _period("month", (today.month - 1 - _MONTHS.index(match["month"])) % 12, today)
    if match["weekday"]:
        back = today.weekday() - _WEEKDAYS.index(match["weekday"])
        return _period("day", back % 7 or (0 if match["which"] == "this " else 7), today)
    return _period("year", today.year - int(match["year"]), today)


def _period(unit: str, back: int, today: date) -> tuple[date, date]:
    """The calendar's day, week, month or year so many before the present one."""
    if unit == "day":
        first = last = today - timedelta(back)
    elif unit == "week":
        first = today - timedelta(today.weekday() + 7 * back)
        last = first + timedelta(6)
    elif unit == "month":
        years, month = divmod(today.year * 12 + today.month - 1 - back, 12)
        first = date(years, month + 1, 1)
        last = (first + timedelta(31)).replace(day=1) - timedelta(1)
    else:
        first, last = date(today.year - back, 1, 1), date(today.year - back, 12, 31)
    return first, last
