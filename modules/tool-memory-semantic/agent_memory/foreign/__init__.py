"""What other tools remember, recognised by its shape: one file for each family of forms.

Of a conversation only what was saved as a memory is read. Nothing is unpacked to disk, or run.
"""

import os
import subprocess
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

# Folders of data exports, beside the files in the outermost one.
_FOLDERS = ("memories", "projects")
# Folders of what others wrote, or programs made; git may track them, too.
_OTHERS = {
    *("node_modules", "vendor", "third_party", "venv", ".venv", "env", "site-packages"),
    *("build", "dist", "target", "out"),
}
_Path = Path | zipfile.Path


def recognise(path: Path, below: bool = False) -> tuple[list[Entry], int]:
    """What a file, or the files in a folder or a zip file, hold of other tools' memories, each text
    once, and how many of them hold none; with `below`, also the rules files that git tracks in the
    folders below. Raises InputError for what is no file, and for a folder or a zip file that is
    damaged or holds none at all.
    """
    if not (path.is_file() or path.is_dir()):
        raise InputError("It is a pipe or a device. Its text can come on standard input.")
    found, unread, packed = dict[str, Entry](), 0, None
    root, files = path.parent, list[_Path]([path])
    try:
        if path.is_dir() or zipfile.is_zipfile(path):
            packed = None if path.is_dir() else path.stat().st_size
            root = zipfile.Path(path) if packed else path
            folders = [root, *(root / name for name in _FOLDERS if (root / name).is_dir())]
            files = [each for folder in folders for each in folder.iterdir() if _is_file(each)]
            files += _tracked(path) if below else []
        notes = files == [path] or any(file.name == "MEMORY.md" for file in files)
        for file in sorted(files, key=str):
            entries = list(_entries(file, packed, notes))
            read = any(entry.kind for entry in entries)
            unread += not read
            name = os.path.relpath(str(file), str(root))
            when = written(file if isinstance(file, Path) else path)
            for number, entry in enumerate(entries if read else (), start=1):
                place = f"{name}, {entry.place or f'item {number}'}"
                text = entry.fields["content"] if entry.kind else place
                found.setdefault(text, entry._replace(place=place, written=when, file=name))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise InputError("It is a damaged or locked zip file.") from None
    if not found and (files != [path] or path.suffix == ".md"):
        raise InputError("No memories of another tool are recognised in it.")
    return list(found.values()), unread


def written(file: Path) -> datetime:
    """When the file was written, but not in the future."""
    return datetime.fromtimestamp(min(file.stat().st_mtime, time()), UTC)


def _is_file(file: _Path) -> bool:
    return file.is_file() and not (isinstance(file, Path) and file.is_symlink())


def _tracked(folder: Path) -> Iterator[Path]:
    """The rules files that git tracks in the folders below, but not in those of others."""
    # The folder may be of somebody else: git must not run what its settings name.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), "ls-files", "-z", "--"]
    command += [f":(glob)*/**/{name}" for name in markdown.RULES]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise InputError("git tracks no files in it.") from None
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if not _OTHERS & {*Path(name).parts} and _is_file(folder / name):
            yield folder / name


def _entries(file: _Path, packed: int | None, notes: bool) -> Iterator[Entry]:
    if not file.name.endswith((".md", ".json", ".jsonl", ".cursorrules")):
        return
    with file.open("rb") as stream:
        data = read_all(stream.read, packed)
    with suppress(InputError, RecursionError):  # no text, or nested too deeply
        text = text_of(data)
        if not file.name.endswith((".json", ".jsonl")):
            yield from markdown.entries(file.name, text, notes)
            return
        for line, value in json_values(text):
            torn = isinstance(value, InputError)
            yield from [Entry(f"line {line}", value)] if torn else records.entries(value)
