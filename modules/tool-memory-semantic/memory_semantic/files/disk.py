"""Files that survive a crash and are nobody else's business."""

import mmap
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# Linux's MADV_POPULATE_READ, which Python's mmap has no name for: read in, and map, all of it.
_POPULATE_READ = 22
# Up to this size a file is worth having in memory with its holes.
_SMALL = 4 * 1024 * 1024


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` into `path`, mode 0600: all of it or nothing, and on disk on return."""
    temporary = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def pinned(folder: Path) -> Iterator[Path]:
    """A path to `folder` that stays its own if it is moved or deleted in the meantime.

    The engine makes folders that are missing: by its name, a folder would come back half empty.
    Only Linux has such paths; elsewhere it is the name.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        own = Path(f"/proc/self/fd/{descriptor}")
        yield own if own.is_dir() else folder
    finally:
        os.close(descriptor)


@contextmanager
def kept_in_cache(files: Iterable[Path]) -> Iterator[None]:
    """Have `files` in the page cache, and keep them from being dropped from there: what is mapped
    stays. Linux only; each file takes a descriptor. An error only costs time.
    """
    with ExitStack() as mapped:
        for path in files if sys.platform == "linux" else ():
            with suppress(OSError, ValueError), path.open("rb") as file:  # an empty file cannot be
                pages = mapped.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
                whole = [(0, len(pages))]
                for start, end in whole if len(pages) <= _SMALL else _data(file.fileno()):
                    pages.madvise(_POPULATE_READ, start, end - start)
        yield


def _data(descriptor: int) -> Iterator[tuple[int, int]]:
    # Where a sparse file holds data: the holes of a large one would fill memory with zeros.
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # there is no more
            return
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start - start % mmap.PAGESIZE, end


def size(folder: Path) -> int:
    """How many bytes the files in `folder` have together, holes included."""
    return sum(path.lstat().st_size for path in _all_in(folder))


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there; what an interruption leaves of it ends in .tmp."""
    if path.is_dir() and not path.is_symlink():
        doomed = path.with_suffix(".tmp")
        if path != doomed:
            shutil.rmtree(doomed, ignore_errors=True)
            path.rename(doomed)
        shutil.rmtree(doomed)
    else:
        path.unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Take every right in `folder` from group and others; the engine makes its files 0644."""
    for path in _all_in(folder):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            path.chmod(mode & 0o700)


def settle(folder: Path) -> None:
    """Make a new `folder` private, and bring it and everything in it to disk."""
    make_private(folder)
    for path in _all_in(folder):
        sync(path)


def _all_in(folder: Path) -> Iterator[Path]:
    # Each folder after what is in it. At every open and close, so the fast way.
    for path, _, names in os.walk(folder, topdown=False):
        yield from (Path(path, name) for name in names)
        yield Path(path)
