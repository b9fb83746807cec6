"""Memories of other servers as JSON: mem0's `get_all`, and the MCP reference server's memory."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .haul import Form, Haul

MEM0 = Form("mem0's get_all", "from-mem0")
MCP = Form("the MCP reference server's memory", "from-mcp-memory")
_MEM0_READ = ("memory", "created_at", "updated_at", "categories", "metadata", "id", "hash", "score")


def read(values: list[Any], written: datetime | None, haul: Haul) -> bool:
    """Add what a file with these JSON values, one or a line each, holds. False if it is of neither
    form.
    """
    whole = values[0] if len(values) == 1 else None
    if isinstance(whole, dict) and isinstance(whole.get("entities"), list):
        values = [{"type": "entity", **each} for each in _dicts(whole["entities"])]
        values += [{"type": "relation", **each} for each in _dicts(whole.get("relations"))]
    if values and all(_part_of_graph(each) for each in values):
        for each in values:
            _graph(each, written, haul)
        return True
    results = whole.get("results") if isinstance(whole, dict) else whole
    found = _dicts(results)
    if not found or not all(isinstance(each.get("memory"), str) for each in found):
        return False
    for each in found:
        _mem0(each, written, haul)
    for each in _dicts(whole.get("relations")) if isinstance(whole, dict) else ():
        told = (each.get(name) for name in ("source", "relationship", "target"))
        haul.add(MEM0, "relations", _sentence(*told), None, written)
    return True


def _part_of_graph(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    entity = value.get("type") == "entity" and isinstance(value.get("observations"), list)
    return entity or (value.get("type") == "relation" and {"from", "to"} <= value.keys())


def _graph(value: Mapping[str, Any], written: datetime | None, haul: Haul) -> None:
    if value["type"] == "relation":
        said = _sentence(value["from"], value.get("relationType"), value["to"])
        haul.add(MCP, "relations", said, None, written)
        return
    for text in value["observations"]:
        said = f"{value.get('name')}: {text}"
        haul.add(MCP, "observations", said, None, written, [value.get("entityType")])
    haul.left["entities without observations"] += not value["observations"]


def _mem0(fields: Mapping[str, Any], written: datetime | None, haul: Haul) -> None:
    about = fields.get("metadata")
    about = about if isinstance(about, dict) else {}
    category = about.get("category")
    tags = [*(fields.get("categories") or ()), *([category] if category else [])]
    when = fields.get("updated_at") or fields.get("created_at")
    haul.add(MEM0, "memories", fields["memory"], when, written, tags, "agent")
    more = {name: value for name, value in fields.items() if name not in _MEM0_READ}
    rest = more | {f"metadata.{name}": about[name] for name in about.keys() - {"category"}}
    haul.left.update(f"the field {name}" for name, value in rest.items() if value)


def _sentence(*words: object) -> str:
    return " ".join(
        str(word).replace("_", " ") if n == 1 else str(word) for n, word in enumerate(words)
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
