"""Memories from one store into another, wherever the two are.

What is known there already is merged, so it is safe to rerun: that resumes after an interruption,
and takes along what was stored meanwhile.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from ..embeddings.generator import EmbeddingGenerator
from ..errors import InputError, StorageError
from ..limits import ALL, EMBEDDING_BATCH
from ..memory import Memory
from ..merging import rename_taken
from ..store import Backend, Store, StoreInfo
from .damaged import DamagedFiles

# Told how many of how many are done.
Progress = Callable[[int, int], None]
Payloads = Mapping[UUID, Mapping[str, Any]]

# As many are read and written at once: others wait for a store for a tenth of a second.
_COPIED = 250
# As many as are embedded: some seconds of work are lost at most.
_EMBEDDED = 4 * EMBEDDING_BATCH
# A vector is kept as float16, and made one of length 1 again at every write: its numbers, which are
# at most 1, may differ by this.
_TOLERANCE = 1e-3


def contents(store: Store) -> tuple[StoreInfo, dict[UUID, Memory]]:
    """What a store is, and its memories by key, the oldest first."""
    return store.info, {memory.key: memory for memory in reversed(store.newest(ALL))}


async def memories_in(backend: Backend) -> dict[UUID, Memory]:
    """By key, the memories of a store, the oldest first; none if there is no store."""
    found = await backend.run(contents)
    return found[1] if found else {}


async def copy(
    keys: Collection[UUID],
    source: Backend,
    target: Backend,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress,
) -> None:
    """Let `target` have those memories of `source` that have these keys, but for any that cannot be
    merged with what is there. `target` is made as `info` says if it is not there.

    Vectors are copied as they are; with a `generator` the texts are embedded. Raises
    ReplacedStoreError if `target` is of another model than `info`.
    """
    await target.run(lambda store: None, create=info)
    for some_keys in _batches(list(keys), generator, progress):
        found = await source.run(lambda store, keys=some_keys: store.get(keys)) or {}
        some = list(found.values())
        await target.run(lambda store, some=some: rename_taken(store, some), create=info)
        await put(some, target, info, generator)


async def fill(
    source: Backend | DamagedFiles,
    target: Backend,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress,
    vectors: Sequence[Backend] = (),
) -> None:
    """Let `target` have what `source` has and nothing else, until few of its texts are missing. The
    rest is as `put` says. Raises StorageError if there is no source.
    """
    missing = EMBEDDING_BATCH + 1
    while missing > EMBEDDING_BATCH:
        found = await target.run(payloads) or {}
        wanted = await fill_once(source, target, found, info, generator, progress, vectors)
        missing = len(wanted.keys() - found.keys())


async def fill_once(
    source: Backend | DamagedFiles,
    target: Backend,
    found: Payloads,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress,
    vectors: Sequence[Backend],
) -> Payloads:
    """As `fill`, for what `source` has now, which is returned; `found` is what `target` holds."""
    wanted = await source.run(payloads)
    if wanted is None:
        raise StorageError(f"The agent {info.agent!r} has no memory here.")
    stale, late = changes(found, wanted)
    await take_out(target, stale)
    done = len(wanted) - len(late)
    progress(done, len(wanted))
    for keys in _batches(late, generator, progress, done):
        some = await source.run(lambda store, keys=keys: store.get(keys)) or {}
        await put(list(some.values()), target, info, generator, vectors)
    return wanted


async def put(
    memories: Sequence[Memory],
    target: Backend,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    vectors: Sequence[Backend] = (),
) -> None:
    """Store these memories in `target` with their vectors; with a `generator` instead with those
    that `target`, or one of the stores `vectors`, has of their texts, else with new ones.
    """
    if generator:
        keys = [memory.key for memory in memories]
        known: dict[UUID, Memory] = {}
        for backend in (*vectors, target):
            known |= await backend.run(lambda store: store.get(keys)) or {}
        texts = [memory.content for memory in memories if memory.key not in known]
        new = await generator.generate_batch(texts) if texts else []
        by_text = {memory.content: memory.embedding for memory in known.values()}
        by_text |= zip(texts, new, strict=True)
        for memory in memories:
            memory.embedding = by_text[memory.content]
    await target.run(lambda store: _merge_in(store, memories), create=info)


def payloads(store: Store | DamagedFiles) -> Payloads:
    """By key, what a store holds of each memory beside its vector; quick, and unverified."""
    return {record.key: record.payload for page in store.scan(False) for record in page}


def changes(found: Payloads, wanted: Payloads) -> tuple[list[UUID], list[UUID]]:
    """What has to be done in a copy that holds what was `found`: the keys to delete, of texts that
    were deleted from the original since, or stored again, which gave them another id; and the keys
    to write, of those it lacks or has as they were before.
    """

    def as_kept(payload: Mapping[str, Any]) -> list[Any]:
        return [payload.get(name) for name in ("id", "timestamp", "tags", "metadata")]

    stale = [
        key
        for key, payload in found.items()
        if key not in wanted or wanted[key].get("id") != payload.get("id")
    ]
    late = [
        key for key in wanted if key not in found or as_kept(wanted[key]) != as_kept(found[key])
    ]
    return stale, late


async def take_out(backend: Backend, keys: Sequence[UUID]) -> None:
    """Delete the texts with these keys, if there are any."""
    if keys:
        await backend.run(lambda store: store.delete(list(store.get(keys).values())))


async def forget_in(copied: Backend, backend: Backend) -> None:
    """Delete from a store what was `copied` from `backend` and deleted, or stored again, there."""
    found = await copied.run(payloads) or {}  # first: what is stored meanwhile is not among it
    stale, _ = changes(found, await backend.run(payloads) or {})
    await take_out(copied, stale)


async def compare(
    copied: Mapping[UUID, Memory],
    source: Backend,
    target: Backend,
    same_model: bool,
    progress: Progress,
) -> dict[UUID, str]:
    """By key, what `target` lacks of each memory that was `copied` from `source`: a sentence, empty
    if it lacks nothing. Compares texts with their hashes, tags, times and, with the `same_model`,
    vectors. What was changed in the source since then, and is not in `target`, is left out.
    """
    faults: dict[UUID, str] = {}
    for keys in _batches(list(copied), None, progress):
        present = await source.run(lambda store, keys=keys: store.get(keys)) or {}
        copies = await target.run(lambda store, keys=keys: store.get(keys)) or {}
        for key, memory in present.items():
            fault = _fault(memory, copies.get(key), same_model)
            if fault is None:
                faults[key] = ""
            elif memory.dict_for_storage() == copied[key].dict_for_storage():
                faults[key] = f"{memory.id}: {fault}."
    return faults


def lacking(memory: Memory, copy: Memory | None) -> str | None:
    """What a copy of the memory, which may have been merged with what was there, lacks of it."""
    if copy is None:
        return "it is not there"
    if not set(memory.tags) <= set(copy.tags):
        return "tags are not there"
    return "its time is an older one" if copy.timestamp < memory.timestamp else None


def _batches(
    keys: Sequence[UUID], generator: EmbeddingGenerator | None, progress: Progress, done: int = 0
) -> Iterator[Sequence[UUID]]:
    size = _EMBEDDED if generator else _COPIED
    for start in range(0, len(keys), size):
        some = keys[start : start + size]
        yield some
        progress(done + start + len(some), done + len(keys))


def _merge_in(store: Store, memories: Sequence[Memory]) -> None:
    try:
        store.update(memories)
    except InputError:  # too many tags, with those that one has there
        if len(memories) > 1:
            for memory in memories:
                _merge_in(store, [memory])


def _fault(memory: Memory, copy: Memory | None, same_model: bool) -> str | None:
    fault = lacking(memory, copy)
    if copy is None or fault:
        return fault
    numbers = zip(memory.embedding, copy.embedding, strict=True) if same_model else ()
    if not all(abs(one - other) <= _TOLERANCE for one, other in numbers):
        return "its vector is another"
    return None
