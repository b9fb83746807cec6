"""The page that shows an agent's memories: one HTML file that needs and reaches nothing else."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from memory_semantic import Memory, plain, timestamp_text

from . import files

if TYPE_CHECKING:
    from numpy.typing import NDArray


def write_page(
    file: str, agent: str, model: str, memories: Sequence[Memory], places: NDArray[Any]
) -> None:
    """Write the page with `memories`, each at its row of `places` on the map, to `file`.

    The file is private, mode 0600, and is written whole or not at all.
    """
    files.write(file, _page(agent, model, memories, places).encode())


def _page(agent: str, model: str, memories: Sequence[Memory], places: NDArray[Any]) -> str:
    from plotly.offline import get_plotlyjs  # slow to import

    assets = resources.files("agent_memory") / "page"
    plotly, script = get_plotlyjs(), (assets / "page.js").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "agent": escape(agent),
        "css": (assets / "page.css").read_text("utf-8"),
        "data": _json(_data(model, memories, places)),
        "plotly": plotly,
        "script": script,
    }
    template = (assets / "page.html").read_text("utf-8")
    # One pass, so that nothing in a memory is taken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _data(model: str, memories: Sequence[Memory], places: NDArray[Any]) -> dict[str, Any]:
    spots = _on_page(places)
    rows = [
        {
            "id": memory.id,
            "text": plain(memory.content),
            "tags": [plain(tag) for tag in memory.tags],
            "time": timestamp_text(memory.timestamp),
            "x": x,
            "y": y,
        }
        for memory, (x, y) in zip(memories, spots, strict=True)
    ]
    rows.sort(key=lambda row: row["time"], reverse=True)
    return {"model": model, "memories": rows}


def _on_page(places: NDArray[Any]) -> list[list[float]]:
    """The places between -1 and 1, to four digits: more than a screen shows."""
    import numpy as np

    if not len(places):
        return []
    centred = places - (places.min(axis=0) + places.max(axis=0)) / 2
    return np.round(centred / (np.abs(centred).max() or 1), 4).tolist()


def _json(data: object) -> str:
    """JSON in ASCII that an HTML parser sees no markup in."""
    text = json.dumps(data, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _hash(script: str) -> str:
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
