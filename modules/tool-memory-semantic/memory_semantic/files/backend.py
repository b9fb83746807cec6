"""The port to a store on this machine. The doctor, rebuilds and repairs are imported when they are
asked for.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ..backend import Backend, Finding, Progress, Repair, ShowProgress, untold
from ..embeddings.generator import EmbeddingGenerator
from ..identity import validate_agent_id
from ..limits import HERE
from ..memory import Memory
from ..settings import StorageConfig
from ..store import StoreInfo
from . import backup, disk
from .access import FileAccess
from .folder import AgentFolder


class FileBackend(FileAccess, Backend):
    """The store in `folder`. A call waits at most `lock_seconds` for others."""

    url = HERE

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
        """All memories, oldest first; of a read-only store, those of its backup."""
        backup = self.folder.backup
        if not (self.folder.read_only and backup):
            return super().memories(note)
        header = backup.header()
        if header is None:
            self.folder.require_writable()
            return []
        note(
            f"The store in {self.folder.path} is read-only, which the vector engine cannot use. "
            f"This is its backup of {header.exported:%Y-%m-%d %H:%M} UTC."
        )
        return list(backup.memories())

    def findings(self, config: StorageConfig, progress: ShowProgress) -> AsyncIterator[Finding]:
        """Its disk, folder, lock and shard."""
        from . import doctor

        return doctor.findings(self, config, progress)

    async def repair(self, config: StorageConfig, findings: Sequence[Finding]) -> Repair:
        """A store that cannot be mended in place is rebuilt from its texts."""
        if any(finding.repairable and finding.state == "problem" for finding in findings):
            from . import rebuild

            return await rebuild.plan_repair(self, config)

        async def run(_: Progress) -> str:
            await self.erase()
            return "Erased."

        return Repair("Erase what is left of forgotten ones?", run)

    async def rebuild(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """In a new shard beside the present one, which one write of the manifest replaces."""
        from . import rebuild

        return await rebuild.rebuild(self, info, generator, progress)

    async def erase(self) -> None:
        """By a rebuild that copies what is left."""
        from . import rebuild

        await rebuild.erase(self)

    def forgotten(self, model: str) -> str:
        """From search and from the files."""
        return "Gone from search and from the files."

    @property
    def kept(self) -> str:
        """What repairs have kept is in folders beside the database."""
        return disk.removal(*self.folder.kept) if self.folder.kept else ""


def _may_have_store(folder: Path) -> bool:
    try:
        (folder / "qdrant.db").stat()
    except PermissionError:
        with suppress(ValueError):
            return bool(validate_agent_id(folder.name))
        return False  # such as lost+found
    except OSError:
        return (folder / backup.NAME).exists()
    return True
