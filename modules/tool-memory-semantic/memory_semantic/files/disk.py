"""Files that survive a crash and that nobody else can read."""

import mmap
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# Linux's MADV_POPULATE_READ, for which Python's mmap has no name: read and map all of it.
_POPULATE_READ = 22
# Up to this size, a file is read into memory with its holes.
_SMALL = 4 * 1024 * 1024


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` with mode 0600: all of it or nothing, and on disk on return."""
    temporary = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def pinned(folder: Path) -> Iterator[Path]:
    """A path that still means this `folder` if it is moved or deleted meanwhile.

    The engine creates missing folders: opened by name, a deleted folder would come back half empty.
    Only Linux has such paths; elsewhere this is `folder` itself.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        own = Path(f"/proc/self/fd/{descriptor}")
        yield own if own.is_dir() else folder
    finally:
        os.close(descriptor)


@contextmanager
def kept_in_cache(files: Iterable[Path]) -> Iterator[None]:
    """Load `files` into the page cache and keep them there, by mapping them. Linux only; each file
    takes a descriptor. An error only costs time.
    """
    with ExitStack() as mapped:
        for path in files if sys.platform == "linux" else ():
            with suppress(OSError, ValueError), path.open("rb") as file:  # ValueError: it is empty
                pages = mapped.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
                whole = [(0, len(pages))]
                for start, end in whole if len(pages) <= _SMALL else _data(file.fileno()):
                    pages.madvise(_POPULATE_READ, start, end - start)
        yield


def _data(descriptor: int) -> Iterator[tuple[int, int]]:
    # Where a sparse file holds data: the holes in a large one would fill memory with zeros.
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # there is no more
            return
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start - start % mmap.PAGESIZE, end


def size(folder: Path) -> int:
    """The total size of the files in `folder` in bytes, holes included."""
    return sum(path.lstat().st_size for path in _all_in(folder))


def remove(path: Path) -> None:
    """Remove a file or a folder if it exists; what an interruption leaves of it ends in .tmp."""
    if path.is_dir() and not path.is_symlink():
        doomed = path.with_suffix(".tmp")
        if path != doomed:
            shutil.rmtree(doomed, ignore_errors=True)
            path.rename(doomed)
        while doomed.exists():
            with suppress(FileNotFoundError):  # another process removes it as well
                shutil.rmtree(doomed)
    else:
        path.unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Take all rights in `folder` from group and others; the engine creates its files as 0644."""
    for path in _all_in(folder):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            path.chmod(mode & 0o700)


def settle(folder: Path) -> None:
    """Make a new `folder` private, and flush it and everything in it to disk."""
    make_private(folder)
    for path in _all_in(folder):
        sync(path)


def _all_in(folder: Path) -> Iterator[Path]:
    # Each folder after its contents. Runs at every open and close, and os.walk is fast.
    for path, _, names in os.walk(folder, topdown=False):
        yield from (Path(path, name) for name in names)
        yield Path(path)
