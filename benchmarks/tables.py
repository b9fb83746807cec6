"""Numbers and tables as the page has them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]

NONE = "\N{EN DASH}"  # a cell without a figure, and what stands between the ends of a range
OURS = "agent-memory"


def is_ours(name: str) -> bool:
    """Whether a store is this project, in whichever variant."""
    return name.startswith(OURS)


def default_method(recall: Mapping[str, Any]) -> str:
    """The method that a user has without a setting: the last of `local`."""
    return [method for method in recall["methods"] if method.startswith("local")][-1]


def number(value: float | None) -> str:
    """Two or three digits, as many as mean something."""
    if value is None:
        return NONE
    if abs(value) >= 9.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 0.995 else f"{value:.2g}"


def estimate_text(estimate: Sequence[float]) -> str:
    """A mean with the interval that holds 95 % of what resampling gives."""
    mean, low, high = estimate
    return f"{mean:.1f} ({low:.0f}{NONE}{high:.0f})"


def strong(name: str, emphasised: str = OURS) -> str:
    """The name, in bold if it is the one that a table is about."""
    return f"**{name}**" if name == emphasised else name


def cell(text: Any) -> str:
    """A text of elsewhere, so that it cannot end a cell or start a tag."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def bullets(lines: Iterable[str]) -> str:
    """A list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> str:
    """A table in Markdown; all columns but the first are numbers unless it is of `words`."""
    head, *lines = ["| " + " | ".join(line) + " |" for line in (heads, *rows)]
    return "\n".join(
        [head, "|---" + ("|---" if words else "|--:") * (len(heads) - 1) + "|", *lines]
    )
