"""The section of the page about what holds: what reaches the model, whose words, what is alike."""

from tables import Row, number, table

# What holds.py, quotes.py and alike.py measured, and what should be reached.
_ROWS = [
    ("statements that count as the user's", "stored", "the user's", "all"),
    ("corrections that replaced", "stored", "replaced", "all"),
    ("needed pieces shown", "week", "needed", "≥ 65"),
    ("needed pieces, 600 others besides", "with others", "needed", "≥ 45"),
    ("rules that hold, under their head", "week", "rules", "all"),
    ("rules of other projects shown", "week", "rules of others", "0"),
    ("corrected facts shown", "week", "corrected", "0"),
    ("corrected facts first in a search", "week", "corrected first", "0"),
    ("tokens, first prompt", "week", "tokens", "≤ 1,300"),
    ("tokens, later prompt", "week", "later tokens", "0"),
    ("tokens, first prompt, 600 others", "with others", "tokens", ""),
    ("asked to store at a statement", "stored", "statement", "all"),
    ("at a question, paste or command", "stored", "nothing said", "0"),
    ("in a sub-agent, or by a program", "stored", "no human", "0"),
]
_KINDS = {"all": "all", "unsaid": "of these, not said to be one", "en": "English"}
_KINDS |= {"de": "German", "ko": "Korean", "ja": "Japanese"}


def section(found: Row) -> str:
    """As Markdown."""
    loops, quotes, alike = found["loops"], found["quotes"], found["alike"]
    rows = [
        [what, *(_of(each[part][name]) for each in loops.values()), aim]
        for what, part, name, aim in _ROWS
    ]
    text = f"""\
A week of scripted sessions in three projects, in which the model stores what a careful one would, \
then the first prompts of the next week, each in a session of its own \
([the sets](../benchmarks/holds/README.md)): what the model was sent, in each loop. A rule counts \
if it was shown at every prompt of its projects, what should not be shown if it was at any; tokens \
are the most at any prompt. Every request carries {next(iter(loops.values()))["every request"]}.

{table(["", *loops, "aim"], rows)}

Memories that came about in turns which a careless reader takes for statements, the model storing \
nothing: {_of(quotes["false memories"])}. Quotes that counted as the user's: {_of(quotes["real"])} \
that people typed, {_of(quotes["invented"])} invented ones, of pages, pastes or other agents, and \
{_of(quotes["a sub-agent's"])} in a sub-agent.

Where a correction is stored, what is alike is shown: how often the memory that it corrects is, \
and is the first. At notes that contradict nothing, something was at {_of(alike["notes"][::-1])}; \
a store cost {alike["tokens a store"]} tokens for it.

"""
    kinds = [[kind, *map(str, alike[name])] for name, kind in _KINDS.items()]
    return text + table(["", "corrections", "shown", "first"], kinds)


def _of(counts: list[int] | float) -> str:
    return f"{counts[0]} of {counts[1]}" if isinstance(counts, list) else number(counts)
