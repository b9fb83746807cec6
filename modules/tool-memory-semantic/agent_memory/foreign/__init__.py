"""What other tools remember, recognised by its shape: one file for each family of forms.

Of a conversation only what was saved as a memory is read. Nothing is unpacked to disk, or run.
"""

import os
import subprocess
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

# Folders of what others wrote, or programs made; git may track them, too.
_OTHERS = {"node_modules", "vendor", "venv", ".venv", "env", "build", "dist", "out", "target"}
_Path = Path | zipfile.Path


def recognise(path: Path, below: bool = False) -> Iterable[Entry]:
    """What a file, or the files in a folder or a zip file, hold of other tools' memories, each text
    once; with `below`, also the rules files that git tracks in the folders below. A file in which
    there are none is one of our own. Raises InputError for what is no file, and for a folder or a
    zip file that is damaged or holds none at all.
    """
    if not (path.is_file() or path.is_dir()):
        raise InputError("It is a pipe or a device. Its text can come on standard input.")
    found, packed, files = dict[str, Entry](), None, list[_Path]([path])
    alone = not (path.is_dir() or zipfile.is_zipfile(path))
    try:
        if not alone:
            packed = None if path.is_dir() else path.stat().st_size
            root = zipfile.Path(path) if packed else path
            # Data exports of Claude's have these folders.
            names = [name for name in ("memories", "projects") if not (path / name).is_symlink()]
            folders = [root, *(root / name for name in names)]
            files = [file for each in folders if each.is_dir() for file in each.iterdir()]
            files += _tracked(path) if below else []
            files = [file for file in files if not Path(str(file)).is_symlink()]
        notes = alone or any(file.name == "MEMORY.md" for file in files)
        for file in sorted(files, key=str):
            entries = list(_entries(file, packed, notes))
            if not any(entry.kind for entry in entries):
                continue
            name = file.name if alone else str(file).removeprefix(f"{path}/")
            when = _written(file if isinstance(file, Path) else path)
            for number, entry in enumerate(entries, start=1):
                place = f"{name}, {entry.place or f'item {number}'}"
                text = entry.fields["content"] if entry.kind else place
                found.setdefault(text, entry._replace(place=place, written=when))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise InputError("It is a damaged or locked zip file.") from None
    if found:
        return found.values()
    if not alone or path.name.endswith((".md", "conversations.json", "projects.json")):
        raise InputError("No memories of another tool are recognised in it.")
    with path.open("rb") as stream:
        return formats.entries(read_all(stream.read), path.name, _written(path))


def _written(file: Path) -> datetime:
    """When the file was written, but not in the future."""
    return datetime.fromtimestamp(min(file.stat().st_mtime, time()), UTC)


def _tracked(folder: Path) -> list[Path]:
    """The rules files that git tracks in the folders below, but not in those of others."""
    # The folder may be of somebody else: git must not run what its settings name.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), "ls-files", "-z", "--"]
    command += [f":(glob)*/**/{name}" for name in markdown.RULES]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise InputError("git tracks no files in it.") from None
    paths = [Path(os.fsdecode(name)) for name in listed.split(b"\0")]
    return [folder / path for path in paths if not _OTHERS & {*path.parts}]


def _entries(file: _Path, packed: int | None, notes: bool) -> Iterator[Entry]:
    json = file.name.endswith((".json", ".jsonl"))
    if not ((json or file.name.endswith((".md", ".cursorrules"))) and file.is_file()):
        return
    with file.open("rb") as stream:
        data = read_all(stream.read, packed)
    with suppress(InputError, RecursionError):  # no text, or nested too deeply
        text = formats.text_of(data)
        if not json:
            yield from markdown.entries(file.name, text, notes)
            return
        for line, value in formats.json_values(text):
            torn = isinstance(value, InputError)
            yield from [Entry(f"line {line}", value)] if torn else records.entries(value)
