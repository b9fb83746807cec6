"""The files that a person names: a folder, a zip file, or one file. Nothing is written anywhere."""

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

from .. import formats

# More than an export, a folder of notes or a project has; with more, the wrong one was named.
MAX_FILES = 20_000
# The files that are read; the others are only counted.
READ = (".json", ".jsonl", ".md")


class Source(NamedTuple):
    """A file: its name, with `/` between folders, its size in bytes, when it was written, if that
    is known, and where it is, unless in a zip file.
    """

    name: str
    size: int
    written: datetime | None
    open: Callable[[], IO[bytes]]
    path: Path | None = None

    def text(self) -> str:
        """What it says; nothing if it is no text. Raises ImportFileError if it is damaged."""
        try:
            with self.open() as file:
                data = formats.read_all(file.read)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError):
            raise formats.ImportFileError([f"{self.name} is damaged or locked."]) from None
        try:
            return formats.text_of(data, self.name)
        except formats.ImportFileError:
            return ""


def files_at(path: Path) -> list[Source]:
    """All files at `path`. Raises ImportFileError if there are too many, or they are too large."""
    try:
        found = _zipped(path) if zipfile.is_zipfile(path) else _files(path)
        known = list(islice(found, MAX_FILES + 1))
    except zipfile.BadZipFile:
        raise formats.ImportFileError(["It is a damaged zip file."]) from None
    size = sum(each.size for each in known if each.name.endswith(READ))
    if len(known) > MAX_FILES or size > formats.MAX_BYTES:
        most = f"{MAX_FILES:,} files or {formats.MAX_BYTES // 2**20:,} MB"
        raise formats.ImportFileError([f"It holds more than {most}."])
    return sorted(known)


def written(path: Path) -> datetime | None:
    """When the file was written; None if its file system gives an impossible time."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (ValueError, OverflowError):
        return None


def _files(path: Path) -> Iterator[Source]:
    """Without links, and hidden folders other than `.claude`."""
    found = [path] if path.is_file() else _walk(path)
    for file in found:
        if file.is_file() and (file == path or not file.is_symlink()):
            name = file.name if file == path else file.relative_to(path).as_posix()
            yield Source(
                name, file.stat().st_size, written(file), lambda f=file: f.open("rb"), file
            )


def _walk(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):  # follows no links
        folders[:] = [each for each in folders if each == ".claude" or each[0] != "."]
        yield from (Path(folder, name) for name in names)


def _zipped(path: Path) -> Iterator[Source]:
    file = zipfile.ZipFile(path)
    for info in file.infolist():
        try:
            when = datetime(*info.date_time, tzinfo=UTC)  # it names no zone
        except ValueError:
            when = None
        if not info.is_dir():
            yield Source(info.filename, info.file_size, when, lambda i=info: file.open(i))
