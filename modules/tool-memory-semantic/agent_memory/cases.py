"""What of a memory is worth a person's look, and what the person has looked at: for `review`."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from . import files, recalled

if TYPE_CHECKING:
    from memory_semantic import Memory, MemoryStorage, Search, Store
    from numpy.typing import NDArray

# Each kind of case, in words for a person.
KINDS = {
    "same": "These two say nearly the same",
    "disagree": "These two may disagree",
    "unsaid": "You did not say this",
    "unfound": f"No search has found this for {recalled.IDLE.days} days",
}

# The `contents` of no store.
NOTHING: "tuple[str, list[Memory], Any]" = ("", [], [])


class Case(NamedTuple):
    """One memory to look at or two, and how close they are; `kind` is one of `KINDS`."""

    kind: str
    memories: list["Memory"]
    closeness: float | None = None

    @property
    def mark(self) -> str:
        """What is remembered of it once the person wants to keep it as it is."""
        about = self.kind if len(self.memories) == 1 else "pair"
        return " ".join([about, *sorted(str(memory.key) for memory in self.memories)])


class Reviewed:
    """The marks of the cases that the person keeps as they are, in `reviewed.txt`, mode 0600, in
    the agent's folder on this machine, wherever the store is. They hold keys, no text. Raises
    OSError and StorageError.
    """

    def __init__(self, storage: "MemoryStorage") -> None:
        self._folder = storage.folder
        self._path = storage.folder.path / "reviewed.txt"

    def marks(self) -> set[str]:
        """All of them."""
        self._folder.require_ours()
        return set(self._path.read_text().splitlines()) if self._path.exists() else set()

    def add(self, mark: str) -> None:
        """One more; on disk on return."""
        self._folder.make_outermost()
        self._write(self.marks() | {mark})

    def forget(self, keys: Collection[str]) -> None:
        """Drop the marks of the memories with these keys."""
        self._keep(lambda key: key not in keys)

    def tidy(self, memories: Iterable["Memory"]) -> None:
        """Drop the marks of others than `memories`: something else has forgotten them."""
        keys = {str(memory.key) for memory in memories}
        self._keep(keys.__contains__)

    def without(self, cases: Iterable[Case]) -> list[Case]:
        """Those of `cases` that are not kept as they are."""
        marks = self.marks()
        return [case for case in cases if case.mark not in marks]

    def _keep(self, wanted: Any) -> None:
        marks = self.marks()
        kept = {mark for mark in marks if all(map(wanted, mark.split()[1:]))}
        if kept != marks:
            self._write(kept)

    def _write(self, marks: Iterable[str]) -> None:
        files.write(str(self._path), "".join(f"{mark}\n" for mark in sorted(marks)).encode())


def contents(store: "Store") -> tuple[str, list["Memory"], "NDArray[Any]"]:
    """The model of a store, its memories, and their vectors as rows."""
    import numpy as np
    from memory_semantic import memory_of

    memories, rows = [], []
    for records in store.scan():
        rows += [np.array(record.vector, dtype=np.float32) for record in records]
        bare = (record._replace(vector=[]) for record in records)
        memories += [memory_of(record, store.info.agent) for record in bare]
    return store.info.model.model, memories, np.array(rows).reshape(len(rows), -1)


def find(
    memories: Sequence["Memory"],
    vectors: Any,
    searches: Sequence["Search"] | None,
    now: datetime,
) -> list[Case]:
    """The cases among the `memories` of a store that hold: first pairs, the closest first, then
    what the person did not say and what the recorded `searches` do not find, the newest first.
    `vectors` holds a row for each memory.
    """
    from .alike import alike, may_disagree

    holding = [not (memory.replaced_by or memory.expired(now)) for memory in memories]
    present = [memory for memory, holds in zip(memories, holding, strict=True) if holds]
    cases = []
    for closeness, *places in alike([memory.content for memory in present], vectors[holding]):
        pair = sorted((present[place] for place in places), key=lambda memory: memory.timestamp)
        kind = "disagree" if may_disagree(*(memory.content for memory in pair)) else "same"
        cases.append(Case(kind, pair, round(closeness, 2)))
    present.sort(key=lambda memory: memory.timestamp, reverse=True)
    cases += [Case("unsaid", [each]) for each in present if each.said_by in ("agent", "tool")]
    usage = recalled.statistics(searches or [], present, now)
    if usage.first and usage.first <= now - recalled.IDLE:
        unfound = set(usage.not_recalled)
        cases += [Case("unfound", [each]) for each in present if each.id in unfound]
    return cases
