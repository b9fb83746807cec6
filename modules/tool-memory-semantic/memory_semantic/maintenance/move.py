"""All memories of a store into the same agent's store in another place.

A move that was interrupted is run again. It remembers what it has moved: see `moved`.
"""

import asyncio
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ..embeddings.choice import choose
from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, AgentMemoryError, explained
from ..files.folder import AgentFolder
from ..limits import ALL
from ..memory import Memory
from ..settings import StorageConfig
from ..store import Store, StoreInfo
from .copy import Progress, compare, contents, copy, lacking, memories_in
from .moved import Moved, mark
from .places import Place


@dataclass
class Move:
    """A move that was looked into; nothing is changed before `copy`.

    `present` is what the store in the new place is, None if there is none. Of the `memories` to
    copy, by key, those in `known` are there already. `forgotten` are those that an earlier move
    brought there and that were forgotten there: they are not copied. The texts are embedded by
    `generator`, None if both stores have one model.
    """

    source: Place
    target: Place
    moved: Moved
    info: StoreInfo
    present: StoreInfo | None
    memories: dict[UUID, Memory]
    known: Set[UUID]
    forgotten: dict[UUID, Memory]
    generator: EmbeddingGenerator | None

    async def copy(self, progress: Progress) -> None:
        """Copy what is to be copied. Safe to run again."""
        if self.present is None:
            with explained(UNCHANGED):
                self.moved.clear()  # of a store that was deleted
        info = self.present or self.info
        backends = self.source.backend, self.target.backend
        await copy(self.memories.keys(), *backends, info, self.generator, progress)

    async def compare(self, progress: Progress) -> list[str]:
        """What did not arrive as it is, a sentence each. What did is remembered."""
        target = await self.target.backend.info()  # before: if it is replaced, nothing is known
        faults = await compare(
            self.memories,
            self.source.backend,
            self.target.backend,
            self.generator is None,
            progress,
        )
        if target:
            seen = [self.memories[key] for key, fault in faults.items() if not fault]
            with explained("The memories are copied."):
                self.moved.write(target.created, [*seen, *self.forgotten.values()])
        return [fault for fault in faults.values() if fault]

    async def remove_source(self) -> bool:
        """Delete the store in the old place, if the new one has all of it, but for what was
        `forgotten`, and nobody else can write; returns whether it did.
        """
        copied = await memories_in(self.target.backend)
        forgotten = {mark(memory) for memory in self.forgotten.values()}

        def agreed(store: Store) -> bool:
            left = [memory for memory in store.newest(ALL) if mark(memory) not in forgotten]
            if any(lacking(memory, copied.get(memory.key)) for memory in left):
                return False
            try:  # the same server by another name would have nothing that is ready
                return asyncio.run(self.target.backend.info()) is not None
            except AgentMemoryError:
                return False

        removed = await self.source.remove(agreed)
        if removed:
            self.moved.clear_source()
        return removed


async def plan_move(source: Place, target: Place, config: StorageConfig) -> Move | None:
    """What a move would do; None if there is no store in the old place. `config` says what the
    place of the new store needs, `config.storage_root` where it is remembered what was moved.
    """
    ours = await source.backend.run(contents)
    if ours is None:
        return None
    info, memories = ours
    present, there = await target.backend.run(contents) or (None, {})
    generator = None
    if present and present.model != info.model:
        generator = choose(target.agent, config, present)
    moved = Moved(AgentFolder(Path(config.storage_root), source.agent), source.url, target.url)
    marks = moved.marks(present.created) if present else frozenset()
    gone = {key for key, each in memories.items() if key not in there and mark(each) in marks}
    return Move(
        source=source,
        target=target,
        moved=moved,
        info=info,
        present=present,
        memories={key: each for key, each in memories.items() if key not in gone},
        known=there.keys() & memories.keys(),
        forgotten={key: memories[key] for key in gone},
        generator=generator,
    )
