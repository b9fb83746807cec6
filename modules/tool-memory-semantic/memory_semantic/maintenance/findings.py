"""What an examination finds, what a repair would do, and what both say about stores anywhere."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from ..embeddings.choice import lexical_weight
from ..embeddings.generator import EmbeddingGenerator
from ..errors import REPAIR as HOW_TO_REPAIR
from ..errors import DamagedStoreError, StorageError
from ..memory import Memory
from ..settings import StorageConfig
from ..store import StoreInfo
from .copy import Progress

REPAIR = "agent-memory doctor --repair"
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
        return self.mend == REPAIR


@dataclass(frozen=True)
class Repair:
    """What a repair would do. Nothing changes before `run`, which returns what it has done.

    `found` is what to know before agreeing to `question`; `generator` has to embed `texts`, and is
    None if there is nothing to embed.
    """

    question: str
    run: Callable[[Progress], Awaitable[str]]
    found: str = ""
    texts: Sequence[Memory] = ()
    generator: EmbeddingGenerator | None = None


def counted(number: int) -> str:
    """`1 memory`, `2,000 memories`."""
    return f"{number:,} {'memory' if number == 1 else 'memories'}"


def about_info(info: StoreInfo, shard: str) -> Finding:
    """What the store is."""
    made = f"{info.model}, {shard}, created {info.created:%Y-%m-%d}"
    return Finding("ok", "manifest", f"{info.memories:,} memories, {made}")


def about_memories(problems: list[str], number: int, compared: str, mend: str) -> Iterator[Finding]:
    """What the full check found."""
    for problem in problems[:_SHOWN]:
        yield Finding("problem", "store", problem, mend)
    if len(problems) > _SHOWN:
        yield Finding("problem", "store", f"{len(problems) - _SHOWN:,} more like these", mend)
    if not problems:
        yield Finding("ok", "store", f"{number:,} memories: {compared} agree with each other")


def only_shared_ids(problems: Sequence[str]) -> bool:
    """Whether all these problems are ids that belong to two memories."""
    return bool(problems) and all(" belongs to " in problem for problem in problems)


def about_words(config: StorageConfig, info: StoreInfo) -> Iterator[Finding]:
    """Whether the store lacks the words of its texts."""
    if lexical_weight(config, info.model.model) and not info.words:
        yield Finding(
            "warning",
            "words",
            "this store was created without the words of its texts, so it ranks by meaning only",
            f"agent-memory reembed --model {info.model.model}",
        )


def store_problem(error: StorageError) -> Finding:
    """The finding that the store cannot be used."""
    text = str(error).replace(f" {HOW_TO_REPAIR}", "")  # the reader has just run the doctor
    repairable = isinstance(error, DamagedStoreError) or REPAIR in text
    return Finding("problem", "store", text, REPAIR if repairable else "")
