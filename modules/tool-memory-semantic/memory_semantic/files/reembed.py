"""Gives a store another embedding model while it stays in use.

The new vectors are gathered beside the shard (`vectors`), which goes on with the present model.
Once no text lacks one, a new shard is made with them (`swap`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, RefusedTextError, StorageError
from ..limits import EMBEDDED_AT_ONCE
from ..memory import Memory
from ..points import Point, StoreInfo
from ..store import Store
from .place import FilePlace
from .points import FilePoints
from .vectors import Vectors, add, path_of

T = TypeVar("T")
# Called with how many are done, and of how many.
Progress = Callable[[int, int], None]


async def reembed(
    place: FilePlace, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress
) -> int:
    """See `upkeep.reembed`."""
    folder = place.folder
    present = await place.info()
    path = path_of(folder.database, info)

    async def run(work: Callable[[FilePoints], T]) -> T:
        done = await place.on_points(lambda points: (work(points),), expect=present)
        if done is None:
            raise StorageError(f"The agent {folder.agent_id!r} has no store here.", UNCHANGED)
        return done[0]

    def swap_or_lack(points: FilePoints) -> tuple[int, list[UUID]]:
        """How many memories there are, and those that lack a vector; if none does, swaps."""
        keys = points.keys()
        if points.info.embedder == info.embedder:
            if points.info.words != info.words:
                points.make_anew(info, lambda point: point, len(keys))
            folder.discard_gathered()  # what an interrupted run, or one killed then, has left
            return len(keys), []
        with closing(Vectors(path)) as vectors:
            lacking = [key for key in keys if key not in vectors]
            if not lacking:
                points.make_anew(info, partial(_with_vector, vectors), len(keys), vectors=False)
                folder.discard_gathered()
        return len(keys), lacking

    while True:
        number, lacking = await run(swap_or_lack)
        progress(number - len(lacking), number)
        if not lacking:
            return number
        for done, keys in batches(lacking):
            there = await run(lambda points, keys=keys: Store(points).get(keys))
            new = await embedded(list(there.values()), generator)
            await run(partial(_gather, path, new))
            progress(number - len(lacking) + done, number)


def _with_vector(vectors: Vectors, point: Point) -> Point:
    return point._replace(vector=vectors[point.key])


def _gather(path: Path, new: Sequence[tuple[UUID, list[float]]], points: FilePoints) -> None:
    # What was forgotten meanwhile is not gathered.
    there = {point.key for point in points.get([key for key, _ in new])}
    add(path, ((key, vector) for key, vector in new if key in there))


async def embedded(
    memories: Sequence[Memory], generator: EmbeddingGenerator
) -> list[tuple[UUID, list[float]]]:
    """The key of each memory, and its vector. Raises EmbeddingError."""
    try:
        vectors = await generator.generate_batch([memory.content for memory in memories])
    except RefusedTextError as error:
        refused = ", ".join(memory.sized for memory in memories if memory.key in error.keys)
        error.remedy += f" Refused: {refused}."
        raise
    return [(memory.key, vector) for memory, vector in zip(memories, vectors, strict=True)]


def batches(lacking: Sequence[T]) -> Iterator[tuple[int, Sequence[T]]]:
    """What is embedded at once, and how many are done with it."""
    for start in range(0, len(lacking), EMBEDDED_AT_ONCE):
        some = lacking[start : start + EMBEDDED_AT_ONCE]
        yield start + len(some), some
