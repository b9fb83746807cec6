"""What the commands work with: the settings, the agent, its storage, the person's answers."""

from collections.abc import Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from memory_semantic import validate_agent_id

from . import settings as amplifier
from .output import Output

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage, maintenance

T = TypeVar("T")


class Session:
    """What one run of a command works with: the settings, the agent, its storage, the output."""

    def __init__(self, agent: str | None, root: str | None, as_json: bool) -> None:
        self.out = Output(as_json)
        self.settings = amplifier.load(root)
        for problem in self.settings.problems:
            self.out.warn(problem)
        self._agent = agent

    @cached_property
    def agent(self) -> str:
        """The agent that was named, else the one in Amplifier's settings, else the only one."""
        if self._agent is not None:
            return validate_agent_id(self._agent)
        named = self.settings.named_agent()
        if named:
            return named[0]
        agents = self.settings.place.agents()
        if len(agents) == 1:
            return agents[0]
        doubt = self.settings.storage().config.doubt
        none = f"No agent has a store here yet. {doubt}".rstrip()
        there = f"There are {', '.join(agents)}." if agents else none
        raise click.UsageError(f"Whose memories? Name the agent with --agent. {there}")

    @cached_property
    def storage(self) -> "MemoryStorage":
        """The agent's storage, which may not exist yet."""
        return self.settings.storage(self.agent)

    @property
    def existing(self) -> "MemoryStorage":
        """The agent's storage, which must exist."""
        if run(self.storage.info()) is None and not run(self.place.exists()):
            fail(
                f"The agent {self.agent!r} has no store in {self.place.where}. "
                "See: agent-memory agents"
            )
        return self.storage

    @property
    def place(self) -> "maintenance.Place":
        """Where the agent's store is kept."""
        from memory_semantic import maintenance

        return maintenance.place(self.storage.backend)


def fail(message: str) -> NoReturn:
    """End with exit code 1."""
    raise click.ClickException(message)


def confirm(question: str, yes: bool, otherwise: str = "Nothing was changed.") -> None:
    """Ask, unless `yes` is set. Any answer but yes ends the command with the sentence `otherwise`
    and exit code 1.
    """
    try:
        agreed = yes or click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C, or nobody to ask
        agreed = False
    if not agreed:
        fail(otherwise)


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`."""
    import asyncio

    return asyncio.run(work)
