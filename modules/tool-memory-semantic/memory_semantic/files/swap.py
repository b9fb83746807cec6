"""A new shard, then swap: the one way to do what is not a store. A forget, another embedding model,
a repair and a new store all make a new shard beside the present one, and one write of the manifest
puts it in its place. So nothing is changed before, and no byte of what was left out is there after.

    1  shard.tmp is filled, flushed, closed, made private and synced
    2  it gets the next number: shard-2
    3  the new journal and the new manifest are written beside the present ones
    4  the manifest replaces the present one: this is the swap
    5  so does the journal; then all other shards are removed
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from ..errors import StorageError, counted, explained
from ..points import Point, StoreInfo
from . import disk
from . import info as manifests
from .edge import LARGE, Shard
from .folder import UNFINISHED, AgentFolder, clear_debris
from .info import Manifest
from .journal import Lines, lines_of

# How an error ends that comes from the swap itself, and one that comes after it.
_MAYBE = "It may or may not be done; doing it again is safe."
_DONE = (
    "It is done, but the files that it replaced could not all be removed, and may still hold what "
    "was forgotten. Any call on the store tries that again."
)


def swap(
    folder: AgentFolder, info: StoreInfo, pages: Iterable[Sequence[Point]], number: int
) -> Manifest:
    """Replace the shard in `folder` by a new one, as `info` describes it, with the `number` of
    memories in `pages`; returns its manifest. Use it under the lock; the present shard must not be
    open when the last page was read.

    Raises StorageError; its `outcome` says if anything was changed.
    """
    database, unfinished = folder.database, folder.database / UNFINISHED
    disk.remove(unfinished)
    lines = Lines()
    large = number >= LARGE
    with closing(Shard.create(unfinished, info, large)) as shard:
        for page in pages:
            lines += lines_of(page, info.agent)
            shard.fill(page)
        if large:
            shard.optimize()
        shard.flush()
        written = shard.count()
    if not written == len(lines) == number:
        raise StorageError(f"The new shard has {written:,} of {counted(number)}. Try again.")
    disk.settle(unfinished)
    lasting = info.model_dump(include=set(StoreInfo.model_fields))
    manifest = Manifest(**lasting | {"shard": folder.next_shard(), "memories": number})
    unfinished.rename(database / manifest.shard)
    disk.sync(database)
    folder.journal.prepare(manifest, lines)
    with explained(_MAYBE):
        manifests.write(database, manifest)
    with explained(_DONE):
        folder.journal.replace()
        clear_debris(database, manifest)
        disk.sync(database)
    return manifest


def require_space(folder: AgentFolder, shard: Path) -> None:
    """Raise StorageError if there is no room for another shard like this one, and its journal."""
    journal = folder.journal.path.stat().st_size if folder.journal.path.is_file() else 0
    disk.require_space(folder.database, 2 * (disk.size(shard, holes=False) + journal))
