"""What the saved results hold, for the page and its plots."""

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]

OURS = "agent-memory"
LARGEST_SHOWN = 10_000
NONE = "\N{EN DASH}"  # a cell without a figure


def shown_size(growth: dict[str, Any]) -> str | None:
    """The size of the detailed tables: the largest that all stores are made for."""
    sizes = [
        size for size in growth["stores"] if value_of(growth, size, OURS, "search_ms", "median")
    ]
    return max(
        (size for size in sizes if int(size) <= LARGEST_SHOWN),
        key=int,
        default=min(sizes, key=int, default=None),
    )


def all_stores(growth: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for rows in growth["stores"].values() for name in rows))


def is_ours(name: str) -> bool:
    return name.startswith(OURS)


def is_variant(name: str) -> bool:
    return is_ours(name) and name != OURS


def peers(growth: dict[str, Any] | None, size: str) -> list[str]:
    return [name for name in growth["stores"][size] if not is_ours(name)] if growth else []


def value_of(growth: Any, size: str, name: str, key: str, part: str | None) -> float | None:
    value = growth["stores"][size].get(name, {}).get(key)
    value = value.get(part) if part and value else value
    return value / 1000 if key == "disk_bytes" and value is not None else value


def ratio_of(growth: Row, size: str, name: str, key: str, part: str | None) -> str:
    value, ours = (value_of(growth, size, each, key, part) for each in (name, OURS))
    return "" if name == OURS or value is None or not ours else number(value / ours)


def default_method(recall: dict[str, Any]) -> str:
    """The method that a user has without a setting: the last of the built-in model."""
    return [method for method in recall["methods"] if method.startswith("built-in")][-1]


def troubles(row: Row) -> list[str]:
    """What went wrong with a store, in words."""
    if "failed" in row:
        return [row["failed"]]
    found = [f"{count:,} x {what}" for what, count in row["failures"].items()]
    found += [f"{row['lost']:,} memories lost"] if row["lost"] else []
    found += [f"{row['missed']:,} searches missed what was added"] if row["missed"] else []
    return found + row["ended_badly"]


def number(value: float | None) -> str:
    """Two or three digits, as many as mean something."""
    if value is None:
        return NONE
    if abs(value) >= 9.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 0.995 else f"{value:.2g}"


def estimate_text(estimate: Sequence[float], signed: bool = False) -> str:
    mean, low, high = estimate
    sign = "+" if signed else ""
    between = " to " if signed or low < 0 else NONE
    return f"{mean:{sign}.1f} ({low:{sign}.0f}{between}{high:{sign}.0f})"


def name_text(name: str, emphasised: str = OURS) -> str:
    return f"**{name}**" if name == emphasised else name


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> str:
    lines = [heads, ["---", *["---" if words else "--:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
