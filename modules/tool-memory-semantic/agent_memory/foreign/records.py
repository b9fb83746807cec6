"""Memories of other servers as JSON: mem0's `get_all`, and the MCP reference server's memory."""

from datetime import datetime
from typing import Any

from .haul import Form, Haul, dict_of, dicts_of, list_of

MEM0 = Form("mem0's get_all", "from-mem0")
MCP = Form("the MCP reference server's memory", "from-mcp-memory")
_READ = ("memory", "created_at", "updated_at", "categories", "metadata", "id", "hash", "score")


def read(values: list[Any], written: datetime | None, haul: Haul) -> bool:
    """Add what a file with these JSON values, one or a line each, holds. False if it is of neither
    form.
    """
    whole = dict_of(values[0]) if len(values) == 1 else {}
    if isinstance(whole.get("entities"), list):
        values = [{"type": "entity", **each} for each in dicts_of(whole["entities"])]
        values += [{"type": "relation", **each} for each in dicts_of(whole.get("relations"))]
    if all(_of_graph(dict_of(each)) for each in values):
        for each in values:
            if each["type"] == "relation":
                said = _sentence(each["from"], each.get("relationType"), each["to"])
                haul.add(MCP, "relations", said, None, written)
                continue
            haul.left["entities without observations"] += not each["observations"]
            for text in each["observations"]:
                said, tags = f"{each.get('name')}: {text}", [each.get("entityType")]
                haul.add(MCP, "observations", said, None, written, tags)
        return True
    found = dicts_of(whole.get("results") or values[0])
    if not found or not all(isinstance(each.get("memory"), str) for each in found):
        return False
    for each in found:
        about = dict_of(each.get("metadata"))
        tags = [*list_of(each.get("categories")), *filter(None, [about.get("category")])]
        when = each.get("updated_at") or each.get("created_at")
        haul.add(MEM0, "memories", each["memory"], when, written, tags, "agent")
        rest = {name: value for name, value in each.items() if name not in _READ}
        rest |= {f"metadata.{name}": about[name] for name in about if name != "category"}
        haul.left.update(f"the field {name}" for name, value in rest.items() if value)
    for each in dicts_of(whole.get("relations")):
        said = _sentence(each.get("source"), each.get("relationship"), each.get("target"))
        haul.add(MEM0, "relations", said, None, written)
    return True


def _of_graph(value: dict[str, Any]) -> bool:
    if value.get("type") == "entity":
        return isinstance(value.get("observations"), list)
    return value.get("type") == "relation" and {"from", "to"} <= value.keys()


def _sentence(one: object, relation: object, other: object) -> str:
    return f"{one} {str(relation).replace('_', ' ')} {other}"
