"""The section of the page about what holds: what reaches the model, whose words, what is alike."""

from tables import Row, number, table

_CHILD = "a sub-agent's"  # as quotes.py calls them
_LANGUAGES = {"en": "English", "de": "German", "ko": "Korean", "ja": "Japanese"}


def section(found: Row) -> str:
    """As Markdown, of what `holds`, `quotes` and `alike` measured."""
    loops, quotes, alike = found["loops"], found["quotes"], found["alike"]
    first = next(iter(loops.values()))
    kinds = [kind for kind in first["stored"] if kind not in ("the user's", "replaced")]
    rows = [
        ["statements that count as the user's", *_all(loops, "stored", "the user's"), "all"],
        ["corrections that replaced", *_all(loops, "stored", "replaced"), "all"],
        ["needed pieces shown", *_all(loops, "week", "needed"), "≥ 65"],
        ["the same, with 600 others", *_all(loops, "with others", "needed"), "≥ 45"],
        ["rules that hold, under their head", *_all(loops, "week", "rules"), "all"],
        ["rules of other projects", *_all(loops, "week", "rules of others"), "0"],
        ["what was corrected, as if it held", *_all(loops, "week", "corrected"), "0"],
        ["the same, first in a search", *_all(loops, "week", "corrected first"), "0"],
        ["tokens, all 66 memories", *_all(loops, "week", "tokens"), "≤ 1,300"],
        ["tokens of a later prompt", *_all(loops, "week", "later tokens"), "0"],
        ["tokens with 600 others", *_all(loops, "with others", "tokens"), "≤ 2,000"],
        *([f"asked to store at: {kind}", *_all(loops, "stored", kind), ""] for kind in kinds),
    ]
    by_language = [
        [_LANGUAGES.get(kind, kind), *map(number, counts)]
        for kind, counts in alike.items()
        if isinstance(counts, list) and kind != "notes"
    ]
    notes, at = alike["notes"]
    false, turns = quotes["false memories"]
    return "\n\n".join(
        [
            "A week of scripted sessions in three projects, in which the model stores what a "
            "careful one would, then the first prompts of the next week, each in a session of its "
            "own ([the sets](../benchmarks/holds/README.md)). What the model was sent, in each "
            "loop; the tokens as below. Each prompt counts anew: 80 prompts with 9 to 11 rules.",
            table(["", *loops, "aim"], rows),
            f"In {turns} turns that a careless reader takes for statements, our own code stored "
            f"{false} memories. Of the quotes that people really typed, {_of(quotes['real'])} "
            f"counted as the user's; of invented ones, of pages, pastes and other agents, "
            f"{_of(quotes['invented'])}; within a sub-agent, {_of(quotes[_CHILD])}.",
            "What is alike, where a correction is stored: how often the memory that it corrects is "
            f"shown, and is the first. Something was shown at {at} of {notes} notes that "
            f"contradict nothing, and a store cost {alike['tokens a store']} tokens for it.",
            table(["", "corrections", "shown", "first"], by_language),
        ]
    )


def _all(loops: Row, part: str, name: str) -> list[str]:
    return [_of(found[part][name]) for found in loops.values()]


def _of(counts: list[int] | float) -> str:
    return f"{counts[0]} of {counts[1]}" if isinstance(counts, list) else number(counts)
