"""Store a memory: `store`."""

import sys
from collections.abc import Sequence
from datetime import datetime

import click
from memory_semantic import InputError

from .. import files
from ..options import When, command, tag_label
from ..session import Session, run
from .pin import tell_unshown


@command('store "We chose PostgreSQL for the users table." --tag database', "store - < note")
@click.argument("text", nargs=-1, required=True)
@tag_label
@click.option("--replaces", multiple=True, metavar="ID", help="The memory that this one corrects.")
@click.option(
    "--expires", type=When(end=True, ahead=True), help="It holds until then: 7d, 2026-12-31."
)
@click.option("--pin", is_flag=True, help="It is a rule: each conversation begins with it.")
def store(
    session: Session,
    text: Sequence[str],
    tags: Sequence[str],
    replaces: Sequence[str],
    expires: datetime | None,
    pin: bool,
) -> None:
    """Store a memory: TEXT, or "-" for standard input."""
    content = _standard_input() if text == ("-",) else " ".join(text)
    item = (content, tags, {"stored_by": "agent-memory store"})
    if len(replaces) > 1:
        raise click.UsageError(
            "A memory replaces one other: name one, and delete the rest with agent-memory forget."
        )
    old = session.with_ids(replaces)[0].id if replaces else None
    [stored] = run(session.storage.upsert([item], old, expires=expires, pin=pin))
    status = "already known: tags merged, the later time kept" if stored.known else "stored"
    result = {"agent": session.agent, "memory_id": stored.id, "status": status}
    result |= {"embedding_model": stored.model, "masked_secrets": stored.masked}
    session.out.json(result | {"replaced": stored.replaced or None, "new_store": stored.new_store})
    session.out.line(f"{stored.id}  {status} for {session.agent}{', pinned' if pin else ''}")
    if stored.new_store:
        session.out.note(f"The store of {session.agent} is new: there was none.")
    if stored.replaced:
        undo = f"agent-memory unreplace {stored.replaced}{session.named}"
        session.out.note(f"It replaces {stored.replaced}. Undo: {undo}")
    session.out.masked(stored.masked)
    if pin:
        tell_unshown(session)


def _standard_input() -> str:
    data = files.read_all(sys.stdin.buffer.read)
    try:
        return data.decode()
    except UnicodeDecodeError:
        advice = files.encoding_advice(data)
        raise InputError(f"The text on standard input is not UTF-8. {advice}") from None
