"""Which reader a file, a folder, a zip file or an address is for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import formats
from . import chats, qdrant, records
from .haul import Haul
from .markdown import Notes
from .tree import Tree

_QDRANT_FOLDER = (
    "It is a local folder of the Qdrant client, whose texts are pickled: reading it could run what "
    "somebody put there. Start a Qdrant server, copy the collection to it with the client's "
    "migrate(), and import from its address: http://localhost:6333/collections/NAME"
)


def read(source: str) -> Haul | None:
    """What `source` holds of others' memories; None if it is to be read as a file of our own.
    Raises ImportFileError for a folder or zip file in which nothing is recognised, or that must not
    be read.
    """
    haul = Haul()
    if source.startswith(("http://", "https://")):
        qdrant.read(source, haul)
        return haul
    path = Path(source)
    if not (path.is_dir() or path.is_file()):  # a pipe, which can be read once
        return None
    tree = Tree(path)
    if any(Path(name).match("collection/*/storage.sqlite") for name in tree.names):
        raise formats.ImportFileError([_QDRANT_FOLDER])
    many = path.is_dir() or not tree.on_disk
    markdown = [name for name in tree.names if name.endswith(".md")]
    notes = Notes(
        markdown if many or path.name.endswith(".md") else [],
        lambda name: _text(tree, name),
        lambda name: tree.file(name) if tree.on_disk else None,
    )
    recognised = False
    for name in tree.names:
        if not _add(tree, notes, name, haul):
            haul.left[Path(name).name if name.endswith((".json", ".md")) else _files(name)] += 1
        else:
            recognised = True
    if recognised:
        return haul
    if many:
        names = ", ".join(sorted({Path(name).name for name in tree.names})[:5]) or "nothing"
        raise formats.ImportFileError([f"Nothing in it is recognised. It holds {names}."])
    return None


def _add(tree: Tree, notes: Notes, name: str, haul: Haul) -> bool:
    if name.endswith(".md"):
        return notes.add(name, tree.written(name), haul)
    if not name.endswith((".json", ".jsonl")):
        return False
    try:
        values = list(_values(_text(tree, name)))
    except (ValueError, RecursionError):
        return False
    written = tree.written(name)
    whole = len(values) == 1 and chats.read(values[0], written, haul)
    return whole or bool(values and records.read(values, written, haul))


def _text(tree: Tree, name: str) -> str:
    data = tree.read(name)
    try:
        return formats.text_of(data, name)
    except formats.ImportFileError:  # it is no text, and so holds none
        return ""


def _values(text: str) -> Iterator[Any]:
    """The JSON document, or those of the lines."""
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())


def _files(name: str) -> str:
    return f"{Path(name).suffix or Path(name).name} files"
