"""Files of our own as `import` reads them: exports and other JSON, dev-memory's YAML, lines."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from typing import Any, NamedTuple

from memory_semantic import InputError, counted

from . import files

# How memories in JSON begin, broken JSON included. A note, too, may begin with a bracket.
_JSON_BEGINS = re.compile(r'\s*(?:\{\s*"|\[\s*[{"]|\[\]\s*\Z)')
_YAML_BEGINS = re.compile(r"\s*(?:memories:|- id:)")
_JSON = json.JSONDecoder()
_VISIBLE, _OBJECT = re.compile(r"\S"), re.compile(r'\{\s*"')


class Entry(NamedTuple):
    """What may be a memory: its place in a file; its fields, as in an export, or why they cannot
    be read; when it was written, if only its file tells; if it is another tool's, the tag that says
    whose, and its kind; and, if it is in an export, of which agent.
    """

    place: str
    fields: Any
    written: datetime | None = None
    tag: str | None = None
    kind: str = ""
    agent: str | None = None


def text_of(data: bytes) -> str:
    """The text of a file, which may be packed with gzip. Raises InputError if it is none."""
    if data.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(BytesIO(data)) as file:
                data = files.read_all(file.read, len(data))
        except (OSError, EOFError, zlib.error):
            raise InputError("It is packed with gzip, but damaged or incomplete.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        advice = files.encoding_advice(data)
        raise InputError(f"It is not UTF-8 text. If an archive, unpack it. {advice}")
    return text.replace("\r\n", "\n")


def entries(data: bytes, name: str, written: datetime | None = None) -> Iterator[Entry]:
    """What may be memories in a file of our own, called `name` and `written` then. Raises
    InputError if it is of no such kind, and RecursionError if it is nested too deeply.
    """
    text, name = text_of(data), name.lower().removesuffix(".gz")
    if name.endswith((".csv", ".tsv")):
        raise InputError('It is a table. Make each row a line such as {"content": "…"}.')
    if name.endswith((".yaml", ".yml")) or _YAML_BEGINS.match(text):
        found = _of_yaml(text)
    elif name.endswith((".json", ".jsonl")) or _JSON_BEGINS.match(text):
        found = _of_json(text)
    else:
        lines = enumerate(text.splitlines(), start=1)
        found = (Entry(f"line {n}", {"content": line}) for n, line in lines if line.strip())
    return (e._replace(fields=_from_dev_memory(e.fields), written=written) for e in found)


def json_values(text: str) -> Iterator[tuple[int, Any]]:
    """Each JSON value in `text`, one after another, and the line that it begins on. For one that is
    torn comes an InputError, and then each whole object inside and after it.
    """
    line, end, following = 1, 0, _VISIBLE
    while found := following.search(text, end):
        line += text.count("\n", end, found.start())
        try:
            value, end = _JSON.raw_decode(text, found.start())
        except ValueError:  # also for a number with thousands of digits
            value, end = InputError("it is not a whole JSON object."), found.start() + 1
            following = _OBJECT
        yield line, value
        line += text.count("\n", found.start(), end)


def _of_json(text: str) -> Iterator[Entry]:
    """From objects, each on one line or on several, and lists of them."""
    from memory_semantic import exchange

    agent, promised, seen = None, 0, 0
    latest: dict[str, Entry] | None = None  # of each text, in a store's journal
    for line, value in json_values(text):
        if isinstance(value, dict) and "format" in value and "content" not in value:
            try:
                header = exchange.Header.model_validate(value)
            except ValueError:
                newer = "If it is of a newer one, upgrade agent-memory."
                raise InputError(f"line {line}: no export of this version. {newer}") from None
            agent, promised = header.agent, promised + header.memories  # several may be joined
            latest = (latest or {}) if header.shard else latest
            continue
        several = value if isinstance(value, list) else [value]
        for number, fields in enumerate(several, start=1):
            place = f"memory {number}" if several is value else f"line {line}"
            entry = Entry(place, fields, agent=agent)
            if latest is None or not isinstance(fields, dict):
                yield entry
            else:
                fields.pop(exchange.NUMBER, None)
                latest[str(fields.get("content"))] = entry
        seen += len(several) if not isinstance(value, InputError) else 0
    yield from (latest or {}).values()
    if seen < promised:
        yield Entry("the end", InputError(f"it comes early, after {seen} of {counted(promised)}."))


def _of_yaml(text: str) -> Iterator[Entry]:
    """From a list of memories, whose values stay as people wrote them; an alias could be a bomb."""
    import yaml

    try:
        content = yaml.load(text, yaml.BaseLoader)
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise InputError("It has YAML aliases (*name). Write out what they stand for.")
    except yaml.YAMLError as error:
        raise InputError(f"It is not one document of YAML: {error}") from None
    found = content.get("memories") if isinstance(content, dict) else content
    if not isinstance(found, list):
        raise InputError("It holds no list of memories.")
    yield from (Entry(f"memory {number}", fields) for number, fields in enumerate(found, start=1))


def _from_dev_memory(fields: Any) -> Any:
    """The category becomes a tag. The context, for which there is no field here, is appended to the
    text, so that nothing is lost.
    """
    match fields:
        case {"content": str(content), "context": str(context), **rest} if context.strip():
            fields = {**rest, "content": f"{content.strip()}\nContext: {context.strip()}"}
    match fields:
        case {"category": str(category), **rest} if isinstance(rest.setdefault("tags", []), list):
            fields = {**rest, "tags": [category, *rest["tags"]]}
    return fields
