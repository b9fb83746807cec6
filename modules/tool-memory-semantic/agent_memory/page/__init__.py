"""The page that shows an agent's memories: one HTML file that needs and contacts nothing else."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from memory_semantic import Memory, Search, limits, plain, timestamp_text

from .. import files
from ..recalled import statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The scripts in the order in which they need each other.
_SCRIPTS = ("base", "tags", "filter", "list", "details", "timeline", "map", "moves", "page")
_STYLES = ("theme", "plots", "page")


def write_page(
    file: str,
    agent: str,
    model: str,
    memories: Sequence[Memory],
    places: NDArray[Any] | None = None,
    searches: Sequence[Search] = (),
) -> None:
    """Write the page with `memories` to `file`. `places`, a row of two coordinates for each memory,
    adds a map; the `searches` that were recorded, how often each was found.

    The file is private, mode 0600, and is written whole or not at all. Raises OSError.
    """
    usage = statistics(searches, memories) if searches else None
    data = {
        "model": model,
        "memories": _rows(memories, places, usage),
        "recorded": timestamp_text(usage["first"]) if usage else None,
    }
    files.write(file, _page(agent, data).encode())


def _page(agent: str, data: dict[str, Any]) -> str:
    script, style = _joined(_SCRIPTS, "js"), _joined(_STYLES, "css")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "agent": escape(agent),
        "css": style,
        "data": _json(data),
        "script": script,
    }
    # One pass, so that nothing in a memory is taken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _text("page.html"))


def _joined(names: Sequence[str], kind: str) -> str:
    return "\n".join(_text(f"{name}.{kind}") for name in names)


def _text(name: str) -> str:
    return (resources.files(__name__) / name).read_text("utf-8")


def _rows(
    memories: Sequence[Memory], places: NDArray[Any] | None, usage: dict[str, Any] | None
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "id": memory.id,
            "text": plain(memory.content),
            "tags": [plain(tag) for tag in memory.tags],
            "time": timestamp_text(memory.timestamp),
        }
        for memory in memories
    ]
    ids = {memory.key: memory.id for memory in memories}
    for row, memory in zip(rows, memories, strict=True):
        if (key := memory.replaced_by) and key in ids:
            row["replaced"] = ids[key]
        if memory.said_by in ("agent", "tool"):
            row["said"] = memory.said_by
        if limits.COPIED_FROM in memory.metadata:
            row["from"] = plain(memory.metadata[limits.COPIED_FROM])
    if places is not None:
        for row, (x, y) in zip(rows, _on_page(places), strict=True):
            row |= {"x": x, "y": y}
    recalled = {each["id"]: each for each in usage["recalled"]} if usage else {}
    for row in rows:
        if row["id"] in recalled:
            each = recalled[row["id"]]
            row |= {"recalled": each["times"], "last": timestamp_text(each["last"])}
    return sorted(rows, key=lambda row: row["time"], reverse=True)


def _on_page(places: NDArray[Any]) -> list[list[float]]:
    """The places scaled to between -1 and 1, to four digits: more than a screen shows."""
    import numpy as np

    if not len(places):
        return []
    centred = places - (places.min(axis=0) + places.max(axis=0)) / 2
    return np.round(centred / (np.abs(centred).max() or 1), 4).tolist()


def _json(data: object) -> str:
    """JSON in which an HTML parser sees no markup."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _hash(script: str) -> str:
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
