"""Adds a value to hand-written JSON, or removes it; all else, comments too, stays as it was."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# The keys that lead to a value. A None at the end means an item of the list there.
Keys = Sequence[str | None]

_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
_EMPTY_LINE = re.compile(r"^[ \t]*\r?\n")
_INDENT = re.compile(r'\n([ \t]+)"')
_decode = json.JSONDecoder().raw_decode


class _Item(NamedTuple):
    key: str | None
    start: int
    value: int  # where the value starts
    end: int


def load(text: str) -> dict[str, Any]:
    """The object that the text holds, which may have comments, and a comma after the last item. A
    text without anything is an empty object. Raises ValueError for something else.
    """
    try:
        data = json.loads(_plain(text)) if text.strip() else {}
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("it is not an object")
    return data


def comments(text: str) -> list[str]:
    """The comments in a text, in their order."""
    return [each for each in _COMMENT.findall(text) if each[0] != '"']


def with_value(text: str, keys: Keys, value: Any) -> str:
    """`text`, which `load` reads, with this value there. Raises ValueError if something else is."""
    text = text if text.strip() else "{}\n"
    plain, newline = _plain(text), "\r\n" if "\r\n" in text else "\n"
    opened, items = _skip(plain, 0), []
    for depth, key in enumerate(keys):
        if plain[opened] != ("[" if key is None else "{"):
            raise ValueError(f"{keys[depth - 1]} is something else there")
        items = _items(plain, opened)
        found = [each for each in items if key is not None and each.key == key]
        if not found:
            break
        opened = found[-1].value
    else:
        raise ValueError(f"there is another {keys[-1]}")
    indent = next(iter(_INDENT.findall(text)), "  ")
    lines = [newline + indent * number for number in range(len(keys) + 1)]
    added = json.dumps(value)  # on one line, so that a difference is short
    for number in range(len(keys) - 1, depth, -1):
        start, end = "[]" if keys[number] is None else "{}"
        added = f"{start}{lines[number + 1]}{_named(keys[number], added)}{lines[number]}{end}"
    rest = text[opened + 1 :]
    if not items:
        rest = lines[depth] + rest.lstrip()
    elif not rest.startswith(newline):
        rest = lines[depth + 1] + rest.lstrip()
    added = f"{lines[depth + 1]}{_named(key, added)}{',' * bool(items)}"
    return f"{text[: opened + 1]}{added}{rest}"


def without(text: str, keys: Keys, ours: Callable[[Any], bool], before: Any) -> str:
    """`text`, which `load` reads, without what is `ours` there. What would hold nothing any more
    goes with it, unless it was in `before`, the data as they were.
    """
    while chain := _find(plain := _plain(text), keys, ours):
        depth = len(keys) - 1
        while depth and len(_items(plain, chain[depth - 1].value)) == 1:
            if at(before, *keys[:depth]) is not None:
                break
            depth -= 1
        text = _cut(text, chain[depth])
    return text


def at(data: Any, *keys: str | None) -> Any:
    """What is under these keys; None if nothing is."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _named(key: str | None, value: str) -> str:
    return value if key is None else f"{json.dumps(key)}: {value}"


def _cut(text: str, item: _Item) -> str:
    """`text` without this item, one comma beside it, and the line that it leaves empty."""
    bare = _blank(_COMMENT, text)  # the comma after a last item is still there
    head, tail = text[: item.start].rstrip(" \t"), text[item.end :]
    after, before = _skip(bare, item.end), len(bare[: item.start].rstrip()) - 1
    if bare[after] == ",":
        tail = text[after + 1 :]
    elif bare[before] == ",":
        head = head[:before] + head[before + 1 :]
    return head + (_EMPTY_LINE.sub("", tail) if head.endswith("\n") else tail)


def _find(plain: str, keys: Keys, ours: Callable[[Any], bool]) -> list[_Item]:
    """What is `ours` there, after all that it is in; nothing if there is none."""
    opened, chain = _skip(plain, 0), list[_Item]()
    for key in keys:
        if plain[opened] != ("[" if key is None else "{"):
            return []
        found = [each for each in _items(plain, opened) if each.key == key]
        if len(chain) == len(keys) - 1:
            found = [each for each in found if ours(json.loads(plain[each.value : each.end]))]
        if not found:
            return []
        chain.append(found[-1])
        opened = found[-1].value
    return chain


def _items(plain: str, opened: int) -> list[_Item]:
    """The items of the object or list that opens here."""
    items, place = list[_Item](), _skip(plain, opened + 1)
    while plain[place] not in "}]":
        start, key = place, None
        if plain[opened] == "{":
            key, place = _decode(plain, place)
            place = _skip(plain, _skip(plain, place) + 1)
        end = _decode(plain, place)[1]
        items.append(_Item(key, start, place, end))
        place = _skip(plain, end)
        if plain[place] == ",":
            place = _skip(plain, place + 1)
    return items


def _plain(text: str) -> str:
    """JSON in which all is where it is in `text`."""
    return _blank(_LAST_COMMA, _blank(_COMMENT, text))


def _blank(what: re.Pattern[str], text: str) -> str:
    """`text` with spaces in place of `what`, but not in strings."""
    return what.sub(lambda m: m[0] if m[0][0] == '"' else re.sub("[^\n]", " ", m[0]), text)


def _skip(text: str, place: int) -> int:
    """Where the next thing is that is not space."""
    return len(text) - len(text[place:].lstrip(" \t\r\n"))
