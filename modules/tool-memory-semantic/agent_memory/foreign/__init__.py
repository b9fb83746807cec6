"""What other tools remember, read for `import`: one file for each family of forms.

A reader recognises a file by its shape, adds to a `Haul` what may become memories, and counts there
by name what it leaves out. Nothing is unpacked to disk, run, or fetched, except from the address of
a Qdrant server that the person names.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ..formats import ImportFileError
from . import chats, qdrant, records
from .haul import Haul
from .markdown import Notes
from .sources import READ, Source, files_at

_QDRANT_FOLDER = (
    "It is a local folder of the Qdrant client, whose texts are pickled: reading it could run what "
    "somebody put there. Start a Qdrant server, copy the collection to it with the client's "
    "migrate(), and import from its address: http://localhost:6333/collections/NAME"
)


def recognise(named: str) -> Haul | None:
    """What a file, a folder, a zip or an address holds of others' memories; None if it is to
    be read as a file of our own. Raises ImportFileError if it is a folder or zip file in which
    nothing is recognised, or must not be read.
    """
    haul, path = Haul(), Path(named)
    if named.startswith(("http://", "https://")):
        qdrant.read(named, haul)
        return haul
    if not (path.is_dir() or path.is_file()):  # a pipe, which can be read once
        return None
    found = files_at(path)
    names = [PurePosixPath(each.name) for each in found]
    if any(name.match("collection/*/storage.sqlite") for name in names):
        raise ImportFileError([_QDRANT_FOLDER])
    notes = Notes([each for each in found if each.name.endswith(".md")])
    taken = [_add(each, notes, haul) for each in found]
    for name, known in zip(names, taken, strict=True):
        if not known:
            other = f"{name.suffix or name.name} files"
            haul.left[name.name if name.suffix in READ else other] += 1
    if any(taken):
        return haul
    if len(found) == 1 and found[0].path == path:
        return None
    some = ", ".join(sorted({name.name for name in names})[:5]) or "nothing"
    raise ImportFileError([f"Nothing in it is recognised. It holds {some}."])


def _add(source: Source, notes: Notes, haul: Haul) -> bool:
    if source.name.endswith(".md"):
        return notes.add(source, haul)
    text = source.text() if source.name.endswith(READ) else ""
    try:
        values = list(_values(text))
    except (ValueError, RecursionError):
        return False
    whole = len(values) == 1 and chats.read(values[0], source.written, haul)
    return whole or bool(values and records.read(values, source.written, haul))


def _values(text: str) -> Iterator[Any]:
    """The JSON document, or those of the lines."""
    try:
        yield json.loads(text)
    except json.JSONDecodeError:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
