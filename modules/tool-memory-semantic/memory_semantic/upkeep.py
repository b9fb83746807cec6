"""What is done with a whole store, wherever it is: functions of its place. On a server, most of
this is up to the server and its operator.
"""

from collections.abc import AsyncIterator, Callable

from .embeddings.choice import info_for
from .embeddings.generator import EmbeddingGenerator
from .errors import UNCHANGED, StorageError
from .examine import examine
from .files import disk, doctor
from .files import reembed as on_files
from .files.place import FilePlace
from .files.repair import Progress, Repair, plan_repair
from .findings import Finding, ShowProgress, removal
from .memory import Memory
from .place import Place
from .points import StoreInfo
from .settings import StorageConfig


def findings(place: Place, config: StorageConfig, progress: ShowProgress) -> AsyncIterator[Finding]:
    """Examine everything; yields each finding after those it depends on. `progress` opens a display
    for what takes long.
    """
    if isinstance(place, FilePlace):
        return doctor.findings(place, config, progress)
    from memory_server import doctor as on_server

    return on_server.findings(place, config, progress)


async def faults(place: Place) -> list[str]:
    """The faults of a store, a sentence each; none if there is no store. Raises StorageError."""
    if isinstance(place, FilePlace):
        found = await place.on_points(doctor.examined_points)
        return found[0] if found else []
    return await place.run(examine) or []


async def repair(place: Place, config: StorageConfig) -> Repair:
    """What a repair of a store with a `repairable` finding would do. Raises StorageError if nothing
    can be done.
    """
    if isinstance(place, FilePlace):
        return await plan_repair(place, config)
    raise StorageError("A store on a server is restored from a snapshot there.", UNCHANGED)


async def reembed(
    place: Place, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress
) -> int:
    """Give the store the model of `info`, which is that of `generator`; returns how many memories
    there are. With the model that it has already, of the same service, nothing is embedded.

    Raises StorageError if there is no store, or if it is on a server. An interruption leaves the
    store unchanged; the next run with the same model embeds no text twice.
    """
    if isinstance(place, FilePlace):
        return await on_files.reembed(place, info, generator, progress)
    from memory_server import doctor as on_server

    raise on_server.no_reembed(place, info)


async def info_with(
    place: Place, config: StorageConfig, generator: EmbeddingGenerator
) -> StoreInfo:
    """What the store will be with vectors from `generator`, which embeds a sample to show that it
    works.
    """
    new = await info_for(place.agent, config, generator)
    present = await place.info()
    if present is None or present.model != new.model:
        return new
    same = {"endpoint": present.endpoint, "words": present.words or new.words}
    return new.model_copy(update=same)


async def memories(place: Place, note: Callable[[str], None]) -> list[Memory]:
    """All memories, oldest first; of a read-only store those of its journal, as `note` is told."""
    if not (isinstance(place, FilePlace) and place.folder.read_only):
        return (await place.run(lambda store: store.newest()) or [])[::-1]
    found, whole = place.folder.journal.memories()
    note(
        f"The store in {place.folder.path} is read-only, which the vector engine cannot use. "
        f"This is its journal, {'which is whole' if whole else 'of which some cannot be read'}."
    )
    return sorted(found.values(), key=lambda memory: memory.timestamp)


def size(place: Place) -> int | None:
    """The bytes that the store takes on this machine; None if it is kept elsewhere."""
    # The engine's files are sparse, and their holes do not count.
    return disk.size(place.folder.path, holes=False) if isinstance(place, FilePlace) else None


def removal_of_damaged(place: Place) -> str:
    """The shell command that removes what repairs have put aside and could not read whole; blank if
    there is nothing.
    """
    damaged = place.folder.damaged if isinstance(place, FilePlace) else []
    return removal(*damaged) if damaged else ""
