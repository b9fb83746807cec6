"""Makes a new store from what is left of one that is damaged or lost: its shard, as far as the
engine can read it, and its journal.

The shard is put aside first, as `damaged-3` in the agent's folder, so that nobody stores in it
meanwhile; whatever interrupts the repair, the next one reads it there. A shard that was read whole
is removed in the end.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..embeddings.choice import choose, info_for
from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, EmbeddingError, StorageError, counted, explained
from ..exchange import number_of
from ..findings import removal
from ..limits import EMBEDDED_AT_ONCE
from ..memory import Memory
from ..points import StoreInfo, point_of
from ..settings import StorageConfig
from .doctor import Readable, readable
from .folder import AgentFolder, Manifest
from .place import FilePlace
from .points import swap
from .reembed import Progress, batches, embedded
from .vectors import Vectors, add, path_of

# How an error ends that comes when the shard is put aside.
_AGAIN = "Nothing is lost, but the store is out of use until a repair is complete: run it again."


@dataclass(frozen=True)
class Repair:
    """What a repair would do: `found` is what to know before agreeing to it. Nothing changes before
    `run`, which returns what it has done. `generator` has to embed `texts`, and is None if there is
    nothing to embed.
    """

    found: str
    run: Callable[[Progress], Awaitable[str]]
    texts: Sequence[Memory] = ()
    generator: EmbeddingGenerator | None = None


class _Left(NamedTuple):
    """What is left of a store: its `memories`, what was read of its shard, and a sentence on it."""

    memories: list[Memory]
    shard: Readable
    found: str


async def plan_repair(place: FilePlace, config: StorageConfig) -> Repair:
    """See `upkeep.repair`. Raises StorageError if nothing is left."""
    folder = place.folder
    folder.database.mkdir(mode=0o700, exist_ok=True)  # it may be lost
    info = _described(folder)
    here = info is not None and info.model.version is not None  # which embeds all of it anew
    if info:  # its model counts, whatever the settings name for new stores
        asked = config.dimensions if config.dimensions == info.model.dimensions else None
        own = {"embedding_model": info.model.model, "dimensions": asked}
        config = config.model_copy(update=own | ({"base_url": None} if here else {}))
    generator = choose(folder.agent_id, config, None if here else info)
    # Vectors that cost something, if they are of this model: `info` is that of their shard.
    shard = folder.shard_that_counts()
    fits = shard is None or number_of(shard.name) == number_of(info and info.shard)
    keeps = info is not None and not generator.on_this_machine and fits
    if info and keeps:
        generator.dimensions = info.model.dimensions  # a vector of another length is an error
    dimensions = info.model.dimensions if info else 0
    left = await place.locked(lambda: _read(folder, dimensions, None))
    if not left.memories:
        raise StorageError(f"{left.found} There is nothing to make a new store from.", UNCHANGED)
    texts = [m for m in left.memories if not (keeps and m.key in left.shard.embedded)]
    words = info.words if info else 0
    if info is None or not keeps:
        made = await info_for(folder.agent_id, config, generator)
        created = info.created if info else made.created
        info = made.model_copy(update={"created": created})
    made_as = info.model_copy(update={"words": words or info.words})

    async def run(progress: Progress) -> str:
        gathered = path_of(folder.database, made_as)
        manifest = await place.locked(lambda: _put_aside(folder))
        from_shard = gathered if keeps else None
        again = await place.locked(lambda: _read(folder, dimensions, from_shard), _AGAIN)
        if len(again.memories) < len(left.memories):
            raise StorageError(f"Less can be read than before. {again.found}", _AGAIN)
        try:
            await _gather(place, again.memories, gathered, generator, progress)
        except EmbeddingError as error:
            error.outcome = _AGAIN
            raise
        finish = partial(_finish, folder, made_as, again, gathered, manifest)
        return await place.locked(finish, _AGAIN)

    found = f"{left.found}\nA new store will be made, with {made_as.model}."
    return Repair(found, run, texts, generator if texts else None)


def _described(folder: AgentFolder) -> Manifest | None:
    """What the store was, by its manifest, or by its journal if that is of a newer shard."""
    header, manifest = folder.journal.ends()[0], folder.readable_manifest()
    if not (header and header.embedding):
        return manifest
    if manifest and number_of(manifest.shard) >= number_of(header.shard):
        return manifest
    return Manifest(
        shard=header.shard or "shard-0",
        agent=header.agent,
        embedding=header.embedding,
        endpoint=header.endpoint,
        words=header.words or 0,
        created=header.exported,
    )


def _put_aside(folder: AgentFolder) -> Manifest | None:
    """Put the shard aside, if it is not yet; returns the manifest."""
    shard = folder.shard_that_counts()
    folder.require_space(shard or folder.database)
    if shard and shard.parent == folder.database:
        folder.journal.path.touch(0o600)  # nobody makes another store beside an empty one
        folder.put_aside(shard)
    return folder.readable_manifest()


def _read(folder: AgentFolder, dimensions: int, gathered: Path | None) -> _Left:
    """Of a text that both have, the shard's record counts, unless the shard has lost some. If one
    of the two is newer and whole, it alone counts: the other may have what was forgotten.
    """
    manifest, path = folder.readable_manifest(), folder.shard_that_counts()
    header, number = folder.journal.ends()
    shard = Readable(0, {}, set(), False)
    if path:
        shard = readable(path, folder.agent_id, dimensions, gathered)
    journal, is_whole = folder.journal.memories()
    named, present = number_of(header and header.shard), number_of(path and path.name)
    # How many the manifest's shard had at least; a newer one may have fewer.
    least = manifest.memories if manifest and present <= number_of(manifest.shard) else 0
    if named == present:
        least = max(least, number or 0, len(journal))
    has_all = shard.whole and shard.stored >= least
    if is_whole and named > present:
        memories = journal
    elif has_all and (0 < named < present or (named == present and number is not None)):
        memories = shard.memories
    elif is_whole and named == present and not has_all:
        memories = shard.memories | journal
    else:
        memories = journal | shard.memories
    only_journal, only_shard = len(memories.keys() - shard.memories), len(memories.keys() - journal)
    most = max(shard.stored, least, len(journal), len(memories))
    found = (
        f"The engine can read {counted(len(shard.memories))}, and the journal has "
        f"{len(journal):,}. Of at least {most:,} that were stored, {len(memories):,} will be "
        f"there: {only_journal:,} from the journal alone, {only_shard:,} from the shard alone, "
        f"{len(memories) - only_journal - only_shard:,} from both."
    )
    return _Left(list(memories.values()), shard._replace(whole=has_all), found)


async def _gather(
    place: FilePlace,
    memories: Sequence[Memory],
    gathered: Path,
    generator: EmbeddingGenerator,
    progress: Progress,
) -> None:
    def lacking() -> list[Memory]:
        with closing(Vectors(gathered)) as vectors:
            return [memory for memory in memories if memory.key not in vectors]

    left = await place.locked(lacking, _AGAIN)
    for done, some in batches(left):
        new = await embedded(some, generator)
        await place.locked(lambda new=new: add(gathered, new), _AGAIN)
        progress(len(memories) - len(left) + done, len(memories))


def _finish(
    folder: AgentFolder, info: StoreInfo, left: _Left, gathered: Path, manifest: Manifest | None
) -> str:
    if folder.readable_manifest() != manifest:
        raise StorageError("Another repair of this store has ended meanwhile.", UNCHANGED)
    aside, number = folder.shard_that_counts(), len(left.memories)
    folder.require_space(aside or folder.database)
    with closing(Vectors(gathered)) as vectors:
        points = (point_of(m)._replace(vector=vectors[m.key]) for m in left.memories)
        pages = iter(lambda: list(islice(points, EMBEDDED_AT_ONCE)), [])
        new = swap(folder, info, pages, number)
    said = f"Repaired: the store has {counted(number)}."
    if aside and left.shard.whole:
        # There, the next call removes it if this is interrupted.
        kept = "what was put aside could not all be removed. The next call tries that again."
        with explained(f"The store is repaired, but {kept}"):
            aside.rename(folder.database / f"{aside.name.replace('damaged', 'shard')}.tmp")
            folder.clear_debris(new)
    elif aside:
        said += f" What could not be read is in {aside}. When you no longer need it: "
        said += removal(aside)
    return said
