"""See one memory: `show`."""

from datetime import UTC, datetime

import click
from memory_semantic import one_line

from ..options import command
from ..output import beginning, local_time
from ..session import Session, run

_SAID_BY = {
    "user": "Said by the user{}.",
    "tool": "Said by a page or tool that the agent had read.",
    "agent": "Said by the agent.",
}


@command("show mem-a3f2b8c1d4e5", "show a3f2b8c1d4e5 --json")
@click.argument("memory_id", metavar="ID")
def show(session: Session, memory_id: str) -> None:
    """Show one memory in full."""
    found = session.with_ids([memory_id])
    session.out.json(found[0] if len(found) == 1 else found)
    for memory in found:
        session.out.memory(memory, whole=True)
        expired = memory.expired(datetime.now(UTC))
        if memory.pinned and not (memory.replaced_by or expired):
            project = memory.metadata.get("project") if memory.project_id else None
            where = f" in {one_line(project)}" if project else ""
            session.out.line(f"Pinned: recall shows it as a conversation begins{where}.")
        if memory.said_by:
            words = f': "{one_line(memory.quote)}"' if memory.quote else ", in these words"
            session.out.line(_SAID_BY[memory.said_by].format(words))
        if memory.expires:
            did = "Expired" if expired else "Expires"
            session.out.line(f"{did} {local_time(memory.expires)}.")
        if later := run(session.storage.replacing(memory)):
            session.out.line(f"Replaced by {beginning(later)}")
        for earlier in run(session.storage.replaced([memory])):
            session.out.line(f"Replaces {beginning(earlier)}")
