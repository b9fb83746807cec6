"""Vectors of another model while they are gathered, for a reembed or a repair: a file in the
database, of records of one length. Whatever interrupts it, the next run goes on with what is there.

    4f1c9a02e37b5d68-1536.vectors   a hash of model, version, dimensions and endpoint; dimensions
        key                         16 bytes
        vector                      4 bytes a number
"""

import os
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO
from uuid import UUID

from ..points import StoreInfo
from . import disk

_KEY_BYTES = 16


def path_of(database: Path, info: StoreInfo) -> Path:
    """The file in `database` in which vectors for the model of `info` are gathered."""
    named = repr((*info.model, info.endpoint)).encode()
    return database / f"{sha256(named).hexdigest()[:16]}-{info.model.dimensions}.vectors"


def add(path: Path, vectors: Iterable[tuple[UUID, Sequence[float]]]) -> None:
    """Add these to the file `path`; they are on disk on return."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.truncate(file.seek(end - end % _size(path)))  # a record that was interrupted
        file.writelines(key.bytes + array("f", vector).tobytes() for key, vector in vectors)
        file.flush()
        os.fsync(descriptor)


class Vectors:
    """The vectors in the file `path`, which may not exist. Must be closed."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] | None = path.open("rb") if path.exists() else None
        self._places = dict(_keys(self._file, _size(path))) if self._file else {}
        self._bytes = _size(path) - _KEY_BYTES

    def close(self) -> None:
        """Release the file."""
        if self._file:
            self._file.close()

    def __contains__(self, key: UUID) -> bool:
        return key in self._places

    def __getitem__(self, key: UUID) -> list[float]:
        assert self._file
        self._file.seek(self._places[key] + _KEY_BYTES)
        return array("f", self._file.read(self._bytes)).tolist()


def forget(path: Path, keys: Collection[UUID]) -> None:
    """Leave the vectors of these texts out of the file `path`, and torn records, too."""
    size = _size(path)
    with path.open("rb") as file:
        left = [place for key, place in _keys(file, size) if key not in keys]
        if len(left) * size < path.stat().st_size:
            disk.write_whole(path, (os.pread(file.fileno(), size, at) for at in left))


def _keys(file: IO[bytes], size: int) -> Iterator[tuple[UUID, int]]:
    """The key of each whole record, and where that begins."""
    end = file.seek(0, os.SEEK_END)
    for place in range(0, end - end % size, size):
        yield UUID(bytes=os.pread(file.fileno(), _KEY_BYTES, place)), place


def _size(path: Path) -> int:
    return _KEY_BYTES + 4 * int(path.stem.rpartition("-")[2])
