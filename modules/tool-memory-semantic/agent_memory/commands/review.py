"""Look the memories through, one question at a time: `review`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click
from memory_semantic import InputError, limits

from ..cases import KINDS, NOTHING, Case, Reviewed, contents, find
from ..options import command
from ..session import Session, run
from ..suggestions import completed
from .forget import delete
from .memories import by_id

if TYPE_CHECKING:
    from memory_semantic import Memory, Store

_OF_PAIRS = {
    "k": "keep both",
    "1, 2": "this one holds and replaces the other",
    "m1, m2": "keep this one with the tags of both, and forget the other",
    "f1, f2": "forget this one",
}
_OF_ONE = {"k": "keep", "f": "forget"}
_ALWAYS = {"l": "later", "q": "stop"}


@command("review", "review mem-a3f2b8c1d4e5 mem-0c9d8e7f6a5b --keep", "review --json")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--keep", is_flag=True, help="Keep what is about these IDs as it is; do not ask.")
def review(session: Session, ids: Sequence[str], keep: bool) -> None:
    """Look the memories through, one question at a time.

    Shows pairs that say nearly the same or may disagree, then what you did not say, and, with the
    setting `usage: true`, what no search has found for 90 days; with ids, only what is about these.
    Each answer counts at once, and Ctrl-C ends it. What you keep is not asked again. Nothing leaves
    this machine. With --json alone, or the setting `read_only: true`, it only shows.
    """
    if keep and not ids:
        raise click.UsageError("Keep what? Name its ids: agent-memory review ID ID --keep")
    storage, reviewed = session.existing, Reviewed(session.storage)
    wanted = {memory.id for memory in (by_id(session, ids) if ids else [])}
    _, memories, vectors = run(storage.run(contents, NOTHING))
    if not storage.config.read_only:
        reviewed.tidy(memories)
    found = find(memories, vectors, storage.searches(), datetime.now(UTC))
    cases = reviewed.without(found)
    if ids:
        cases = [case for case in cases if wanted.intersection(each.id for each in case.memories)]
    session.out.json([case._asdict() for case in cases])
    keep = keep and not storage.config.read_only
    for case in cases if keep else ():
        reviewed.add(case.mark)
    if session.out.as_json:
        return
    if storage.config.read_only:
        for number, case in enumerate(cases, 1):
            _show(session, case, f"{number:,} of {len(cases):,}")
    elif keep:
        session.out.line(f"Kept as they are: {len(cases):,}.")
    elif cases:
        _ask_all(session, reviewed, cases)
    if not cases and not keep:
        session.out.line("There is nothing to look through.")


def _show(session: Session, case: Case, place: str) -> None:
    close = f" ({case.closeness:.2f})" if case.closeness else ""
    session.out.line(click.style(f"{place}  {KINDS[case.kind]}{close}", bold=True))
    for number, memory in enumerate(case.memories, 1):
        if len(case.memories) > 1:
            session.out.line(f"{number}:")
        session.out.memory(memory)


def _ask_all(session: Session, reviewed: Reviewed, cases: Sequence[Case]) -> None:
    done, past = 0, set[str]()  # of these, something was decided that ends other cases too
    for number, case in enumerate(cases, 1):
        if not past.isdisjoint(memory.id for memory in case.memories):
            continue
        _show(session, case, f"{number:,} of {len(cases):,}")
        try:
            answer = _answer(session, case)
            if answer == "q":
                break
            if answer == "k":
                reviewed.add(case.mark)
            ended = set() if answer in "kl" else _change(session, case.memories, answer)
            past |= ended
            done += answer == "k" or bool(ended)
        except (click.Abort, KeyboardInterrupt):  # Ctrl-C, or the end of the input
            session.out.note("")
            break
        except InputError as error:  # two memories can have too many tags for one
            session.out.warn(str(error))
    again = completed("agent-memory review")
    session.out.line(f"Decided: {done:,}. What is left comes again: {again}")


def _answer(session: Session, case: Case) -> str:
    answers = (_OF_PAIRS if len(case.memories) == 2 else _OF_ONE) | _ALWAYS
    session.out.note("   ".join(f"{name} {what}" for name, what in answers.items()))
    names = [name for each in answers for name in each.split(", ")]
    return click.prompt("Answer", default="l", type=click.Choice(names), err=True)


def _change(session: Session, memories: Sequence["Memory"], answer: str) -> set[str]:
    """Do as `answer` says; returns the ids of what is gone or replaced by that."""
    chosen = memories[int(answer[-1]) - 1] if answer[-1].isdigit() else memories[0]
    other = memories[0] if chosen is memories[-1] else memories[-1]
    doomed = chosen if answer.startswith("f") else other
    if not answer.isdigit() and not click.confirm(f"Delete {doomed.id} for good?", err=True):
        return set()
    if not answer.startswith("f"):
        run(session.storage.run(partial(_replace, chosen, other, answer.startswith("m")), None))
    if not answer.isdigit():
        again = [id for id in delete(session, [doomed]) if id != chosen.id]
        if again:
            session.out.note(f"What it had replaced holds again: {', '.join(again)}")
    return {doomed.id}


def _replace(chosen: "Memory", other: "Memory", merge: bool, store: "Store") -> None:
    there = store.get([chosen.key, other.key])
    if len(there) < 2:
        raise InputError("One of them was forgotten meanwhile. Nothing was changed.")
    holds, ends = there[chosen.key], there[other.key]
    tags = dict.fromkeys([*holds.tags, *(ends.tags if merge else [])])
    if merge and limits.CAPTURED not in ends.tags:  # as when a text is stored again
        tags.pop(limits.CAPTURED, None)
    if len(tags) > limits.MAX_TAGS:
        raise InputError(f"Together they have more than {limits.MAX_TAGS} tags.")
    held = {"replaced_by": None, "pinned": holds.pinned or ends.pinned, "tags": list(tags)}
    ended = {"replaced_by": holds.key}
    pair = [holds.model_copy(update=held), ends.model_copy(update=ended)]
    store.update(pair, lambda new, known: new)
