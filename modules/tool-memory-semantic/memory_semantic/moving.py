"""Moves a store to another place: copies it there, compares, and deletes the old one.

Until the new store has everything, the old one stays as it is, so an interrupted move can be run
again. What remains is a note on this machine: see `files.moved`.
"""

import asyncio
from collections.abc import Collection, Set
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from .backend import Backend, Progress
from .copying import compare, copy, lacking, take_out
from .embeddings.choice import choose
from .embeddings.generator import EmbeddingGenerator
from .errors import AgentMemoryError
from .files import disk, moved
from .files.folder import AgentFolder
from .limits import ALL, HERE
from .memory import Memory, utc_now
from .settings import StorageConfig
from .store import Store, StoreInfo, contents, memories_in


@dataclass
class Move:
    """A planned move; nothing changes before `copy`.

    `present` describes the store in the new place, None if there is none. Of the `memories` to
    copy, by key, those in `known` are there already. `generator` embeds the texts; it is None if
    both stores have the same model. `folder` is where this machine notes the move.
    """

    source: Backend
    target: Backend
    folder: AgentFolder
    info: StoreInfo
    present: StoreInfo | None
    memories: dict[UUID, Memory]
    known: Set[UUID]
    generator: EmbeddingGenerator | None

    async def copy(self, progress: Progress) -> None:
        """Copy the memories. Safe to run again."""
        info = self.present or self.info
        ends = self.source, self.target
        await copy(self.memories.keys(), *ends, info, self.generator, progress)
        if self.target.url == HERE:
            (self.folder.path / moved.NAME).unlink(missing_ok=True)

    async def compare(self, progress: Progress) -> list[str]:
        """What did not arrive unchanged, a sentence each."""
        ends = self.source, self.target
        return await compare(self.memories, *ends, self.generator is None, progress)

    async def remove_source(self) -> bool:
        """Delete the store in the old place if, while nobody else can write, the new store has all
        of it; returns whether it did. What was forgotten in the old place since the plan is
        forgotten in the new one, too.
        """
        copied = await memories_in(self.target)

        def agreed(store: Store) -> bool:
            left = {memory.key: memory for memory in store.newest(ALL)}
            if any(lacking(memory, copied.get(key)) for key, memory in left.items()):
                return False
            gone = self.memories.keys() - left.keys() - self.known
            return asyncio.run(self._confirmed(list(gone)))

        return await self.source.remove(agreed)

    async def _confirmed(self, gone: Collection[UUID]) -> bool:
        target = self.target
        try:  # if it is the same server under another name, nothing there is ready now
            if await target.info() is None:
                return False
            await take_out(target, list(gone))
        except AgentMemoryError:
            return False
        if self.target.url != HERE:
            note = moved.Moved(to=self.target.url, on=utc_now().date())
            self.folder.require_ours()
            self.folder.make_outermost()
            disk.write_whole(self.folder.path / moved.NAME, note.model_dump_json().encode())
        return True


async def plan_move(source: Backend, target: Backend, config: StorageConfig) -> Move | None:
    """What a move would do; None if there is no store in the old place, where nothing of an
    interrupted move is left then. `config` holds the settings of the new place.
    """
    ours = await source.run(contents)
    if ours is None:
        await source.remove(lambda _: False)
        return None
    info, memories = ours
    present, there = await target.run(contents) or (None, {})
    generator = None
    if present and present.model != info.model:
        generator = choose(target.agent, config, present)
    return Move(
        source=source,
        target=target,
        folder=AgentFolder(Path(config.storage_root), source.agent),
        info=info,
        present=present,
        memories=memories,
        known=there.keys() & memories.keys(),
        generator=generator,
    )
