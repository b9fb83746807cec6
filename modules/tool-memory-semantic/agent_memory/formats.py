"""The kinds of files that `import` reads: what may be memories in them, and at which place."""

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any

from memory_semantic import InputError, counted

# Enough for 100,000 memories of 10,000 English characters, with ids, times and tags.
MAX_BYTES = 2**30
_PIECE = 2**20
# How files of zip (and office documents), bzip2, xz, Zstandard and 7-Zip begin.
_PACKED = (b"PK\x03\x04", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c")
_PACKED_NAMES = (".tar", ".tgz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".rar")
_UNPACK = "It is an archive, or not packed with gzip. Unpack it, and import the file in it."
# Byte order marks. That of UTF-32 comes first, because it begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
ENCODING = "If it is text in another encoding: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW"
# Far deeper than any list of memories.
_MAX_DEPTH = 100
_JSON = json.JSONDecoder()
_VISIBLE = re.compile(r"\S")


class ImportFileError(InputError):
    """A file that is not what it should be, with a sentence for each fault."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def read_all(read: Callable[[int], bytes]) -> bytes:
    """All that `read` returns. Raises ImportFileError if that is more than any file of memories
    holds, as with a device, or with a file that was packed to do harm.
    """
    pieces, size = [], 0
    while piece := read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise ImportFileError([f"It is larger than {MAX_BYTES // 2**20:,} MB. Split it."])
    return b"".join(pieces)


def entries(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """What may be memories in a file called `name`, each with its place there. Raises
    ImportFileError if the file is of no such kind, and RecursionError if its JSON is nested too
    deeply.
    """
    name = name.lower().removesuffix(".gz")
    data = _unpacked(data)
    if data.startswith(_PACKED) or data[257:262] == b"ustar":  # a tar, behind its first name
        raise ImportFileError([_UNPACK])
    text = text_of(data, name)
    start = text.lstrip()
    if name.endswith((".yaml", ".yml")):
        yield from _yaml_entries(text)
    elif _is_json(start):
        yield from _json_entries(text)
    elif start.startswith(("memories:", "- id:")):
        yield from _yaml_entries(text)
    else:
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"line {number}", {"content": line}


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        with gzip.open(BytesIO(data)) as file:
            return read_all(file.read)
    except (OSError, EOFError, zlib.error):
        raise ImportFileError(["It is packed with gzip, but damaged or incomplete."]) from None


def text_of(data: bytes, name: str) -> str:
    """The text of a file. Raises ImportFileError if it is a table, or of an unknown encoding."""
    if name.endswith((".csv", ".tsv")):
        raise ImportFileError(
            [
                'It is a table. Make each row a line such as {"content": "…", "tags": ["…"]}, or, '
                "if each line is to become one memory, name the file .txt."
            ]
        )
    how = _UNPACK if name.endswith(_PACKED_NAMES) else ENCODING
    marked = next((each for mark, each in _MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(marked)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ImportFileError([f"line {line}: it is not UTF-8 text. {how}"]) from None
    if "\0" in text:
        raise ImportFileError([f"It is not UTF-8 text. {how}"])
    return text


def _is_json(start: str) -> bool:
    """Whether the text begins like memories in JSON, broken JSON included. A note may begin with a
    bracket or a brace, too.
    """
    if not start.startswith(("{", "[")):
        return False
    try:
        value, end = _JSON.raw_decode(start)
    except (ValueError, RecursionError):
        return bool(re.match(r'\{\s*"|\[\s*\{', start))
    rest = start[end : end + 200].partition("\n")[0].strip()
    objects = isinstance(value, dict) or all(isinstance(each, dict | str) for each in value)
    return objects and (not rest or rest.startswith("{"))


def _json_entries(text: str) -> Iterator[tuple[str, Any]]:
    """From JSON objects one after another, each on one line or on several, and lists of them."""
    from memory_semantic import exchange

    promised = None
    seen = 0
    for line, value in _json_values(text):
        if isinstance(value, dict) and "format" in value and "content" not in value:
            if value["format"] != exchange.FORMAT or not isinstance(value.get("version"), int):
                raise ImportFileError([f"line {line}: it is an export of something else."])
            if value["version"] > exchange.VERSION:
                raise ImportFileError(
                    [f"The export has version {value['version']}. Upgrade agent-memory."]
                )
            _require_whole(promised, seen)  # exports may have been joined
            promised, seen = value.get("memories"), 0
        elif isinstance(value, list):
            seen += len(value)
            yield from _numbered(value)
        else:
            seen += 1
            yield f"line {line}", _from_dev_memory(value)
    _require_whole(promised, seen)


def _require_whole(promised: Any, seen: int) -> None:
    if isinstance(promised, int) and seen < promised:
        raise ImportFileError([f"An export ends early: it holds {seen} of {counted(promised)}."])


def _json_values(text: str) -> Iterator[tuple[int, Any]]:
    """Each value, and the line that it begins on."""
    line, end = 1, 0
    while found := _VISIBLE.search(text, end):
        line += text.count("\n", end, found.start())
        try:
            value, end = _JSON.raw_decode(text, found.start())
        except ValueError:  # also for a number with thousands of digits
            raise ImportFileError([f"line {line}: it is not a whole JSON object."]) from None
        yield line, value
        line += text.count("\n", found.start(), end)


def _numbered(entries: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for number, fields in enumerate(entries, start=1):
        yield f"memory {number}", _from_dev_memory(fields)


def _yaml_entries(text: str) -> Iterator[tuple[str, Any]]:
    content = yaml_values(text)
    entries = content.get("memories") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise ImportFileError(["It holds no list of memories."])
    yield from _numbered([_with_tags(fields) for fields in entries])


def _with_tags(fields: Any) -> Any:
    if not isinstance(fields, dict) or isinstance(fields.get("tags"), dict):
        return fields
    tags = fields.get("tags") or []
    tags = [tags] if isinstance(tags, str) else tags
    return {**fields, "tags": [tag for tag in tags if tag is not None]}


def yaml_values(text: str) -> Any:
    """What the YAML holds: lists, dicts, strings and None. Numbers, dates and the like stay as
    people wrote them. Aliases are refused: with them, 400 bytes can stand for gigabytes.
    """
    import yaml

    top: list[Any] = []
    open_: list[list[Any]] = [top]  # the keys and values of a mapping alternate
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1
                raise ImportFileError(
                    [f"line {line}: YAML aliases (*{event.anchor}) are not read."]
                )
            if isinstance(event, yaml.ScalarEvent):
                empty = event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL")
                open_[-1].append(None if empty else event.value)
            elif isinstance(event, yaml.CollectionStartEvent):
                open_.append([])
                if len(open_) > _MAX_DEPTH:  # the parser's time grows with its square
                    raise RecursionError
            elif isinstance(event, yaml.CollectionEndEvent):
                items: Any = open_.pop()
                if isinstance(event, yaml.MappingEndEvent):
                    items = dict(zip(items[::2], items[1::2], strict=True))
                open_[-1].append(items)
    except (yaml.YAMLError, TypeError) as error:  # a list or a mapping as a key
        if "nesting depth" in str(error):  # libyaml has had a limit of its own since 0.2.6
            raise RecursionError from None
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise ImportFileError([f"{place}it is not YAML."]) from None
    if len(top) > 1:
        raise ImportFileError([f"It holds {len(top)} YAML documents. Put each in its own file."])
    return top[0] if top else None


def _from_dev_memory(fields: Any) -> Any:
    """The category becomes a tag. The context, for which there is no field here, is appended to the
    text, so that nothing is lost.
    """
    if not isinstance(fields, dict) or not {"category", "context"} & fields.keys():
        return fields
    fields = dict(fields)
    tags = fields.get("tags") or []
    if isinstance(tags, str):
        tags = [tags]
    if isinstance(tags, list) and isinstance(fields.get("category"), str):
        fields["tags"] = [fields.pop("category"), *tags]
    content, context = fields.get("content"), fields.get("context")
    if isinstance(content, str) and isinstance(context, str) and context.strip():
        fields["content"] = f"{content.strip()}\nContext: {context.strip()}"
        del fields["context"]
    return fields
