"""What an examination says about a store, wherever it is."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from .embeddings.choice import lexical_weight
from .errors import REPAIR, REPAIR_COMMAND, StorageError, counted
from .points import StoreInfo
from .settings import StorageConfig

NO_STORE = "The first memory makes one. To see who has one: agent-memory list --agents"
_SHOWN = 10


class Bar(Protocol):
    """A progress display."""

    def done(self, number: float) -> None:
        """`number` of the total are done."""
        ...


# Opens a display, given what is being done and how much there is to do.
ShowProgress = Callable[[str, int], AbstractContextManager[Bar]]


class Finding(NamedTuple):
    """One thing that was examined. `mend` is what to do about it; if that is
    `agent-memory doctor --repair`, the finding is `repairable`.
    """

    state: Literal["ok", "warning", "problem"]
    subject: str
    text: str
    mend: str = ""

    @property
    def repairable(self) -> bool:
        """Whether a repair of the store would mend it."""
        return self.mend == REPAIR_COMMAND

    @property
    def says_no_store(self) -> bool:
        """Whether it is that there is no store, which may be well: `mend` says how to make one."""
        return self.state == "ok" and bool(self.mend)


def about_info(info: StoreInfo, shard: str) -> Finding:
    """What the store is; how many memories it has only the full check says, at its own moment."""
    made = f"{info.model}, {shard}, created {info.created:%Y-%m-%d}"
    return Finding("ok", "manifest", made)


def about_memories(problems: list[str], number: int, compared: str, mend: str) -> Iterator[Finding]:
    """What the full check found."""
    for problem in problems[:_SHOWN]:
        yield Finding("problem", "store", problem, mend)
    if len(problems) > _SHOWN:
        yield Finding("problem", "store", f"{len(problems) - _SHOWN:,} more like these", mend)
    if not problems:
        yield Finding("ok", "store", f"{counted(number)}: {compared} agree with each other")


def about_words(config: StorageConfig, info: StoreInfo) -> Iterator[Finding]:
    """Whether the store lacks the words of its texts."""
    if lexical_weight(config, info.model.model) and not info.words:
        yield Finding(
            "warning",
            "words",
            "this store lacks the words of its texts, or has them as another version read them, so "
            "it ranks by meaning only",
            f"agent-memory reembed --model {info.model.model}",
        )


def removal(*paths: Path) -> str:
    """The command with which a person removes these, to be pasted into a shell."""
    return shlex.join(["rm", "-r", *map(str, paths)])


def store_problem(error: StorageError) -> Finding:
    """The finding that the store cannot be used."""
    mend = REPAIR_COMMAND if REPAIR_COMMAND in error.remedy else ""
    error.remedy = error.remedy.removeprefix(REPAIR)  # the reader has just run the doctor
    return Finding("problem", "store", str(error), mend)
