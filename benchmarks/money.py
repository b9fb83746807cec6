"""What a year of memory costs, for the three kinds of user that the V1 design has in mind.

Arithmetic on what tokens.py counted. The prices are arguments; all other assumptions are the
constants below, and part of the result.
"""

from dataclasses import asdict, dataclass
from typing import Any

# V1 design, section 9: memories a month and words in each, and dollars a year that it says.
USERS = [
    {"name": "Casual User", "memories": 12, "words": 50, "sessions": 20, "v1": 0.01},
    {"name": "Regular Developer", "memories": 150, "words": 75, "sessions": 100, "v1": 0.02},
    {"name": "Power User", "memories": 650, "words": 100, "sessions": 300, "v1": 0.10},
]
# The design says nothing of searches and sessions. Ours, and `sessions` a month above:
SEARCHES_PER_MEMORY = 3
QUERY_WORDS = 15
RESULTS = 5
REQUESTS_PER_SESSION = 40
MONTHS = 12
READER = ("input", "cached_input", "output")  # prices of the model that calls the tools


@dataclass(kw_only=True)
class Prices:
    """Dollars for a million tokens, of 2026: of models that embed, and of one that reads."""

    embedding: dict[str, float]
    input: float = 3.00
    cached_input: float = 0.30
    output: float = 15.00


def measure(prices: Prices, tokens: dict[str, Any]) -> dict[str, Any]:
    """Dollars a year for each user, from what `tokens.measure` found; ready for JSON.

    embedding: by model, of memories and of queries; writing: the model writes the calls; reading:
    it reads the results as new; both are read from the cache in the rest of the session.
    every_request: the tools and instructions, new in a session's first and then from the cache.
    """
    per_word = tokens["tokens_per_word"]
    every_request = sum(amount["tokens"] for amount in tokens["every_request"].values())
    search, store = (_overhead(tokens, call) for call in ("search", "store"))
    # On average, half of a session's requests come after a call, and read it again.
    again = REQUESTS_PER_SESSION / 2
    read = prices.input + again * prices.cached_input
    write = prices.output + again * prices.cached_input
    users = []
    for user in USERS:
        stores = user["memories"] * MONTHS
        searches = stores * SEARCHES_PER_MEMORY
        stored = stores * user["words"] * per_word
        asked = searches * QUERY_WORDS * per_word
        found = searches * RESULTS * user["words"] * per_word
        # The overhead of a search holds its query, which so counts twice: as written and as read.
        results = found + searches * search + stores * store
        sessions = user["sessions"] * MONTHS
        requests = prices.input + (REQUESTS_PER_SESSION - 1) * prices.cached_input
        users.append(
            {
                **user,
                "searches": searches / MONTHS,
                "embedding": {
                    model: {"memories": stored * price / 1e6, "queries": asked * price / 1e6}
                    for model, price in prices.embedding.items()
                },
                "writing": (stored + asked) * write / 1e6,
                "reading": results * read / 1e6,
                "every_request": sessions * every_request * requests / 1e6,
            }
        )
    return {
        "prices": asdict(prices),
        "assumed": {
            "searches_per_memory": SEARCHES_PER_MEMORY,
            "query_words": QUERY_WORDS,
            "results": RESULTS,
            "requests_per_session": REQUESTS_PER_SESSION,
            "tokens_per_word": per_word,
        },
        "users": users,
    }


def _overhead(tokens: dict[str, Any], call: str) -> float:
    """Tokens of a call beside the contents, at the default limit and the largest store."""
    short = min(row["characters"] for row in tokens["calls"])
    rows = [row for row in tokens["calls"] if row["call"] == call and row["characters"] == short]
    rows = [row for row in rows if row["limit"] in (None, RESULTS)]
    return max(rows, key=lambda row: row["size"])["overhead"]
