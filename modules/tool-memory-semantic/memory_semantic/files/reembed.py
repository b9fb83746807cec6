"""Gives a store another embedding model while it stays in use.

The new vectors are gathered beside the shard (`vectors`), which goes on with the present model.
Once no text lacks one, a new shard is made with them (`swap`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import TypeVar
from uuid import UUID

from ..backend import Progress
from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, EmbeddingError, RefusedTextError, StorageError
from ..limits import EMBEDDED_AT_ONCE
from ..memory import Memory
from ..store import StoreInfo
from . import disk
from .access import FileAccess
from .folder import AgentFolder
from .store import FileStore
from .vectors import Vectors, add, path_of

T = TypeVar("T")


async def reembed(
    access: FileAccess, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress
) -> int:
    """See `Backend.reembed`."""
    folder = access.folder
    present = await access.info()
    path = path_of(folder.database, info)

    async def run(work: Callable[[FileStore], T]) -> T:
        done = await access.run(lambda store: (work(store),), expect=present)
        if done is None:
            raise StorageError(f"The agent {folder.agent_id!r} has no store here.", UNCHANGED)
        return done[0]

    def swap_or_lack(store: FileStore) -> tuple[int, list[UUID]]:
        """How many memories there are, and those that lack a vector; if none does, swaps."""
        keys = store.keys()
        if store.info.embedder == info.embedder:
            if store.info.words != info.words:
                store.swap(info, lambda record: record, len(keys))
            discard(folder)  # what one that was interrupted, or killed after its swap, has left
            return len(keys), []
        with closing(Vectors(path)) as vectors:
            lacking = [key for key in keys if key not in vectors]
            if not lacking:
                store.swap(
                    info,
                    lambda each: each._replace(vector=vectors[each.key]),
                    len(keys),
                    with_vectors=False,
                )
                discard(folder)
        return len(keys), lacking

    while True:
        number, lacking = await run(swap_or_lack)
        progress(number - len(lacking), number)
        if not lacking:
            return number
        for done, keys in batches(lacking):
            memories = await run(lambda store, keys=keys: store.get(keys, with_vectors=False))
            new = await embedded(list(memories.values()), generator)

            def gather(store: FileStore, new: list[tuple[UUID, list[float]]] = new) -> None:
                # What was forgotten meanwhile is not gathered.
                there = store.get((key for key, _ in new), with_vectors=False)
                add(path, ((key, vector) for key, vector in new if key in there))

            await run(gather)
            progress(number - len(lacking) + done, number)


async def embedded(
    memories: Sequence[Memory], generator: EmbeddingGenerator
) -> list[tuple[UUID, list[float]]]:
    """The key of each memory, and its vector. Raises EmbeddingError."""
    try:
        vectors = await generator.generate_batch([memory.content for memory in memories])
    except RefusedTextError as error:
        refused = ", ".join(memory.sized for memory in memories if memory.key in error.keys)
        raise EmbeddingError(f"{error} The store keeps its model. Refused: {refused}.") from error
    return [(memory.key, vector) for memory, vector in zip(memories, vectors, strict=True)]


def batches(lacking: Sequence[T]) -> Iterator[tuple[int, Sequence[T]]]:
    """What is embedded at once, and how many are done with it."""
    for start in range(0, len(lacking), EMBEDDED_AT_ONCE):
        some = lacking[start : start + EMBEDDED_AT_ONCE]
        yield start + len(some), some


def discard(folder: AgentFolder) -> None:
    """Remove all vectors that are gathered; if that fails, the next run tries again."""
    for path in folder.gathered:
        with suppress(OSError):
            disk.remove(path)
