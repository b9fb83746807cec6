"""The place on this machine: an agent's folder, and this process's one door to its store."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeVar

from ..errors import UNCHANGED, ReplacedStoreError, explained
from ..glance import agents
from ..limits import HERE
from ..place import Place
from ..points import StoreInfo
from ..store import Store
from ..workers import run_blocking, run_cancellable
from .door import Door, door_of, take_lock
from .folder import AgentFolder, Manifest
from .points import FilePoints, open_points

T = TypeVar("T")


class FilePlace(Place):
    """The store in `folder`. A call waits at most `lock_seconds` for others."""

    url = HERE
    forgotten = "Gone from search and from the files."

    def __init__(self, folder: AgentFolder, lock_seconds: float) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds
        self.agent = folder.agent_id
        self.address = str(folder.root)

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
            try:
                with explained(UNCHANGED):
                    self.folder.require_space()
                    if expect and points.info.embedder != expect.embedder:
                        raise ReplacedStoreError("The store was given another model meanwhile.")
                    return work(points)
            except BaseException:
                points.is_due = False
                raise

        return await self._door().run(
            checked, partial(open_points, self.folder, create), self.lock_seconds
        )

    async def locked(self, work: Callable[[], T], outcome: str = UNCHANGED) -> T:
        """What `work` returns, which runs off the event loop, under the lock, with nothing open.
        Raises StorageError, which ends with `outcome` if it does not say what was changed.
        """

        def operation(cancelled: Event) -> T:
            end = time.monotonic() + self.lock_seconds
            with explained(outcome), take_lock(self.folder.database, end, cancelled.is_set):
                return work()

        return await run_cancellable(operation)

    def agents(self) -> list[str]:
        """See `Place`."""
        return agents(self.folder.root)

    async def close(self) -> None:
        """See `Place`."""
        await run_blocking(self._door().close)

    def _door(self) -> Door:
        # The root may be a link. An agent's folder may not: resolved, it would lead to another
        # agent's door, and nobody would notice.
        real = AgentFolder(Path(os.path.realpath(self.folder.root)), self.folder.agent_id)
        return door_of(real.database)
