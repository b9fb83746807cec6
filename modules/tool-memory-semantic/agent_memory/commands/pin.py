"""Rules and corrections: `pin`, `unpin` and `unreplace`."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click
from memory_semantic import limits

from ..options import command
from ..output import beginning
from ..session import Session, fail, run

# Of a rule, recall shows this many characters.
_SHOWN_CHARS = 600


@command("pin mem-a3f2b8c1d4e5", "pin a3f2b8c1d4e5 0c9d8e7f6a5b")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def pin(session: Session, ids: Sequence[str]) -> None:
    """Pin memories: rules that recall shows at the beginning of each conversation."""
    _pin(session, ids, True)
    tell_unshown(session)


@command("unpin mem-a3f2b8c1d4e5")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def unpin(session: Session, ids: Sequence[str]) -> None:
    """Unpin memories: they stay, but are no longer rules."""
    _pin(session, ids, False)


@command("unreplace mem-a3f2b8c1d4e5")
@click.argument("memory_id", metavar="ID")
def unreplace(session: Session, memory_id: str) -> None:
    """Let a memory that was replaced hold again, beside what replaced it."""
    [memory, *_] = session.with_ids([memory_id])
    run(session.storage.unreplace(memory.id))
    session.out.json({"agent": session.agent, "memory_id": memory.id})
    said = "holds again" if memory.replaced_by else "was not replaced"
    if memory.replaced_by and memory.expired(datetime.now(UTC)):
        said = "is no longer replaced, but has expired"
    session.out.line(f"{memory.id}  {said}")


def _pin(session: Session, ids: Sequence[str], pinned: bool) -> None:
    memories = session.with_ids(ids)
    for memory in memories if pinned else ():
        session.require_current(memory, "pin")
        if memory.expired(datetime.now(UTC)):
            fail(f"{memory.id} has expired: store its text again, with --pin. Nothing was changed.")
    run(session.storage.pin([memory.id for memory in memories], pinned))
    session.out.json({"agent": session.agent, "memory_ids": [memory.id for memory in memories]})
    for memory in memories:
        did = "Pinned" if pinned else "Not pinned any more"
        session.out.line(f"{did}: {beginning(memory)}")


def tell_unshown(session: Session) -> None:
    """Tell which pinned rules do not fit into what recall shows by default, if there are any."""
    from memory_semantic import estimate_tokens

    rules = run(session.storage.get_recent(None, pinned=True, holding=True))
    left = dict[str, None]()
    for project_id in {rule.project_id for rule in rules}:  # no session shows another project's
        room = float(limits.PIN_BUDGET)
        for rule in (each for each in rules if each.project_id in (project_id, None)):
            tokens = estimate_tokens(f"{rule.id[4:8]} {rule.content[:_SHOWN_CHARS]}\n")
            left |= {rule.id: None} if tokens > room else {}
            room -= tokens if tokens <= room else 0
    if left:
        session.out.note(
            f"Recall shows about {limits.PIN_BUDGET:,} tokens of rules, the newest first, if not "
            f"all that is remembered fits. These do not fit: {', '.join(left)}. Unpin some: "
            f"agent-memory unpin ID{session.named}"
        )
