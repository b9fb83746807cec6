"""What other tools remember, recognised by its shape: one file for each family of forms.

Of a conversation only what was saved as a memory is read. Nothing is unpacked to disk, or run.
"""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time

from memory_semantic import InputError

from ..files import read_all
from ..formats import Entry, json_values, text_of
from . import markdown, records


def recognise(path: Path) -> tuple[list[Entry], int]:
    """What a file, or the files in a folder or a zip file (but in none of its folders), hold of
    other tools' memories, each text once, and how many of them hold none. Raises InputError
    for a folder or a zip file that is damaged or holds none at all.
    """
    found, unread, files = dict[str, Entry](), 0, [path]
    try:
        if path.is_dir():
            files = sorted(each for each in path.iterdir() if not each.is_symlink())
        elif path.is_file() and zipfile.is_zipfile(path):
            files = list(zipfile.Path(path).iterdir())
        notes = any(file.name == "MEMORY.md" for file in files)
        for file in files:
            entries = list(_entries(file, notes))
            unread += not entries
            when = written(file if isinstance(file, Path) else path)
            for entry in entries:
                found.setdefault(entry.fields["content"], entry._replace(written=when))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise InputError("It is a damaged or locked zip file.") from None
    if not found and files != [path]:
        raise InputError("No memories of another tool are recognised in it.")
    return list(found.values()), unread


def written(file: Path) -> datetime:
    """When the file was written, but not in the future."""
    return datetime.fromtimestamp(min(file.stat().st_mtime, time()), UTC)


def _entries(file: Path | zipfile.Path, notes: bool) -> Iterator[Entry]:
    if not (file.is_file() and file.name.endswith((".md", ".json", ".jsonl"))):
        return
    with suppress(InputError, RecursionError), file.open("rb") as stream:  # no text, or no JSON
        text = text_of(read_all(stream.read))
        if file.name.endswith(".md"):
            yield from markdown.entries(file.name, text, notes)
        else:
            for _, value in list(json_values(text)):  # a fault anywhere refuses all of it
                yield from records.entries(value)
