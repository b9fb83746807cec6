"""Copies memories from one store to another, wherever the two are.

Memories that the other store already knows are merged. So a copy is safe to rerun: it resumes after
an interruption and includes what was stored meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from .backend import Progress
from .embeddings.generator import EmbeddingGenerator
from .errors import EmbeddingError, InputError, RefusedTextError, StorageError
from .limits import EMBEDDED_AT_ONCE
from .memory import Memory
from .merging import merge
from .store import Access, Record, Store, StoreInfo

T = TypeVar("T")
Payloads = Mapping[UUID, Mapping[str, Any]]

# How many are read and written at once: others wait for the store no longer than for the swap.
_COPIED = 1_000
# A vector is kept as float16 and normalised again at every write: its numbers, which are at most 1,
# may differ by this.
_TOLERANCE = 1e-3


class Readable(Protocol):
    """What can be copied: an open store, or what is left of one."""

    def get(self, keys: Iterable[UUID]) -> dict[UUID, Memory]:
        """The memories under these keys, as far as there are any."""
        ...

    def scan(self, with_vectors: bool) -> Iterator[list[Record]]:
        """All records, some at a time."""
        ...


class Source(Protocol):
    """How something `Readable` is reached."""

    async def run(self, work: Callable[[Readable], T]) -> T | None:
        """What `work` returns; None if there is nothing to copy."""
        ...


async def fill(
    source: Source,
    target: Access,
    found: Payloads,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    progress: Progress,
    vectors: Sequence[Access] = (),
) -> Payloads:
    """Copy what `source` has now, which is returned, to `target`, which holds `found`, and delete
    there what `source` does not have; see `put` for the rest. Raises StorageError if there is no
    source.
    """
    wanted = await source.run(payloads)
    if wanted is None:
        raise StorageError(f"The agent {info.agent!r} has no store here.")
    stale, late = changes(found, wanted)
    # In the order of time they lie close together in the files, and are read a third faster.
    late.sort(key=lambda key: str(wanted[key].get("timestamp")))
    await take_out(target, stale)
    done = len(wanted) - len(late)
    progress(done, len(wanted))
    for keys in _batches(late, generator, progress, done):
        some = await source.run(lambda store, keys=keys: store.get(keys)) or {}
        await put(list(some.values()), target, info, generator, vectors)
    return wanted


async def put(
    memories: Sequence[Memory],
    target: Access,
    info: StoreInfo,
    generator: EmbeddingGenerator | None,
    vectors: Sequence[Access] = (),
) -> None:
    """Store these memories in `target` with their vectors. With a `generator`, use the vectors that
    `target`, or one of the stores `vectors`, already has for their texts, else new ones.
    """
    if generator:
        keys = [memory.key for memory in memories]
        known: dict[UUID, Memory] = {}
        for access in (*vectors, target):
            known |= await access.run(lambda store: store.get(keys)) or {}
        texts = [memory.content for memory in memories if memory.key not in known]
        try:
            new = await generator.generate_batch(texts) if texts else []
        except RefusedTextError as error:
            refused = ", ".join(each.sized for each in memories if each.key in error.keys)
            raise EmbeddingError(
                f"{error} The store keeps its model. Refused: {refused}."
            ) from error
        by_text = {memory.content: memory.embedding for memory in known.values()}
        by_text |= zip(texts, new, strict=True)
        for memory in memories:
            memory.embedding = by_text[memory.content]
    await target.run(lambda store: _merge_in(store, memories), create=info)


def payloads(store: Readable) -> Payloads:
    """By key, what a store holds of each memory besides its vector; quick, and unverified."""
    return {record.key: record.payload for page in store.scan(False) for record in page}


def changes(found: Payloads, wanted: Payloads) -> tuple[list[UUID], list[UUID]]:
    """What must change in a copy that holds what was `found`, as two lists of keys. First those to
    delete: their texts were deleted from the original, or deleted and stored again with another id,
    or they hold again, are not pinned any more, or expire at another time, which merging would not
    show. Then those to write: they are missing or out of date.
    """
    stale = [
        key
        for key, payload in found.items()
        if key not in wanted
        or wanted[key].get("id") != payload.get("id")
        or any(name in payload and name not in wanted[key] for name in ("pinned", "replaced_by"))
        or payload.get("expires", wanted[key].get("expires")) != wanted[key].get("expires")
    ]
    late = [key for key in wanted if wanted[key] != found.get(key)]
    return stale, late


async def take_out(access: Access, keys: Sequence[UUID]) -> None:
    """Delete the texts with these keys, if there are any."""
    if keys:
        await access.run(lambda store: store.delete(list(store.get(keys).values())))


async def forget_in(copied: Access, access: Access) -> None:
    """Delete from a store what was `copied` from `access` but has since been deleted there, or
    deleted and stored again.
    """
    found = await copied.run(payloads) or {}  # first, so that it holds nothing stored meanwhile
    stale, _ = changes(found, await access.run(payloads) or {})
    await take_out(copied, stale)


async def compare(
    copied: Mapping[UUID, Memory],
    source: Access,
    target: Access,
    same_model: bool,
    progress: Progress,
) -> list[str]:
    """A sentence for each memory that was `copied` from `source` and that `target` lacks something
    of. Compares texts with their hashes, tags, times and, with the `same_model`, vectors. Leaves
    out what has changed in the source since then.
    """
    faults: list[str] = []
    for keys in _batches(list(copied), None, progress):
        present = await source.run(lambda store, keys=keys: store.get(keys)) or {}
        copies = await target.run(lambda store, keys=keys: store.get(keys)) or {}
        for key, memory in present.items():
            fault = _fault(memory, copies.get(key), same_model)
            if fault and memory.dict_for_storage() == copied[key].dict_for_storage():
                faults.append(f"{memory.id}: {fault}.")
    return faults


def _lacking(memory: Memory, copy: Memory | None) -> str | None:
    """What is missing from a copy of the memory, which may have been merged with an older one."""
    if copy is None:
        return "it is missing"
    if not set(memory.tags) <= set(copy.tags):
        return "tags are missing"
    if memory.pinned and not copy.pinned:
        return "its pin is missing"
    if memory.replaced_by and not copy.replaced_by and copy.timestamp == memory.timestamp:
        return "that it was replaced is missing"
    return "its time is too old" if copy.timestamp < memory.timestamp else None


def _batches(
    keys: Sequence[UUID], generator: EmbeddingGenerator | None, progress: Progress, done: int = 0
) -> Iterator[Sequence[UUID]]:
    size = EMBEDDED_AT_ONCE if generator else _COPIED
    for start in range(0, len(keys), size):
        some = keys[start : start + size]
        yield some
        progress(done + start + len(some), done + len(keys))


def _merge_in(store: Store, memories: Sequence[Memory]) -> None:
    try:
        store.update(memories, merge)
    except InputError:  # merged with its existing tags, one has too many
        if len(memories) > 1:
            for memory in memories:
                _merge_in(store, [memory])


def _fault(memory: Memory, copy: Memory | None, same_model: bool) -> str | None:
    fault = _lacking(memory, copy)
    if copy is None or fault:
        return fault
    numbers = zip(memory.embedding, copy.embedding, strict=True) if same_model else ()
    if not all(abs(one - other) <= _TOLERANCE for one, other in numbers):
        return "its vector is different"
    return None
