"""What a question says of time, and what an intent changes in a bundle."""

import re
from datetime import UTC, datetime
from typing import Any

from memory_semantic import times

# How much newness counts, besides words (0.6), meaning (0.4) and importance (0.1). The
# specification's 0.3 is for questions about what is new, or of a time: docs/measured.md shows what
# it costs elsewhere.
RECENCY, RECENCY_ASKED = 0.02, 0.3
# The newest; memory_semantic's reader of times reads all others.
_NEWEST = re.compile(
    r"\b(newest|latest|most recent|recent|neuest\w*|aktuellst\w*|jüngst\w*|plus récente?s?"
    r"|más recientes?|últim[oa]s?)\b|최신|가장 최근|최근|最新|最近",
    re.IGNORECASE,
)
_HISTORY = re.compile(
    r"\b(history|historical(ly)?|originally|initially|at first|long ago|geschichte|ursprünglich"
    r"|anfangs|historique|à l'origine|initialement|historia|originalmente|al principio)\b"
    r"|역사|처음에|원래|당초|歴史|経緯|当初|もともと",
    re.IGNORECASE,
)

Room = dict[str, tuple[int, float]]
# The most that a section may take of a bundle: in tokens, and as a share of a small bundle. What it
# leaves goes to evidence.
_USUAL: Room = {
    "rules": (2_000, 0.1),
    "tasks": (3_000, 0.15),
    "decisions": (10_000, 0.2),
    "handoffs": (4_000, 0.15),
    "recent": (15_000, 0.25),
}
_CHANGED: dict[str, Room] = {
    "answer": {"recent": (5_000, 0.1)},
    "decide": {"decisions": (30_000, 0.5)},
    "continue": {"tasks": (10_000, 0.25), "recent": (30_000, 0.4)},
    "recent": {"recent": (30_000, 0.4)},
    "history": {"recent": (5_000, 0.1), "decisions": (20_000, 0.4)},
}
# The intents for which superseded decisions are packed too, after the active ones.
WITH_SUPERSEDED = ("decide", "history")


def intended(intent: str) -> str:
    """The first of the known intents in what a client says, or ""."""
    return next((word for word in re.findall(r"\w+", intent.lower()) if word in _CHANGED), "")


def rooms(intent: str) -> Room:
    """The room of each section with an intent, in the order of a bundle."""
    return _USUAL | _CHANGED.get(intent, {})


def time_asked(question: str, intent: str) -> dict[str, Any]:
    """How much newness counts (`recency`), and the time that the question names, from `since` to
    `until`, or None for both: then age counts.
    """
    span = times.named(question, datetime.now(UTC))
    if span:
        return {"recency": RECENCY_ASKED, "since": span.since, "until": span.until}
    recency = RECENCY
    if intent == "history" or _HISTORY.search(question):
        recency = 0.0
    elif intent in ("recent", "continue") or _NEWEST.search(question):
        recency = RECENCY_ASKED
    return {"recency": recency, "since": None, "until": None}
