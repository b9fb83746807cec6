"""Changes one value in a YAML file that a person wrote: comments and layout stay as they are."""

from collections.abc import Sequence
from typing import Any


def with_value(text: str, keys: Sequence[str], value: str | None) -> str:
    """`text`, a YAML document, with this value under these keys. Raises ValueError if it cannot be
    put there without changing more.
    """
    import yaml

    if "\r\n" in text and text.count("\r\n") == text.count("\n"):  # from an editor on Windows
        return with_value(text.replace("\r\n", "\n"), keys, value).replace("\n", "\r\n")
    try:
        changed = _with_value(yaml.compose(text), text, keys, value or "null")
        wanted = yaml.safe_load(text) or {}
        parent: Any = wanted
        for key in keys[:-1]:
            # A copy: what an alias shares must not change with it.
            parent[key] = {**parent.get(key, {})}
            parent = parent[key]
        parent[keys[-1]] = value
        if yaml.safe_load(changed) == wanted:
            return changed
    except (yaml.YAMLError, AttributeError, TypeError):
        pass  # what is there is something else than expected
    raise ValueError("this value cannot be changed alone")


def _with_value(node: Any, text: str, keys: Sequence[str], value: str) -> str:
    import yaml

    column = 0
    while keys and isinstance(node, yaml.MappingNode) and node.value:
        column = node.value[0][0].start_mark.column
        found = next((each for key, each in node.value if key.value == keys[0]), None)
        if found is None:
            break
        node, keys = found, keys[1:]
    if not keys:
        return f"{text[: node.start_mark.index]}{value}{text[node.end_mark.index :]}"
    lines = [f"{' ' * (column + 2 * depth)}{key}:" for depth, key in enumerate(keys)]
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = text.find("\n", node.end_mark.index) if node else len(text)
    before, after = (text[:end], text[end:]) if end >= 0 else (text, "\n")
    first = "\n" if before and not before.endswith("\n") else ""
    return f"{before}{first}{chr(10).join(lines)} {value}{after or chr(10)}"
