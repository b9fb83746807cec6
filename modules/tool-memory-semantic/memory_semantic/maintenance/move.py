"""Moves all memories of a store into the same agent's store in another place.

An interrupted move can be run again. It remembers what it has moved: see `moved`.
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
    """A planned move; nothing changes before `copy`.

    `present` describes the store in the new place, None if there is none. Of the `memories` to
    copy, by key, those in `known` are there already. `forgotten` are those that an earlier move
    brought there and that were forgotten there: they are not copied. `generator` embeds the texts;
    it is None if both stores have the same model.
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
        """Copy the memories. Safe to run again."""
        if self.present is None:
            with explained(UNCHANGED):
                self.moved.clear()  # it was about a store that was deleted
        info = self.present or self.info
        backends = self.source.backend, self.target.backend
        await copy(self.memories.keys(), *backends, info, self.generator, progress)

    async def compare(self, progress: Progress) -> list[str]:
        """What did not arrive unchanged, a sentence each. Remembers what did."""
        target = await self.target.backend.info()  # first: if it is replaced, nothing is remembered
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
        """Delete the store in the old place if, while nobody else can write, the new store has all
        of it except what was `forgotten`; returns whether it did.
        """
        copied = await memories_in(self.target.backend)
        forgotten = {mark(memory) for memory in self.forgotten.values()}

        def agreed(store: Store) -> bool:
            left = [memory for memory in store.newest(ALL) if mark(memory) not in forgotten]
            if any(lacking(memory, copied.get(memory.key)) for memory in left):
                return False
            try:  # if it is the same server under another name, nothing there is ready now
                return asyncio.run(self.target.backend.info()) is not None
            except AgentMemoryError:
                return False

        removed = await self.source.remove(agreed)
        if removed:
            self.moved.clear_source()
        return removed


async def plan_move(source: Place, target: Place, config: StorageConfig) -> Move | None:
    """What a move would do; None if there is no store in the old place. `config` holds the settings
    of the new place; `config.storage_root` is where moves are remembered.
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
