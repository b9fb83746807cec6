"""The section of the page about what a year of memory costs, for the V1 design's kinds of user.

Arithmetic on what tokens.py counted. All else is assumed, and these constants.
"""

from typing import Any

from tables import dollars, table

# V1 design, section 9: memories a month and words in each, and dollars a year that it says; the
# sessions a month are ours.
USERS = [
    {"name": "Casual User", "memories": 12, "words": 50, "sessions": 20, "v1": 0.01},
    {"name": "Regular Developer", "memories": 150, "words": 75, "sessions": 100, "v1": 0.02},
    {"name": "Power User", "memories": 650, "words": 100, "sessions": 300, "v1": 0.10},
]
# The design says nothing of searches and sessions. Ours:
SEARCHES_PER_MEMORY, QUERY_WORDS, RESULTS, REQUESTS_PER_SESSION = 3, 15, 5, 40
MONTHS = 12
# Dollars for a million tokens, of 2026: of models that embed, and of the one that calls the tools.
EMBEDDING = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13}
INPUT, CACHED, OUTPUT = 3.00, 0.30, 15.00
PARTS = ("calls written", "results read", "tools in every request")


def section(tokens: dict[str, Any], plots: Any) -> str:
    """As Markdown, from what `tokens.measure` found."""
    years = {user["name"]: _year(user, tokens) for user in USERS}
    models = [f"embeddings, {model}" for model in EMBEDDING]
    sums = {name: [year[part] for part in (models[0], *PARTS)] for name, year in years.items()}
    rows = (
        [
            user["name"],
            *(dollars(years[user["name"]][part]) for part in (*models, *PARTS)),
            f"**{dollars(sum(sums[user['name']]))}**",
            dollars(user["v1"]),
        ]
        for user in USERS
    )
    users = "; ".join(
        f"{user['name']}: {user['memories']} memories of {user['words']} words, "
        f"{user['sessions']} sessions"
        for user in USERS
    )
    prices = ", ".join(f"{model} ${price:.2f}" for model, price in EMBEDDING.items())
    return "\n\n".join(
        [
            "Dollars a year for the three kinds of user of the V1 design, whose figure is in the "
            "last column. It counts the embedding of memories alone, and calls searches free; but "
            "a query is embedded too, and the model that calls the tools writes the calls, reads "
            "the results, and is told of the tools in every request.",
            plots.bars("cost", "A year, in dollars", sums, [models[0], *PARTS]),
            table(["user", *models, *PARTS, f"all, with {next(iter(EMBEDDING))}", "V1"], rows),
            "With the built-in model, memories and queries cost nothing. Assumed, each month "
            f"(memories and words are the design's, the rest is ours): {users}; "
            f"{SEARCHES_PER_MEMORY} searches for each memory. A query has {QUERY_WORDS} words, a "
            f"search finds {RESULTS} memories, a session has {REQUESTS_PER_SESSION} requests, and "
            "what a call leaves is read again from the cache in half of them. "
            f"{tokens['tokens_per_word']:.2f} tokens a word, counted as above, and so rather too "
            f"many. Prices for a million tokens, assumptions of 2026: {prices}; the model that "
            f"calls the tools ${INPUT:.2f} to read, ${CACHED:.2f} from the cache, ${OUTPUT:.2f} to "
            "write.",
        ]
    )


def _year(user: dict[str, Any], tokens: dict[str, Any]) -> dict[str, float]:
    """Dollars a year: of what is embedded by each model, of the calls that a model writes, of the
    results that it reads, both read from the cache in the rest of the session, and of the tools and
    instructions, new in a session's first request and then from the cache.
    """
    per_word = tokens["tokens_per_word"]
    every_request = sum(amount["tokens"] for amount in tokens["every_request"].values())
    search, store = (_overhead(tokens, call) for call in ("search", "store"))
    again = REQUESTS_PER_SESSION / 2 * CACHED
    stores = user["memories"] * MONTHS
    searches = stores * SEARCHES_PER_MEMORY
    written = (stores * user["words"] + searches * QUERY_WORDS) * per_word
    found = searches * RESULTS * user["words"] * per_word
    # The overhead of a search holds its query, which so counts twice: as written and as read.
    results = found + searches * search + stores * store
    requests = INPUT + (REQUESTS_PER_SESSION - 1) * CACHED
    paid = {f"embeddings, {model}": written * price for model, price in EMBEDDING.items()} | {
        "calls written": written * (OUTPUT + again),
        "results read": results * (INPUT + again),
        "tools in every request": user["sessions"] * MONTHS * every_request * requests,
    }
    return {part: each / 1e6 for part, each in paid.items()}


def _overhead(tokens: dict[str, Any], call: str) -> float:
    """Tokens of a call beside the contents, at the default limit and the largest store."""
    short = min(row["characters"] for row in tokens["calls"])
    rows = [row for row in tokens["calls"] if row["call"] == call and row["characters"] == short]
    rows = [row for row in rows if row["limit"] in (None, RESULTS)]
    return max(rows, key=lambda row: row["size"])["overhead"]
