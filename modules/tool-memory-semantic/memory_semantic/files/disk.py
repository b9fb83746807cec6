"""Files that survive a crash and that nobody else can read, and the room for them."""

import mmap
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..errors import StorageError, readable_size
from ..limits import MIN_FREE_BYTES

# Linux's MADV_POPULATE_READ, for which Python's mmap has no name: read and map all of it.
_POPULATE_READ = 22
# Up to this size, a file is read into memory with its holes.
_SMALL = 4 * 1024 * 1024


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write `content` to `path` with mode 0600: all of it or nothing, and on disk on return."""
    prepare(path, content)
    replace(path)


def prepare(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write what `replace` will put in the place of `path`; it is on disk on return."""
    temporary = _temporary(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(descriptor)


def replace(path: Path) -> None:
    """Put what `prepare` has written in the place of `path`; that is on disk on return."""
    _temporary(path).replace(path)
    sync(path.parent)


def discard(path: Path) -> None:
    """Remove what `prepare` has written for `path`, if it was interrupted before `replace`."""
    remove(_temporary(path))


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp")


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
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


def size(folder: Path, holes: bool = True) -> int:
    """The total size of the files in `folder` in bytes; without `holes`, what they take on disk."""
    total = 0
    for path in _all_in(folder):
        with suppress(FileNotFoundError):  # another process is at work
            found = path.lstat()
            total += found.st_size if holes else found.st_blocks * 512
    return total


def require_space(folder: Path, rewritten: int = 0) -> None:
    """Raise StorageError if the disk of `folder` is too full to use a store on it safely, or to
    write `rewritten` bytes besides: the store anew.
    """
    free, needed = shutil.disk_usage(folder).free, MIN_FREE_BYTES + rewritten
    if free < needed:
        what = f"{readable_size(MIN_FREE_BYTES)} to use a store on it safely"
        if rewritten:
            what += f", and {readable_size(rewritten)} to write the store anew"
        raise StorageError(
            f"The disk mounted at {_mount_point(folder)} is too full: {readable_size(free)} "
            f"are free, but it takes {what}. Free {readable_size(needed - free)} there by deleting "
            "other files or moving them away."
        )


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


def make_durable(folder: Path) -> None:
    """Make a new `folder` private, and flush it and everything in it to disk."""
    make_private(folder)
    for path in _all_in(folder):
        sync(path)


def _all_in(folder: Path) -> Iterator[Path]:
    # Each folder after its contents. Runs at every open and close, and os.walk is fast.
    for path, _, names in os.walk(folder, topdown=False):
        yield from (Path(path, name) for name in names)
        yield Path(path)


def _mount_point(path: Path) -> Path:
    path = Path(os.path.realpath(path))
    while not path.is_mount():
        path = path.parent
    return path
