"""The port to a store on this machine. The doctor, reembed and repair are imported when they are
asked for.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from ..backend import Backend, Finding, Progress, Repair, ShowProgress, untold
from ..embeddings.generator import EmbeddingGenerator
from ..identity import validate_agent_id
from ..limits import HERE
from ..memory import Memory
from ..settings import StorageConfig
from ..store import StoreInfo
from . import disk, journal
from .access import FileAccess
from .folder import AgentFolder


class FileBackend(FileAccess, Backend):
    """The store in `folder`. A call waits at most `lock_seconds` for others."""

    url = HERE
    forgotten = "Gone from search and from the files."

    def __init__(self, folder: AgentFolder, lock_seconds: float) -> None:
        super().__init__(folder, lock_seconds)
        self.agent = folder.agent_id
        self.where = str(folder.root)

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
        """Its disk, folder, shard and journal."""
        from . import doctor

        return doctor.findings(self, config, progress)

    async def repair(self, config: StorageConfig) -> Repair:
        """A new store is made from what is left of the present one."""
        from . import repair

        return await repair.plan_repair(self, config)

    async def reembed(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """The new vectors are gathered while the store stays in use."""
        from . import reembed

        return await reembed.reembed(self, info, generator, progress)

    @property
    def kept(self) -> str:
        """What repairs have put aside is in folders beside the database."""
        return disk.removal(*self.folder.damaged) if self.folder.damaged else ""


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
