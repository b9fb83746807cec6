"""The section of the page about what holds: what reaches the model, whose words, what is alike."""

from tables import Row, number, table

# As holds.py, quotes.py and alike.py call them.
_STORED = ("the user's", "replaced")
_CHILD = "a sub-agent's"
_KINDS = {
    "all": "all",
    "unsaid": "that do not say so",
    "en": "English",
    "de": "German",
    "ko": "Korean",
    "ja": "Japanese",
}


def section(found: Row) -> str:
    """As Markdown, of what `holds`, `quotes` and `alike` measured."""
    loops, quotes, alike = found["loops"], found["quotes"], found["alike"]
    kinds = [kind for kind in next(iter(loops.values()))["stored"] if kind not in _STORED]
    rows = [
        ["statements that count as the user's", *_all(loops, "stored", _STORED[0]), "all"],
        ["corrections that replaced", *_all(loops, "stored", _STORED[1]), "all"],
        ["needed pieces shown", *_all(loops, "week", "needed"), "≥ 65"],
        ["the same, with 600 others", *_all(loops, "with others", "needed"), "≥ 45"],
        ["rules that hold, under their head", *_all(loops, "week", "rules"), "all"],
        ["rules of other projects shown", *_all(loops, "week", "rules of others"), "0"],
        ["corrected facts shown", *_all(loops, "week", "corrected"), "0"],
        ["corrected facts first in a search", *_all(loops, "week", "corrected first"), "0"],
        ["tokens, all 66 memories", *_all(loops, "week", "tokens"), "≤ 1,300"],
        ["tokens, later prompts", *_all(loops, "week", "later tokens"), "0"],
        ["tokens, with 600 others", *_all(loops, "with others", "tokens"), "≤ 2,500"],
        [
            "tokens of every request",
            *(number(each["every request"]) for each in loops.values()),
            "≤ 720",
        ],
        *([f"asked to store: {kind}", *_all(loops, "stored", kind), ""] for kind in kinds),
    ]
    notes, at = alike["notes"]
    false, turns = quotes["false memories"]
    return "\n\n".join(
        [
            "A week of scripted sessions in three projects, in which the model stores what a "
            "careful one would, then the first prompts of the next week, each in a session of its "
            "own ([the sets](../benchmarks/holds/README.md)): what the model was sent, in each "
            "loop. A rule counts if it was shown at every prompt of its projects, and what should "
            "not be shown if it was at any; tokens are the most at any prompt.",
            table(["", *loops, "aim"], rows),
            f"In {turns} turns that a careless reader takes for statements, and in which the model "
            f"stored nothing, {false} memories came about. Of the quotes that people really typed, "
            f"{_of(quotes['real'])} counted as the user's; of invented ones, of pages, pastes and "
            f"other agents, {_of(quotes['invented'])}; in a sub-agent, {_of(quotes[_CHILD])}.",
            "Where a correction is stored, what is alike is shown: how often the memory that it "
            f"corrects is, and is the first. Something was shown at {at} of {notes} notes that "
            f"contradict nothing; a store cost {alike['tokens a store']} tokens for it.",
            table(
                ["", "corrections", "shown", "first"],
                [[name, *map(str, alike[kind])] for kind, name in _KINDS.items()],
            ),
        ]
    )


def _all(loops: Row, part: str, name: str) -> list[str]:
    return [_of(found[part][name]) for found in loops.values()]


def _of(counts: list[int] | float) -> str:
    return f"{counts[0]} of {counts[1]}" if isinstance(counts, list) else number(counts)
