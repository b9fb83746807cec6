"""What the commands work with: the settings, the agent, its storage, the person's answers."""

import shlex
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from memory_semantic import AgentMemoryError, counted, limits, overruled, plain, validate_agent_id

from . import interrupt
from . import settings as amplifier
from .output import Output

if TYPE_CHECKING:
    from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage, Place

T = TypeVar("T")
# Called with how many are done, and of how many.
ShowDone = Callable[[int, int], None]

FIRST_STORE = 'The first memory makes one: agent-memory store "TEXT"'
_CHARS_PER_TOKEN = 4  # of English; a guess good enough to decide by


class Session:
    """What one run of a command works with: the settings, the agent, its storage, the output; and
    the options by which the store was `named`, for a command that the person may run next, and of
    these the one that says where all stores are, `rooted`.
    """

    def __init__(self, agent: str | None, root: str | None, as_json: bool) -> None:
        self.settings = amplifier.load(root)
        self.rooted = f" --root {shlex.quote(there)}" if (there := self.settings.root) else ""
        self.named = (f" --agent {shlex.quote(agent)}" if agent else "") + self.rooted
        self.out = Output(as_json, self.named)
        for problem in self.settings.problems:
            self.out.warn(problem)
        self._agent = agent

    @cached_property
    def agent(self) -> str:
        """The agent that was named, else the one in Amplifier's settings or the environment, else
        the only one; else the one named after the login, which the person is told.
        """
        if self._agent is not None:
            return validate_agent_id(self._agent)
        agent, is_known = self.settings.agent()
        if not is_known:
            whose = f"No agent is named, so it is {agent}, as your login is"
            self.out.note(f"{whose}; --agent names another.")
        return agent

    @cached_property
    def storage(self) -> "MemoryStorage":
        """The agent's storage, which may not exist yet."""
        return self.settings.storage(self.agent)

    @property
    def existing(self) -> "MemoryStorage":
        """The agent's storage, which must exist."""
        if run(self.storage.info()) is None and not run(self.storage.run(lambda _: True, False)):
            agents, why = self.place.agents(), "" if self._agent else overruled(self.agent)
            there = f"There are stores of {', '.join(agents)}." if agents else ""
            none = f"The agent {self.agent!r} has no store in {self.place.address}."
            fail(f"{none} {there or FIRST_STORE + self.named} {why}".rstrip())
        return self.storage

    @property
    def place(self) -> "Place":
        """Where the agent's store is."""
        return self.storage.place

    def with_ids(self, ids: Sequence[str]) -> list["Memory"]:
        """The memories with these ids, or ids that begin so. If one is missing, the command
        ends.
        """
        from memory_semantic import clean_ids  # here, because help loads nothing heavy

        asked = clean_ids(ids)
        memories = run(self.existing.with_ids(asked))
        found = {id: [memory for memory in memories if memory.id.startswith(id)] for id in asked}
        for id, of_id in found.items():
            if not of_id:
                fail(f"{self.agent} has no memory {id}. Nothing was changed.")
        return list({memory.key: memory for of_id in found.values() for memory in of_id}.values())

    def require_current(self, memory: "Memory", doing: str) -> None:
        """End the command if the memory is replaced; `doing` says what to do with what holds."""
        if memory.replaced_by and (later := run(self.existing.replacing(memory))):
            fail(f"{memory.id} is replaced by {later.id}: {doing} that. Nothing was changed.")


def fail(message: str) -> NoReturn:
    """End with exit code 1."""
    raise click.ClickException(plain(message))


def ask(question: str) -> bool | None:
    """Whether the person agrees; None if nobody is there to answer. Ctrl-C ends the command with
    exit code 1: nothing was changed.
    """
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:  # Ctrl-C, or the end of the input
        click.echo(err=True)
        if isinstance(error.__context__, EOFError):
            return None
        fail("Nothing was changed.")


def confirm(session: Session, question: str, yes: bool) -> None:
    """Ask, unless `yes` is set. A no ends the command, as asked for; nobody to answer with exit
    code 1; --json with 2, since it hides what the question is about. Nothing was changed.
    """
    beforehand = "to agree beforehand, add --yes. Nothing was changed."
    if session.out.as_json and not yes:
        raise click.UsageError(f"With --json nobody is asked: {beforehand}")
    agreed = yes or ask(question)
    if agreed is None:
        fail(f"Nobody is there to answer: {beforehand}")
    if not agreed:
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(0)


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`."""
    import asyncio

    with asyncio.Runner() as runner:
        runner.get_loop()  # an exception while it is made would leave half of one
        interrupt.raise_again()
        return runner.run(work)


def cost(memories: Sequence["Memory"], generator: "EmbeddingGenerator") -> str:
    """What embedding the memories will take, in words for a person."""
    tokens = counted(sum(len(memory.content) for memory in memories) // _CHARS_PER_TOKEN, "token")
    service = None if generator.on_this_machine else generator.endpoint or "OpenAI"
    where = f"Their text goes to {service}" if service else "Nothing is sent anywhere"
    return f"{counted(len(memories))} to embed, about {tokens}. {where}."


def with_progress(session: Session, work: Callable[[ShowDone], Awaitable[T]], state: str) -> T:
    """The result of `work`, which embeds, with a progress bar. If it is interrupted, the command
    ends and says in which `state` the store is.
    """

    async def shown() -> T:
        with session.out.progress("Embedding", 1) as progress:
            return await work(progress.done)

    try:
        return run(shown())
    except KeyboardInterrupt:
        fail(f"Interrupted. {state} Run it again to resume.")


def in_parts(
    session: Session,
    doing: str,
    memories: Sequence["Memory"],
    work: Callable[[Sequence["Memory"]], Coroutine[Any, Any, list[T]]],
) -> list[T]:
    """The results of `work`, which embeds, on some of the memories at a time, with a progress bar.
    If it is interrupted or fails, the command ends, saying how far it came.
    """
    results: list[T] = []
    done = 0
    try:
        with session.out.progress(doing, len(memories)) as progress:
            for done in range(0, len(memories), limits.EMBEDDED_AT_ONCE):
                progress.done(done)
                results += run(work(memories[done : done + limits.EMBEDDED_AT_ONCE]))
    except (KeyboardInterrupt, AgentMemoryError) as error:
        if done and isinstance(error, AgentMemoryError):
            error.outcome = ""  # that was of the last part
        why = "Interrupted." if isinstance(error, KeyboardInterrupt) else str(error)
        so_far = f"at least {done:,} of {len(memories):,} are done. Run it again to resume."
        fail(f"{why}\n{doing}: {so_far}")
    return results
