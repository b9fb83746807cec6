"""What the commands work with: the settings, the agent, its storage, the person's answers."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from memory_semantic import Memory, MemoryStorage
from memory_semantic.identity import validate_agent_id
from memory_semantic.limits import HERE
from memory_semantic.masking import mask_given
from memory_semantic.settings import StorageConfig

from . import settings as amplifier
from .output import MEMORY_COLUMNS, Output, memory_json, memory_row, size_on_disk

T = TypeVar("T")


class Session:
    """What one run of a command works with: the settings, the agent, its storage, the output."""

    def __init__(self, agent: str | None, root: str | None, as_json: bool) -> None:
        self.out = Output(as_json)
        self.settings = amplifier.load()
        for problem in self.settings.problems:
            self.out.warn(problem)
        if root is not None:
            self.settings.config |= {"storage_root": root, "qdrant_url": HERE}
        self._agent = agent

    @cached_property
    def agent(self) -> str:
        """The agent: as asked, as Amplifier's settings say, else the only one that there is."""
        if self._agent is not None:
            return validate_agent_id(self._agent)
        named = next(amplifier.agent_names(self.settings), None)
        if named:
            return named[0]
        agents = known_agents(self.settings)
        if len(agents) == 1:
            return agents[0]
        doubt = self.settings.storage().doubt
        none = f"None has a memory here yet. {doubt}".rstrip()
        there = f"There are {', '.join(agents)}." if agents else none
        raise click.UsageError(f"Whose memory? Name the agent with --agent. {there}")

    @cached_property
    def storage(self) -> MemoryStorage:
        """The agent's storage, which may not exist yet."""
        return MemoryStorage(self.agent, self.settings.core)

    @property
    def existing(self) -> MemoryStorage:
        """The agent's storage, which must exist."""
        if not exists(self.storage):
            where = place_of(self.storage.config)
            fail(f"The agent {self.agent!r} has no memory in {where}. See: agent-memory agents")
        return self.storage

    @property
    def on_server(self) -> bool:
        """Whether a server keeps the store."""
        return self.storage.config.qdrant_url != HERE

    def masked(self, value: T) -> tuple[T, int]:
        """`value` without credentials, and how many it had: as the tools do it."""
        return mask_given(value) if self.storage.config.mask_secrets else (value, 0)

    def memories(self, memories: Sequence[Memory]) -> None:
        """Show memories, a line each."""
        if self.out.as_json:
            self.out.json([memory_json(memory) for memory in memories])
        else:
            self.out.table(MEMORY_COLUMNS, map(memory_row, memories))


def place_of(config: StorageConfig) -> str:
    """Where stores are kept, for people: a folder, or the address of a server."""
    return config.storage_root if config.qdrant_url == HERE else config.qdrant_url


def size_of(storage: MemoryStorage) -> int | None:
    """Bytes that a store takes on this machine; None if a server keeps it."""
    return size_on_disk(storage.folder.path) if storage.config.qdrant_url == HERE else None


def exists(storage: MemoryStorage) -> bool:
    """Whether there is a store, in whatever state."""
    here = storage.config.qdrant_url == HERE and storage.folder.exists
    return here or run(storage.info()) is not None


def known_agents(settings: amplifier.Settings) -> list[str]:
    """The agents that have a store where the settings say, or a folder that may not be looked into.
    Raises OSError if the folder of all may not be read.
    """
    config = settings.storage()
    if config.qdrant_url != HERE:
        from memory_semantic.server.backend import ServerBackend

        return ServerBackend("", config.qdrant_url, settings.core).shards().agents()
    root = Path(config.storage_root)
    try:
        folders = list(root.iterdir())  # which says, as glob does not, what may not be read
    except FileNotFoundError:
        return []
    return sorted(folder.name for folder in folders if _may_have_store(folder))


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


def fail(message: str) -> NoReturn:
    """End with exit code 1."""
    raise click.ClickException(message)


def confirm(question: str, yes: bool, otherwise: str = "Nothing was changed.") -> None:
    """Ask, unless `yes` was given. Anything but a yes ends the command with exit code 1, and
    `otherwise` as its last word.
    """
    try:
        agreed = yes or click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C, or nobody is there
        agreed = False
    if not agreed:
        fail(otherwise)


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`."""
    return asyncio.run(work)
