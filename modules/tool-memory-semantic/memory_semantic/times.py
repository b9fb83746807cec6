"""The times that people name, in a filter and in a question.

A question may name a time in English, German, French, Spanish, Korean or Japanese: a day, week,
month or year counted from today, a weekday, a month by its name, a year after a preposition. Weeks
begin on Monday. All of it is in the time zone of this machine.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import NamedTuple
from unicodedata import normalize

RECENTLY_DAYS = 7  # what "recently" is taken for


class Span(NamedTuple):
    """The time from `since` to `until`, both inclusive and in UTC. `sure` if the words that name it
    hardly mean anything else.
    """

    since: datetime
    until: datetime
    sure: bool

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
    try:
        today = now.astimezone().date()
    except (ValueError, OverflowError):  # within hours of the first or the last moment
        return None
    text = normalize("NFKC", question).casefold()
    found = list(_found(text, today))
    if not found:
        return None
    _, first, last, sure = min(found)
    since = datetime.combine(first, time.min).astimezone()
    until = datetime.combine(min(last, today), time.max).astimezone()
    return Span(since.astimezone(UTC), until.astimezone(UTC), sure)


_BEGINNING = date(1970, 1, 2)  # nothing was stored before
_Days = tuple[date, date]  # the first and the last
_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date], _Days], bool]


def _found(text: str, today: date) -> Iterator[tuple[int, date, date, bool]]:
    rules = (_latin() if _may_name_one(text) else ()), (_cjk() if _CJK.search(text) else ())
    for pattern, days, sure in (*rules[0], *rules[1]):
        for match in pattern.finditer(text):
            try:
                first, last = days(match, today)
            except (ValueError, OverflowError):  # the 13th month, 9999 years ago
                continue
            before, after = text[: match.start("time")], text[match.end("time") :]
            if re.search(_SINCE, before) or re.match(_SINCE_AFTER, after):
                last = today
            elif re.search(_BEFORE, before) or re.match(_BEFORE_AFTER, after):
                first, last = _BEGINNING, first - timedelta(1)
            elif re.search(_UNTIL, before) or re.match(_UNTIL_AFTER, after):
                first = _BEGINNING
            if _BEGINNING <= first <= today and first <= last:
                yield match.start("time"), first, last, sure


_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_WORD = re.compile(r"[^\W\d_]+")
_ARTICLE = r"( (the|le|el|la|los|dem|der|de[nm]|zum|du))?"
# What stands beside a time and makes it a beginning or an end: texts, which `re` compiles when they
# are needed, and keeps.
_SINCE = (
    rf"\b(since|after|seit|ab|nach|depuis|à partir d[eu]|desde|a partir de){_ARTICLE}"
    r"( (start|beginning|anfang|beginn|début|inicio|principios)( of| de| du)?)? $"
)
_BEFORE = rf"\b(before|vor|avant|antes de){_ARTICLE} $"
_UNTIL = rf"\b(until|till?|up to|bis|hasta|jusqu'(en|à|au)){_ARTICLE}( end of| ende| fin de)? $"
_SINCE_AFTER = "부터|이후|から(?!の)|以来|以降"
_BEFORE_AFTER = " ?이전| ?전에|以前|より前|の前"
_UNTIL_AFTER = "까지|まで"


def _numbers(rows: str) -> dict[str, int]:
    return {word: number for number, row in enumerate(rows.split(";"), 1) for word in row.split()}


_NUMBERS = _numbers(
    "a an one ein eine einem einer un une una 한 하루 一; couple two zwei deux dos 두 이틀 二;"
    "few some paar einigen quelques unos unas three drei trois tres 세 사흘 몇 三 数;"
    "four vier quatre cuatro 네 나흘 四; five fünf cinq cinco 다섯 五; six sechs seis 여섯 六;"
    "seven sieben sept siete 일곱 七; eight acht huit ocho 여덟 八; nine neun neuf nueve 아홉 九;"
    "ten zehn dix diez 열 十"
)
_UNITS = {
    "day": "day tag jour día 일 日",
    "week": "week woche semaine semana 주 週",
    "month": "month monat mois mes 개월 달 か月 ヶ月 カ月 ヵ月 ケ月 箇月",
    "year": "year jahr an año 년 年",
}
_UNIT = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_WEEKDAYS = _numbers(
    "monday montag lundi lunes 월 月; tuesday dienstag mardi martes 화 火;"
    "wednesday mittwoch mercredi miércoles 수 水; thursday donnerstag jeudi jueves 목 木;"
    "friday freitag vendredi viernes 금 金; saturday samstag samedi sábado 토 土;"
    "sunday sonntag dimanche domingo 일 日"
)
_MONTHS = _numbers(
    "january jan januar jänner janvier enero; february feb februar février febrero;"
    "march mar märz mars marzo; april apr avril abril; may mai mayo; june jun juni juin junio;"
    "july jul juli juillet julio; august aug août agosto; september sep sept septembre septiembre;"
    "october oct oktober okt octobre octubre; november nov novembre noviembre;"
    "december dec dezember dez décembre diciembre"
)
# Counted from today, by the unit and how many of it ago.
_COUNTED = {
    "day 0": "today|tonight|this (morning|afternoon|evening)|heute|aujourd'hui|hoy",
    "day 1": "yesterday|last night|gestern|ayer|anoche"
    "|(?<=qu')hier|(?<=depuis )hier|(?<=é )hier|hier (soir|matin)",
    "day 2": "(the )?day before yesterday|vorgestern|avant-hier|anteayer|antes de ayer",
    "week 0": "this week|diese[rn]? woche|wochenanfang|cette semaine|esta semana"
    "|(start|beginning) of the week|début de (la )?semaine",
    "week 1": "last week|(letzte|vorige|vergangene)[rn]? woche|semaine (dernière|passée)"
    "|semana pasada",
    "week 2": "week before last|vorletzte[rn]? woche",
    "month 0": "this month|diese[nm]? monats?|ce mois(-ci)?|este mes",
    "month 1": "last month|(letzte|vorige|vergangene)[nm] monats?|mois (dernier|passé)|mes pasado",
    "month 2": "month before last|vorletzte[nm] monat",
    "year 0": "this year|diese[sm]? jahr|cette année|este año",
    "year 1": "last year|(letzte|vorige|vergangene)[snm] jahr|(an|année) (dernier|dernière|passée?)"
    "|año pasado",
    "year 2": "year before last|vorletzte[snm] jahr",
}
_COUNTED_CJK = {
    "day 0": "오늘|今日|きょう|本日|今朝",
    "day 1": "어제|昨日|きのう|昨夜",
    "day 2": "그저께|그제|一昨日|おととい",
    "week 0": "이번 ?주|今週",
    "week 1": "(?<!지)지난 ?주|저번 ?주|(?<!先)先週",
    "week 2": "지지난 ?주|先々週|先先週",
    "month 0": "이번 ?달|今月",
    "month 1": "(?<!지)지난 ?달|저번 ?달|(?<!先)先月",
    "month 2": "지지난 ?달|先々月|先先月",
    "year 0": "올해|금년|今年",
    "year 1": "(?<!재)작년|지난 ?해|昨年|去年",
    "year 2": "재작년|一昨年|おととし",
}
_RECENTLY = (
    "recently|lately|these days|(these |the )?(last|past)( few)? days|kürzlich|neulich"
    "|in letzter zeit|letzten( paar)? tagen?|récemment|dernièrement|derniers (temps|jours)"
    "|ces jours-ci|recientemente|últimamente|últimos días|hace poco"
)
_RECENTLY_CJK = (
    "최근에?(?! ?[\\d한두세])|요즘|요새|근래|지난 며칠|며칠 ?(동안|사이)"
    "|最近(?!\\d)|このごろ|この頃|近頃|(この|ここ)数日"
)


# Without a digit or one of these, Latin letters name no time; a unit may also begin a longer word.
_HINTS = {**_MONTHS, **_WEEKDAYS} | _numbers(
    "an ans today tonight morning afternoon evening night yesterday past recently lately heute"
    " gestern vorgestern kürzlich neulich zeit hui hier temps récemment dernièrement hoy ayer"
    " anteayer anoche recientemente últimamente poco"
)
_UNIT_HINTS = tuple(word for word in _UNIT if word != "an")


def _may_name_one(text: str) -> bool:
    """Whether it is worth to compile the rules for Latin letters, which takes longer than all else
    that a first question does here.
    """
    if any("0" <= letter <= "9" for letter in text):
        return True
    return any(w in _HINTS or w.startswith(_UNIT_HINTS) for w in _WORD.findall(text))


def _either(words: dict[str, int] | dict[str, str], cjk: bool) -> str:
    return "|".join(word for word in words if (word >= "\u3000") == cjk)


@cache
def _latin() -> tuple[_Rule, ...]:
    """The rules for words in Latin letters; compiled at the first question."""
    n, u = _either(_NUMBERS, False), _either(_UNIT, False)
    many = rf"(?P<n>\d{{1,3}}|{n})( of)? (?P<u>{u})e?[ns]?"
    one = rf"(?P<n>)(?P<u>{u})"
    day, month = _either(_WEEKDAYS, False), _either(_MONTHS, False)
    of = r"(in|during|early|mid|late|back in|of|from|im|ende|anfang|mitte|vom|en|d'|de|du mois de"
    to = r"since|after|before|until|till|by|seit|ab|nach|bis|vor|depuis|avant|jusqu'en|desde|hasta"
    last = "last|this|letzte[nrm]|diese[nm]"
    year = r"(?P<y>(19|20)\d\d)(?![-.:/]?\w|[.,]\d| ?(ms|px|[kmg]i?b|rows|tokens|users)\b)"
    return (
        *(_rule(rf"(?P<time>{words})", _counted(key)) for key, words in _COUNTED.items()),
        _rule(rf"(?P<time>{_RECENTLY})", _recently, sure=False),
        _rule(rf"(?P<time>{many} ago)", _ago),
        _rule(rf"(?P<time>(vor|il y a|hace) {many})", _ago),
        _rule(rf"((in|over|during|within) the last|past) (?P<time>{one})", _past),
        _rule(
            r"(last|past|letzten|vergangenen|seit|depuis|desde hace|últim[oa]s"
            rf"|(les|ces|des)) (?P<time>{many})",
            _past,
        ),
        _rule(rf"(?P<time>(les|ces|des) (?P<n>\d+|{n}) derni(er|ère)s (?P<u>{u})s?)", _past),
        _rule(
            rf"(on|from|since|before|until|by|{last}|am|seit|bis|vor|vom|depuis|avant|ce|el|del|desde)"
            rf"( the| el)?( {last})? (?P<time>(?P<d>{day}))",
            _weekday,
            sure=False,
        ),
        _rule(rf"(?P<time>(?P<d>{day}) (dernier|passé|pasado))", _weekday),
        _rule(rf"(?P<time>(?P<m>{month})\.? (de )?{year})", _month),
        _rule(rf"(?P<time>(?P<m>{month})(?='s))", _month, sure=False),
        _rule(rf"(?P<time>(?P<m>{month})\.? (?P<d>\d\d?)(st|nd|rd|th)?(,? {year})?)", _date),
        _rule(
            r"(?P<time>(?P<d>\d\d?)(st|nd|rd|th|er|\.)? ((of|de) )?"
            rf"(?P<m>{month})(,?( de)? {year})?)",
            _date,
        ),
        _rule(rf"({of}|{to}|{last})) ?(?P<time>(?P<m>{month}))", _month, sure=False),
        _rule(rf"({of}|{to}|jahr)) (?P<time>{year})", _year, sure=False),
        (re.compile(r"(?<![\w-])(?P<time>\d{4}-\d\d-\d\d)(?![\da-z-])"), _iso, True),
    )


@cache
def _cjk() -> tuple[_Rule, ...]:
    n, u = _either(_NUMBERS, True), _either(_UNIT, True)
    many = rf"(?P<n>\d{{1,3}}|{n}) ?(?P<u>{u})(間|일|간)?"
    day = _either(_WEEKDAYS, True)
    rules = (
        *((rf"(?P<time>{words})", _counted(key)) for key, words in _COUNTED_CJK.items()),
        (rf"(?P<time>{_RECENTLY_CJK})", _recently),
        (rf"(?P<time>{many} ?[전前])(?!에? ?까지)", _ago),
        (r"(?P<time>(?P<n>하루|이틀|사흘|나흘)(?P<u>) ?전)", _ago),
        (rf"(지난|최근|過去|この|ここ|直近|最近)(の)? ?(?P<time>{many})", _past),
        (rf"(?<!매주 )(?<!毎週)(?P<time>(?P<d>{day})(요일|曜日?))(?!마다)", _weekday),
        (r"((?P<y>\d{4}) ?[년年] ?)?(?P<time>(?<!\d)(?P<m>\d\d?) ?[월月])(?!曜| ?\d)", _month),
        (
            r"((?P<y>\d{4}) ?[년年] ?)?(?<!\d)(?P<time>(?P<m>\d\d?) ?[월月] ?(?P<d>\d\d?)[일日])",
            _date,
        ),
        (r"(?<!\d)(?P<time>(?P<y>(19|20)\d\d) ?[년年](도|度)?)(?! ?\d{1,2} ?[월月])", _year),
    )
    unsure = (_recently, _weekday)
    return tuple((re.compile(p), days, days not in unsure) for p, days in rules)


def _rule(pattern: str, days: Callable[[re.Match[str], date], _Days], sure: bool = True) -> _Rule:
    return re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)"), days, sure


def _period(unit: str, back: int, today: date) -> _Days:
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


def _counted(key: str) -> Callable[[re.Match[str], date], _Days]:
    unit, back = key.split()
    return lambda match, today: _period(unit, int(back), today)


def _number(match: re.Match[str]) -> int:
    given = match["n"] or "one"
    return int(given) if given.isdecimal() else _NUMBERS[given]


def _ago(match: re.Match[str], today: date) -> _Days:
    return _period(_UNIT.get(match["u"], "day"), _number(match), today)


def _past(match: re.Match[str], today: date) -> _Days:
    unit, number = _UNIT[match["u"]], _number(match)
    if unit in ("day", "week"):
        return today - timedelta(number * (7 if unit == "week" else 1)), today
    first, last = _period("month", number * (12 if unit == "year" else 1), today)
    return first.replace(day=min(today.day, last.day)), today


def _recently(match: re.Match[str], today: date) -> _Days:
    return today - timedelta(RECENTLY_DAYS), today


def _weekday(match: re.Match[str], today: date) -> _Days:
    back = (today.weekday() - _WEEKDAYS[match["d"]]) % 7 + 1
    return _period("day", back, today)


def _date(match: re.Match[str], today: date) -> _Days:
    month = int(match["m"]) if match["m"].isdecimal() else _MONTHS[match["m"]]
    day = date(int(match["y"] or today.year), month, int(match["d"]))
    day = day if match["y"] or day <= today else day.replace(year=today.year - 1)
    return day, day


def _month(match: re.Match[str], today: date) -> _Days:
    month = int(match["m"]) if match["m"].isdecimal() else _MONTHS[match["m"]]
    year = match.groupdict().get("y")
    if year:
        back = (today.year - int(year)) * 12 + today.month - month
    else:
        back = (today.month - month) % 12
    if not 1 <= month <= 12:
        raise ValueError
    return _period("month", back, today)


def _year(match: re.Match[str], today: date) -> _Days:
    return _period("year", today.year - int(match["y"]), today)


def _iso(match: re.Match[str], today: date) -> _Days:
    day = date.fromisoformat(match["time"])
    return day, day
