"""What a team of three agents recorded in five weeks, with what is asked about it afterwards."""

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

Event = dict[str, Any]

AGENTS = ("sam", "eve", "kim")
DAYS = 35
EVENTS_A_SESSION = 19


class Fact(NamedTuple):
    """Something worth knowing, and a question in other words, whose bundle must hold `answer`."""

    kind: str
    text: str
    answer: str
    question: str
    name: str = ""  # of an artifact


FACTS = [
    Fact(
        "decision",
        "Parcel positions are kept in ClickHouse, everything else stays in MySQL.",
        "kept in ClickHouse",
        "Which database do we use for the coordinates of shipments?",
    ),
    Fact(
        "decision",
        "Webhooks are delivered at least once, with an idempotency key in the header X-Harbor-Key.",
        "X-Harbor-Key",
        "How do our customers recognise a notification that they got twice?",
    ),
    Fact(
        "decision",
        "We ship on Tuesdays only; a hotfix needs the approval of two reviewers.",
        "ship on Tuesdays only",
        "When may I release a new version?",
    ),
    Fact(
        "decision",
        "The mobile app shows times in the zone of the recipient, never in that of the phone.",
        "zone of the recipient",
        "Whose clock does the app go by when somebody travels?",
    ),
    Fact(
        "decision",
        "Carriers are polled every 90 seconds; DHL pushes, so it is not polled at all.",
        "polled every 90 seconds",
        "How often do we ask the delivery companies for news?",
    ),
    Fact(
        "decision",
        "Feature flags live in Unleash; LaunchDarkly was too expensive.",
        "live in Unleash",
        "Where do I switch an experiment on for some of the users?",
    ),
    Fact(
        "decision",
        "Old scans go to Glacier after 400 days, because the auditors look back thirteen months.",
        "Glacier after 400 days",
        "How long do we hold on to history before it is archived?",
    ),
    Fact(
        "decision",
        "The public API is versioned by date in a header, as Stripe does, not in the path.",
        "versioned by date in a header",
        "How will we make breaking changes for outside developers?",
    ),
    Fact(
        "message",
        "Found it: the nightly import doubles rows when the FTP server of GLS answers with a 226"
        " before the file is complete. A check of the file's size helps.",
        "answers with a 226",
        "Why were there duplicates every morning?",
    ),
    Fact(
        "message",
        "Addresses in Quebec fail validation since their postal codes come with a no-break space"
        " (U+00A0).",
        "U+00A0",
        "What is wrong with the Canadian customers?",
    ),
    Fact(
        "message",
        "The memory of the geocoder grows by 40 MB an hour. It is the LRU cache of libpostal, which"
        " has no upper bound unless LP_CACHE is set.",
        "LP_CACHE",
        "Is the leak in the service that turns addresses into places understood?",
    ),
    Fact(
        "message",
        "Staging and production share one Redis, database 0 and 3. Never run FLUSHALL there.",
        "Never run FLUSHALL",
        "What must I be careful about when I empty the cache of the test system?",
    ),
    Fact(
        "message",
        "The certificate of track.harbor.example is renewed by Ines by hand; it ends on 14 March.",
        "ends on 14 March",
        "Does TLS need anybody's attention soon?",
    ),
    Fact(
        "message",
        "Spoke with the people of the Rotterdam depot: their scanners are off from 02:00 to 02:40"
        " UTC, so gaps then are no outage.",
        "02:00 to 02:40",
        "Should I be alarmed when no events arrive from the Netherlands at night?",
    ),
    Fact(
        "message",
        "The flaky test is test_eta_rounding: it fails in the last minute of an hour because it"
        " reads the clock twice.",
        "test_eta_rounding",
        "Why is CI red now and then without a change?",
    ),
    Fact(
        "message",
        "A customer with more than 10,000 open parcels gets an empty page, since the cursor is"
        " signed with 16 bits.",
        "signed with 16 bits",
        "Why does the biggest shop see nothing in its overview?",
    ),
    Fact(
        "message",
        "From the call with Mateo (legal): driver names must not leave the EU, so the Ohio replica"
        " gets their hash only.",
        "Ohio replica",
        "May personal data of couriers be copied to America?",
    ),
    Fact(
        "message",
        "Android 9 crashes at start: the map SDK 11 needs API level 29. Stay on SDK 10.16.",
        "Stay on SDK 10.16",
        "Can I upgrade the component that draws the streets on old phones?",
    ),
    Fact(
        "tool_result",
        "Load test, 2 hours: 1,850 requests a second with p99 of 240 ms; at 2,100 the connection"
        " pool is empty.",
        "1,850 requests a second",
        "How much traffic can the system stand?",
    ),
    Fact(
        "tool_result",
        "EXPLAIN of the query behind /search: a full scan of parcels, 41 million rows; the index on"
        " (merchant_id, created_at) is not used because of the cast to date.",
        "cast to date",
        "Why is looking something up in the backend so slow?",
    ),
    Fact(
        "tool_result",
        "bundle size after tree shaking: main.js 312 kB, vendor.js 1.1 MB, of it moment 290 kB.",
        "moment 290 kB",
        "Which dependency makes the web client heavy to download?",
    ),
    Fact(
        "tool_result",
        "terraform plan: 3 to add, 0 to change, 1 to destroy: aws_db_instance.reporting.",
        "aws_db_instance.reporting",
        "Would applying the infrastructure delete anything?",
    ),
    Fact(
        "tool_result",
        "Accuracy of the arrival forecast on October's parcels: gradient boosting 83 % within 30"
        " minutes, the old table 61 %.",
        "83 % within 30",
        "How good is the machine learning model at guessing when it gets there?",
    ),
    Fact(
        "tool_result",
        "pip-audit: 1 vulnerability, pillow 9.3.0, CVE-2023-44271, fixed in 10.0.0.",
        "CVE-2023-44271",
        "Are there known security holes in what we depend on?",
    ),
    Fact(
        "artifact",
        "1. stop the ingest workers; 2. promote db-2 with orchestrator; 3. change the CNAME of"
        " db.harbor.internal; 4. start them.",
        "promote db-2",
        "What are the steps when the primary MySQL machine dies?",
        "failover.md",
    ),
    Fact(
        "artifact",
        "carrier,contact,escalation\nDPD,it-partner@dpd.example,+49 6021 555",
        "it-partner@dpd.example",
        "Whom can I call at a parcel service when its interface is down?",
        "contacts.csv",
    ),
    Fact(
        "artifact",
        '{"retention_days": 400, "max_upload_mb": 25, "rate_limit": {"anonymous": 30}}',
        '"anonymous": 30',
        "How many calls may somebody make who is not logged in?",
        "limits.json",
    ),
    Fact(
        "artifact",
        "Of 3 November: from 09:12 to 10:47 no labels were printed. Cause: the disk of the print"
        " spooler was full of core dumps.",
        "full of core dumps",
        "What caused the outage at the beginning of the month?",
        "postmortem-1103.md",
    ),
    Fact(
        "artifact",
        "Colours: harbor blue #0B4F6C, signal orange #F26419. Body text is Inter 16 px.",
        "Inter 16 px",
        "Which typeface does the brand use?",
        "styleguide.md",
    ),
    Fact(
        "artifact",
        "Interview notes, 7 merchants: five print their labels from a phone, and all seven want one"
        " page for returns.",
        "print their labels from a phone",
        "What did we learn from talking to the shops?",
        "interviews.md",
    ),
]
assert len(FACTS) == 30

_AREAS = (
    "webhooks", "search", "labels", "returns", "geocoder", "tracking", "billing", "import",
    "forecast", "notifications", "login", "map", "carriers", "exports", "settings",
)  # fmt: skip
_MESSAGES = (
    "I start with {area}: first the tests that are there, then the code.",
    "The tests of {area} pass again, {n} of them. I go on with the review.",
    "Can you look at pull request {n}? It moves the checks of {area} into one place.",
    "Reviewed {n}: two remarks on naming, one on a missing test for {area}.",
    "Rebased {area} on main; three conflicts in the imports, nothing else.",
    "Question on {area}: do we want an empty list or a 404 there? I take the empty list for now.",
    "Merged {n}. The deploy to staging is running.",
    "{area} looks good on staging. I watch the error rate for half an hour.",
    "Please write a changelog entry for {area} before you merge {n}.",
)
_CALLS = (
    "pytest -q tests/{area}",
    "read src/harbor/{area}.py",
    "git log --oneline -20 -- src/harbor/{area}.py",
    "grep -rn 'def ' src/harbor/{area}.py",
    "kubectl logs deploy/{area} --since=10m",
)


def _result(call: str, area: str, source: Iterator[str], dice: random.Random) -> str:
    """What a tool answers: often thousands of characters."""
    if call.startswith("pytest"):
        cases = "".join(
            f"tests/{area}/test_{one}.py {'.' * dice.randint(3, 40)} [{nth * 9:3}%]\n"
            for nth, one in enumerate(dice.sample(_AREAS, 11), 1)
        )
        return f"{cases}\n{dice.randint(60, 400)} passed in {dice.randint(30, 900) / 10}s"
    if call.startswith("git log"):
        return "\n".join(
            f"{dice.getrandbits(28):07x} {dice.choice(('Fix', 'Test', 'Rename', 'Simplify'))}"
            f" {dice.choice(_AREAS)}: {dice.choice(('names', 'errors', 'types', 'retries'))}"
            for _ in range(20)
        )
    if call.startswith("kubectl"):
        return "\n".join(
            f"2026-11-{dice.randint(10, 25)}T{dice.randint(0, 23):02}:{dice.randint(0, 59):02}Z"
            f" {area} request={dice.getrandbits(32):08x} status=200 ms={dice.randint(4, 180)}"
            for _ in range(dice.randint(30, 120))
        )
    return next(source)


def _source() -> Iterator[str]:
    """Real files, as an agent reads them."""
    for file in sorted((Path(os.__file__).parent / "asyncio").glob("*.py")) * 9:
        text = file.read_text()
        yield from (text[start : start + 6_000] for start in range(0, len(text), 6_000))


def team_record() -> Iterator[tuple[str, str, list[Event]]]:
    """Sessions: an agent, the session's name, and its events, the oldest first. Always the same."""
    dice, source = random.Random(45), _source()
    sessions = 42  # 14 of each agent
    facts = {nth * sessions // len(FACTS): fact for nth, fact in enumerate(FACTS)}
    assert len(facts) == len(FACTS)
    for nth in range(sessions):
        area, events = dice.choice(_AREAS), list[Event]()
        while len(events) < EVENTS_A_SESSION - 2:
            number = dice.randint(100, 999)
            said = dice.choice(_MESSAGES).format(area=area, n=number)
            events.append({"kind": "message", "text": said})
            for _ in range(dice.randint(1, 3)):
                call = dice.choice(_CALLS).format(area=dice.choice((area, dice.choice(_AREAS))))
                result = _result(call, area, source, dice)
                events.append({"kind": "tool_call", "text": call})
                events.append({"kind": "tool_result", "actor_type": "tool", "text": result})
        del events[EVENTS_A_SESSION - 2 :]
        title = f"Make {area} ready for review"
        for status, at in (("doing", 1), ("open" if nth % 6 == 5 else "done", len(events))):
            task = {"task_id": f"t{nth}", "status": status, "title": title}
            events.insert(at, {"kind": "task_update", "text": f"{title}: {status}", "task": task})
        if nth in facts:
            fact = facts[nth]
            event: Event = {"kind": fact.kind, "text": fact.text}
            if fact.name:
                event["name"] = fact.name
            events[dice.randint(5, 15)] = event
        began = datetime.now(UTC) - timedelta(days=DAYS * (1 - nth / sessions))
        for minutes, event in enumerate(events):
            event["ts"] = (began + timedelta(minutes=2 * minutes)).isoformat()
        yield AGENTS[nth % 3], f"{area}-{nth}", events


NEAR_QUESTION = "Why does the deploy of checkout wait for its health check?"
NEAR_ANSWER = "The load balancer probes port 8081, which the new firewall closes."


def near_duplicates() -> list[str]:
    """300 texts that say nearly the same in the words of the question; together 80,000 tokens."""
    return [
        f"Still waiting: the deploy of checkout waits for its health check, attempt {nth} of 900 at"
        f" {nth // 60 + 8:02}:{nth % 60:02}. The pods are {nth % 7} of 7 ready. Why does it wait?"
        " The deploy of checkout is in its phase health check, and the health check of checkout did"
        " not answer yet: the deploy waits for it as it did before. Next step: wait for the health"
        " check of checkout, look at the pods again, and look at what the deploy of checkout says."
        " Nothing else has changed: the image is the same, the settings of checkout are the same,"
        f" and {nth % 11} requests were sent to the health check while the deploy did wait. If the"
        " health check of checkout answers, the deploy of checkout goes on by itself."
        for nth in range(300)
    ]
