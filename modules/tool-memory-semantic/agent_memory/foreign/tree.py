"""The files that a person names: a folder, a zip file, or one file; read within bounds, and never
written anywhere.
"""

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from .. import formats

# More than an export, a vault of notes or a project has; with more, the wrong folder was named.
MAX_FILES = 20_000
# Folders that hold many files and no memories; of hidden ones, only `.claude` is looked into.
_SKIPPED = ("node_modules", "__pycache__")


class Tree:
    """The files by their names, with `/` between folders."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip: zipfile.ZipFile | None = None
        self._size = 0
        if path.is_dir():
            self.names = sorted(self._walk())
            return
        self.names = [path.name]
        if zipfile.is_zipfile(path):
            try:
                self._zip = zipfile.ZipFile(path)
            except zipfile.BadZipFile:
                raise formats.ImportFileError(["It is a damaged zip file."]) from None
            self.names = [each.filename for each in self._zip.infolist() if not each.is_dir()]
        self._bound(len(self.names))

    def read(self, name: str) -> bytes:
        """The whole file. Raises ImportFileError if all files together are too large, or it is
        damaged or locked.
        """
        try:
            with self._zip.open(name) if self._zip else self.file(name).open("rb") as file:
                data = formats.read_all(file.read)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError):
            raise formats.ImportFileError([f"{name} in it is damaged or locked."]) from None
        self._size += len(data)
        if self._size > formats.MAX_BYTES:
            most = formats.MAX_BYTES // 2**20
            raise formats.ImportFileError([f"Its files have more than {most:,} MB."])
        return data

    def written(self, name: str) -> datetime | None:
        """When the file was written, if that is known."""
        try:
            if self._zip:  # a time without a zone
                return datetime(*self._zip.getinfo(name).date_time, tzinfo=UTC)
            return datetime.fromtimestamp(self.file(name).stat().st_mtime, UTC)
        except (ValueError, OverflowError):
            return None

    def file(self, name: str) -> Path:
        """Where the file is, if it is not in a zip file."""
        return self.path / name if self.path.is_dir() else self.path

    @property
    def on_disk(self) -> bool:
        """Whether the files are not in a zip file."""
        return self._zip is None

    def _walk(self) -> Iterator[str]:
        number = 0
        for folder, folders, names in os.walk(self.path):  # follows no links
            folders[:] = [each for each in folders if each == ".claude" or not _skipped(each)]
            for name in names:
                file = Path(folder, name)
                if stat.S_ISREG(file.lstat().st_mode):
                    number += 1
                    self._bound(number)
                    yield file.relative_to(self.path).as_posix()

    def _bound(self, number: int) -> None:
        if number > MAX_FILES:
            raise formats.ImportFileError([f"It holds more than {MAX_FILES:,} files."])


def _skipped(folder: str) -> bool:
    return folder.startswith(".") or folder in _SKIPPED
