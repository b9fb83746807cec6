"""Arguments as clients send them: some send lists, numbers and booleans as texts, and fill in what
is optional. The JSON schema of a tool says how to read them.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

# What clients fill in for an optional argument that is not meant, besides None.
_NOTHING = ("", "null", "none")


def read_arguments(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are `given` to a tool, each of the type that its `schema` names; of the
    optional ones, those that mean something. What cannot be read so, or is unknown, stays as it is.
    """
    read = dict(given)
    for name in schema["properties"].keys() & given:
        field, value = schema["properties"][name], given[name]
        options = {each.get("type", "object"): each for each in field.get("anyOf", [field])}
        # Where any text may stand, or an object in its place, somebody may have written "null".
        written = field.get("default") == "" or {"string", "object"} <= options.keys()
        nothing = isinstance(value, str) and value.strip().lower() in _NOTHING and not written
        if name not in schema.get("required", ()) and (value is None or nothing):
            del read[name]
        elif isinstance(value, str) and "string" not in options:
            read[name] = _of_text(value, options)
    return read


def _of_text(text: str, options: Mapping[str, Any]) -> Any:
    value: Any = text
    with suppress(ValueError, RecursionError):
        value = json.loads(text.lower() if "boolean" in options else text)
    items = options.get("array", {}).get("items", {})
    is_json = isinstance(value, list) or text.lstrip().startswith(("[", "{"))
    if items.get("type") != "string" or is_json:
        return value
    words = value if isinstance(value, str) else text  # a word may be in quotes, or a number
    return [part.strip() for part in words.split(",") if part.strip()]
