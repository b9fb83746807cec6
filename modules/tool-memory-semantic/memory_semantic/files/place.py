"""The place on this machine: an agent's folder, and this process's one door to its store."""

import os
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..errors import UNCHANGED, ReplacedStoreError, counted, explained
from ..identity import validate_agent_id
from ..limits import HERE
from ..place import Place
from ..points import StoreInfo
from ..store import Store
from ..workers import run_blocking
from . import disk, journal
from .door import Door, door_of
from .edge import Shard
from .folder import AgentFolder
from .info import Manifest
from .lock import take_lock
from .points import FilePoints
from .swap import swap

T = TypeVar("T")


class FilePlace(Place):
    """The store in `folder`. A call waits at most `lock_seconds` for others."""

    url = HERE
    forgotten = "Gone from search and from the files."

    def __init__(self, folder: AgentFolder, lock_seconds: float) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds
        self.agent = folder.agent_id
        self.where = str(folder.root)

    async def info(self) -> Manifest | None:
        """See `Place`."""
        return await run_blocking(self.folder.manifest)

    async def run(
        self,
        work: Callable[[Store], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """See `Place`."""
        return await self.on_points(lambda p: work(Store(p)), create=create, expect=expect)

    async def on_points(
        self,
        work: Callable[[FilePoints], T],
        *,
        create: StoreInfo | None = None,
        expect: StoreInfo | None = None,
    ) -> T | None:
        """Like `run`, for what only a store on this machine can do."""
        expect = create or expect
        if create:  # so that every call waits for the lock in the line, as long as it may
            await run_blocking(self.folder.make)

        def checked(points: FilePoints) -> T:
            with explained(UNCHANGED):
                if expect and points.info.embedder != expect.embedder:
                    raise ReplacedStoreError("The store was given another model meanwhile.")
                return work(points)

        return await self._door().run(
            checked, partial(_enter, self.folder, create), self.lock_seconds
        )

    def agents(self) -> list[str]:
        """Those whose folders another bundle has moved away are among them."""
        moved = self.folder.moved_root
        folders = list(moved.glob("*")) if moved else []
        with suppress(FileNotFoundError):
            folders += self.folder.root.iterdir()  # unlike glob, it raises if not permitted
        return sorted({folder.name for folder in folders if _may_have_store(folder)})

    async def close(self) -> None:
        """See `Place`."""
        await run_blocking(self._door().close)

    def _door(self) -> Door:
        # The root may be a link. An agent's folder may not: resolved, it would lead to another
        # agent's door, and nobody would notice.
        real = AgentFolder(Path(os.path.realpath(self.folder.root)), self.folder.agent_id)
        return door_of(real.database)


def _enter(
    folder: AgentFolder, create: StoreInfo | None, deadline: float, cancelled: Callable[[], bool]
) -> FilePoints | None:
    """The open store in `folder`; if there is none, a new one as `create` describes."""
    if not folder.exists:
        if create:  # the folder made for it came too late, or was deleted
            raise ReplacedStoreError("The store's folder was deleted meanwhile.")
        return None
    folder.require_writable()
    with explained(UNCHANGED), ExitStack() as unless_opened:
        lock = unless_opened.enter_context(take_lock(folder.database, deadline, cancelled))
        disk.require_space(folder.database)
        manifest = folder.manifest()
        if manifest is None:
            _require_no_memories(folder)
            if create is None:
                return None
            folder.hide()
            manifest = swap(folder, create, [], 0)
        points = FilePoints(folder, manifest, lock)
        unless_opened.pop_all()
        return points


def _require_no_memories(folder: AgentFolder) -> None:
    # Without a manifest, only what an interrupted creation leaves may be here: unfinished work, or
    # a shard without memories.
    for path in folder.shards:
        if not any(file.is_file() for file in path.rglob("*")):
            continue  # the rest of a shard that was being removed
        with closing(Shard(path, words=False)) as shard:
            count = shard.count()
        if count:
            raise folder.lost(f"{path.name} holds {counted(count)}")


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
