"""Maintenance of a store on this machine."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ..embeddings.choice import choose
from ..embeddings.generator import EmbeddingGenerator
from ..errors import UNCHANGED, DamagedStoreError, StorageError
from ..files import disk
from ..files import info as manifests
from ..files.backend import FileBackend
from ..files.store import FileStore
from ..identity import validate_agent_id
from ..limits import HERE
from ..memory import Memory
from ..settings import StorageConfig
from ..store import Backend, EmbeddingModel, Store, StoreInfo
from . import rebuild
from .beside import EMBEDDED, only_rebuild, target_in
from .copy import Progress, memories_in
from .damaged import DamagedFiles
from .examine import traces
from .findings import Finding, Repair, ShowProgress, counted, only_shared_ids
from .places import Forgotten, Place, untold


class OnFiles(Place):
    """See `Place`."""

    def __init__(self, backend: FileBackend) -> None:
        self.backend = self._files = backend
        self._folder = backend.folder
        self.agent = backend.folder.agent_id
        self.url = HERE
        self.where = str(backend.folder.root)

    def agents(self) -> list[str]:
        """See `Place`."""
        try:
            folders = list(self._folder.root.iterdir())  # unlike glob, it raises if not permitted
        except FileNotFoundError:
            return []
        return sorted(folder.name for folder in folders if _may_have_store(folder))

    def size(self) -> int:
        """See `Place`. The engine's files are sparse, and their holes do not count."""
        total = 0
        for path in self._folder.path.rglob("*"):
            with suppress(FileNotFoundError):  # another process is at work
                total += path.lstat().st_blocks * 512
        return total

    async def exists(self) -> bool:
        """See `Place`."""
        return self._folder.exists

    def memories(self, note: Callable[[str], None]) -> list[Memory]:
        """See `Place`. A read-only store is read from a temporary copy."""
        if self._folder.read_only:
            from . import snapshot

            return snapshot.read(self._files, note)
        return super().memories(note)

    def findings(self, config: StorageConfig, progress: ShowProgress) -> AsyncIterator[Finding]:
        """See `Place`."""
        from . import inspection  # here, because most commands do without

        return inspection.findings(self._files, config, progress)

    async def repair(self, config: StorageConfig, findings: Sequence[Finding]) -> Repair:
        """See `Place`. A store that cannot be mended in place is rebuilt from its texts."""
        repairable = [finding for finding in findings if finding.repairable]
        problems = [finding.text for finding in repairable if finding.state == "problem"]
        if problems and not only_shared_ids(problems):
            return await self._remake(config)

        async def run(_: Progress) -> str:
            number = await self.renew_ids()
            await self.erase()  # if that is due
            return f"{counted(number)} with a new id." if number else "Erased."

        ids, erasure = "Give each memory a unique id?", "Erase what is left of forgotten ones?"
        return Repair(ids if problems else erasure, run)

    async def rebuild(
        self, info: StoreInfo, generator: EmbeddingGenerator, progress: Progress = untold
    ) -> int:
        """See `Place`."""
        return await rebuild.rebuild(self._files, info, generator, progress)

    async def erase(self) -> None:
        """See `Place`."""
        await rebuild.erase(self._files)

    async def gone(self, config: StorageConfig, forgotten: Sequence[Memory]) -> Forgotten:
        """See `Place`. Searches all files of the agent."""
        living = list((await memories_in(self.backend)).values())
        again = {memory.id for memory in forgotten} & {memory.id for memory in living}
        if again:
            raise StorageError(f"{len(again)} of them were stored again meanwhile and still exist.")
        folder = self._folder.path
        left = traces(folder, forgotten, living)
        kept = {folder / path.relative_to(folder).parts[0] for path in left}
        if self._folder.database in kept:
            raise StorageError(
                f"Deleted from the store, but traces are left in its files: {left[0]}"
            )
        if kept:
            raise StorageError(
                "Deleted from the store, but an earlier repair has kept files with traces of them. "
                f"When you no longer need these: rm -r {' '.join(map(str, sorted(kept)))}"
            )
        return Forgotten("Gone from search and from the files.")

    async def remove(self, agreed: Callable[[Store], bool]) -> bool:
        """See `Place`."""
        folder = self._folder

        def work(store: Store) -> bool:
            agrees = agreed(store)
            if agrees:
                assert isinstance(store, FileStore)
                store.close()
                folder.database.rename(folder.removed)
            return agrees

        async with only_rebuild(self._files, 0):
            disk.remove(folder.removed)
            removed = await self.backend.run(work) or False
            disk.remove(target_in(self._files, EMBEDDED).folder.path)
        disk.remove(folder.removed)
        return removed

    @property
    def kept(self) -> list[Path]:
        """See `Place`."""
        return self._folder.kept

    async def unfinished(self, model: EmbeddingModel | None = None) -> list[Backend]:
        """See `Place`."""
        return list(rebuild.unfinished(self._files, model))

    async def _remake(self, config: StorageConfig) -> Repair:
        try:
            manifest = manifests.described(self._folder.database)
        except DamagedStoreError:
            manifest = None
        if manifest:  # its model counts, whatever the settings name for new stores
            config = config.model_copy(update={"embedding_model": None, "dimensions": None})
        generator = choose(self.agent, config, manifest)
        files = DamagedFiles(self._files)
        salvaged = await files.run(DamagedFiles.salvaged)
        found = (
            f"Of the texts on disk, {len(salvaged.memories):,} can be read and "
            f"{salvaged.unreadable:,} cannot."
        )
        if not salvaged.memories:
            raise StorageError(f"{found} There is nothing to make a new store from.", UNCHANGED)
        if salvaged.unverified:
            found += f"\n{salvaged.unverified:,} of them cannot be verified: their hashes are lost."
        wanted = await self.new_info(config, generator)

        async def run(progress: Progress) -> str:
            number = await rebuild.repair(self._files, wanted, generator, progress)
            renamed = await self.renew_ids()
            ids = f" {counted(renamed)} with a new id." if renamed else ""
            return f"Rebuilt, with {counted(number)}.{ids}"

        return Repair(
            "Start? The damaged files are kept.",
            run,
            f"{found}\nA new store will be made, with {wanted.model}.",
            await self.unembedded(wanted, salvaged.memories),
            generator,
        )


def _may_have_store(folder: Path) -> bool:
    try:
        (folder / "qdrant.db").stat()
    except PermissionError:
        with suppress(ValueError):
            return bool(validate_agent_id(folder.name))
        return False  # such as lost+found
    except OSError:
        return False
    return True
