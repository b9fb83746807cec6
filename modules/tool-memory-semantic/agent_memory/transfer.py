"""Take it with you: what `export` and `import` do."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from memory_semantic import AgentMemoryError
from memory_semantic.disk import write_whole

from . import interchange
from .rebuild import BATCH
from .session import ALL, Session, confirm, fail, run

_FAULTS = 10  # of a file, before it is "and more"


def export(session: Session, file: str, yes: bool) -> None:
    """Write all memories, oldest first: a file whole or not at all, for the owner alone."""
    memories = run(session.existing.get_recent(ALL))[::-1]
    lines = interchange.export_lines(session.agent, memories)
    if file == "-":
        for line in lines:
            click.echo(line)
        return
    target = Path(file).absolute()
    if target.exists():
        confirm(f"{file} exists. Replace it?", yes)
    write_whole(target, "".join(f"{line}\n" for line in lines).encode())
    if session.out.as_json:
        session.out.json({"agent": session.agent, "file": str(target), "memories": len(memories)})
    else:
        session.out.line(f"{len(memories):,} memories of {session.agent} are in {file}")


def import_(session: Session, file: str, tags: Sequence[str]) -> None:
    """Restore the memories of a file, after all of it was read and found good."""
    path = None if file == "-" else Path(file)
    undated = datetime.fromtimestamp(path.stat().st_mtime, UTC) if path else datetime.now(UTC)
    data = path.read_bytes() if path else sys.stdin.buffer.read()
    storage = session.storage
    try:
        memories, masked = interchange.read(
            data, file, session.agent, undated, tags, mask_secrets=storage.config.mask_secrets
        )
    except interchange.ImportFileError as error:
        faults = error.faults[:_FAULTS]
        if len(error.faults) > _FAULTS:
            faults.append(f"and {len(error.faults) - _FAULTS:,} more")
        fail("\n  ".join([f"{file} cannot be imported; nothing was changed.", *faults]))
    new = merged = done = 0
    try:
        with session.out.progress("Importing", len(memories)) as progress:
            for start in range(0, len(memories), BATCH):
                for stored in run(storage.restore(memories[start : start + BATCH])):
                    new += not stored.known
                    merged += stored.known and stored.changed
                done = min(start + BATCH, len(memories))
                progress.done(done)
    except (KeyboardInterrupt, AgentMemoryError, ValueError) as error:
        why = "Interrupted." if isinstance(error, KeyboardInterrupt) else str(error)
        fail(f"{why}\n{done:,} of {len(memories):,} are imported. Run it again to go on.")
    counts = {"new": new, "merged": merged, "unchanged": len(memories) - new - merged}
    if session.out.as_json:
        session.out.json({"agent": session.agent, **counts, "masked_secrets": masked})
        return
    said = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    session.out.line(f"{len(memories):,} memories for {session.agent}: {said}")
    session.out.masked(masked)
