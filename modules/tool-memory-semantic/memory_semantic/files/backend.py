"""The port to a store on this machine. The doctor, reembed and repair are imported when they are
asked for.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..backend import Backend, Finding, Progress, Repair, ShowProgress, untold
from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, ReplacedStoreError, explained
from ..identity import validate_agent_id
from ..limits import HERE
from ..memory import Memory
from ..settings import StorageConfig
from ..store import StoreInfo
from ..workers import run_blocking
from . import disk, journal
from .door import Door, door_of
from .folder import AgentFolder
from .info import Manifest
from .store import FileStore
from .visit import Visit

T = TypeVar("T")


class FileBackend(Backend):
    """The store in `folder`. A call waits at most `lock_seconds` for others."""

    url = HERE

    def __init__(self, folder: AgentFolder, lock_seconds: float) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds
        self.agent = folder.agent_id
        self.where = str(folder.root)

    async def info(self) -> Manifest | None:
        """See `Backend`."""
        return await run_blocking(lambda: self.folder.manifest())

    async def run(
        self,
        work: Callable[[FileStore], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Backend`."""
        wanted = create or expect
        if create:  # so that every call waits for the lock in the line, as long as it may
            await run_blocking(lambda: self.folder.make())

        def operation(visit: Visit) -> T | None:
            with explained(UNCHANGED):
                store = visit.store(create)
                if store is None:
                    return None
                if wanted and store.info.embedder != wanted.embedder:
                    raise ReplacedStoreError("The store was given another model meanwhile.")
                return work(store)

        return await self._door().run(operation, self.lock_seconds)

    async def close(self) -> None:
        """See `Backend`."""
        await run_blocking(lambda: self._door().close())

    def agents(self) -> list[str]:
        """Those whose folders another bundle has moved away are among them."""
        moved = self.folder.moved_root
        folders = list(moved.glob("*")) if moved else []
        with suppress(FileNotFoundError):
            folders += self.folder.root.iterdir()  # unlike glob, it raises if not permitted
        return sorted({folder.name for folder in folders if _may_have_store(folder)})

    def size(self) -> int:
        """The engine's files are sparse, and their holes do not count."""
        return disk.size(self.folder.path, holes=False)

    async def exists(self) -> bool:
        """Whether there is a store, in any state."""
        return self.folder.exists

    def memories(self, note: Callable[[str], None]) -> list[Memory]:
        """All memories, oldest first; of a read-only store, those of its journal."""
        if not self.folder.read_only:
            return super().memories(note)
        found, whole = self.folder.journal.memories()
        note(
            f"The store in {self.folder.path} is read-only, which the vector engine cannot use. "
            f"This is its journal, {'which is whole' if whole else 'of which some cannot be read'}."
        )
        return sorted(found.values(), key=lambda memory: memory.timestamp)

    def findings(self, config: StorageConfig, progress: ShowProgress) -> AsyncIterator[Finding]:
        """Its disk, folder, lock and shard."""
        from . import doctor

        return doctor.findings(self, config, progress)

    async def repair(self, config: StorageConfig, findings: Sequence[Finding]) -> Repair:
        """A new store is made from what is left of the present one."""
        from . import repair

        return await repair.plan_repair(self, config)

    async def reembed(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """The new vectors are gathered while the store stays in use."""
        from . import reembed

        return await reembed.reembed(self, info, generator, progress)

    def forgotten(self, model: str) -> str:
        """From search and from the files."""
        return "Gone from search and from the files."

    @property
    def kept(self) -> str:
        """What repairs have put aside is in folders beside the database."""
        return disk.removal(*self.folder.damaged) if self.folder.damaged else ""

    def _door(self) -> "Door[Visit]":
        # The root may be a link. An agent's folder may not: resolved, it would lead to another
        # agent's door, and nobody would notice.
        database = self.folder.database
        path = Path(
            os.path.realpath(self.folder.root), *database.relative_to(self.folder.root).parts
        )
        return door_of(path, partial(Visit, self.folder))


def _may_have_store(folder: Path) -> bool:
    try:
        (folder / "qdrant.db").stat()
    except PermissionError:
        with suppress(ValueError):
            return bool(validate_agent_id(folder.name))
        return False  # such as lost+found
    except OSError:
        return (folder / journal.NAME).exists()
    return True
