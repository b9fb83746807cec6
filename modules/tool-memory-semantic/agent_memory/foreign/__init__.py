"""What other tools remember, recognised by its shape: one file for each family of forms.

Of a conversation only what was saved as a memory is read. Nothing is unpacked to disk, or run.
"""

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time

from memory_semantic import InputError

from .. import formats
from ..files import read_all
from ..formats import Entry
from . import markdown, records

_MARKDOWN = (".md", ".cursorrules")
_Path = Path | zipfile.Path


def recognise(path: Path) -> Iterable[Entry]:
    """What a file, or the files in a folder or a zip file, hold of other tools' memories, each text
    once. A file in which there are none is one of our own. Raises InputError for what is no file,
    and for a folder or a zip file that is damaged or holds none at all.
    """
    if not (path.is_file() or path.is_dir()):
        raise InputError("It is a pipe or a device. Its text can come on standard input.")
    found, several = dict[str, Entry](), path.is_dir() or zipfile.is_zipfile(path)
    try:
        files = _files(path) if several else {path.name: path}
        notes = not several or "MEMORY.md" in files
        for name, file in sorted(files.items()):
            on_disk = file if isinstance(file, Path) else path
            entries = list(_entries(file, on_disk, notes))
            for entry in entries if any(entry.kind for entry in entries) else ():
                place = f"{name}, {entry.place}"
                text = entry.fields["content"] if entry.kind else place
                found.setdefault(text, entry._replace(place=place, written=_written(on_disk)))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise InputError("It is a damaged or locked zip file.") from None
    if found:
        return found.values()
    if several or path.name.endswith((*_MARKDOWN, "conversations.json", "projects.json")):
        raise InputError("No memories of another tool are recognised in it.")
    with path.open("rb") as stream:
        return formats.entries(read_all(stream.read), path.name, _written(path))


def _written(file: Path) -> datetime:
    """When the file was written, but not in the future."""
    return datetime.fromtimestamp(min(file.stat().st_mtime, time()), UTC)


def _files(path: Path) -> dict[str, _Path]:
    """The files in a folder or a zip file, and in the folders that data exports of Claude's have
    there, by their names.
    """
    root = path if path.is_dir() else zipfile.Path(path)
    folders = [root, root / "memories", root / "projects"]
    files = [file for each in folders if each.is_dir() for file in each.iterdir()]
    named = {str(file).removeprefix(f"{path}/"): file for file in files}
    # Without links, which could lead out of it.
    real = path.resolve()
    return {name: file for name, file in named.items() if (path / name).resolve() == real / name}


def _entries(file: _Path, on_disk: Path, notes: bool) -> Iterator[Entry]:
    json = file.name.endswith((".json", ".jsonl"))
    if not ((json or file.name.endswith(_MARKDOWN)) and file.is_file()):
        return
    with file.open("rb") as stream:
        data = read_all(stream.read, on_disk.stat().st_size)
    with suppress(InputError, RecursionError):  # no text, or nested too deeply
        text = formats.text_of(data)
        if not json:
            yield from markdown.entries(file.name, text, notes)
            return
        for line, value in formats.json_values(text):
            entries = records.entries(value)
            yield from (each._replace(place=each.place or f"line {line}") for each in entries)
