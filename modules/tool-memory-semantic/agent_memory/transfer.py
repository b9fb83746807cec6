"""Take it with you: what `export` and `import` do."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import click
from memory_semantic import AgentMemoryError, InputError, MemoryStorage
from memory_semantic.collection import Collection
from memory_semantic.models import clean_memory
from memory_semantic.open_store import OpenStore, Stored

from . import files, formats, interchange, snapshot
from .output import counted
from .rebuild import ALL, BATCH
from .session import Session, confirm, fail, run

_FAULTS = 10  # of a file, before it is "and more"


def export(session: Session, file: str, yes: bool) -> None:
    """Write all memories, oldest first."""
    storage = session.existing
    if not session.server and storage.folder.read_only:
        memories = snapshot.read(storage, session.out.note)[::-1]
    else:
        memories = run(storage.get_recent(ALL))[::-1]
    lines = interchange.export_lines(session.agent, memories)
    content = "".join(f"{line}\n" for line in lines).encode()
    if file == "-":
        click.echo(content, nl=False)
        return
    if Path(file).is_file():
        confirm(f"{file} exists. Replace it?", yes)
    files.write(file, content)
    if session.out.as_json:
        session.out.json({"agent": session.agent, "file": file, "memories": len(memories)})
    else:
        session.out.line(f"{counted(len(memories))} of {session.agent} written to {file}")


def import_(session: Session, file: str, tags: Sequence[str]) -> None:
    """Restore the memories of a file, after all of it was read and found good."""
    path = None if file == "-" else Path(file)
    undated = _written(path) if path else datetime.now(UTC)
    storage = session.storage
    try:
        with path.open("rb") if path else nullcontext(sys.stdin.buffer) as stream:
            data = formats.read_all(stream.read)
        found, masked = interchange.read(
            data, file, session.agent, undated, tags, mask_secrets=storage.config.mask_secrets
        )
    except formats.ImportFileError as error:
        fail(f"{file} cannot be imported; nothing was changed.{_listed(error.faults)}")
    new = merged = done = 0
    faults: list[str] = []
    try:
        with session.out.progress("Importing", len(found)) as progress:
            for start in range(0, len(found), BATCH):
                stored = run(_restore(storage, found[start : start + BATCH], faults))
                new += sum(not each.known for each in stored)
                merged += sum(each.known and each.changed for each in stored)
                done = min(start + BATCH, len(found))
                progress.done(done)
    except (KeyboardInterrupt, AgentMemoryError) as error:
        why = "Interrupted." if isinstance(error, KeyboardInterrupt) else str(error)
        fail(f"{why}\n{done:,} of {len(found):,} are imported. Run it again to go on.")
    unchanged = len(found) - new - merged - len(faults)
    counts = {"new": new, "merged": merged, "unchanged": unchanged}
    if session.out.as_json:
        session.out.json({"agent": session.agent, **counts, "masked_secrets": masked})
    else:
        said = ", ".join(f"{number:,} {what}" for what, number in counts.items())
        session.out.line(f"{counted(len(found))} for {session.agent}: {said}")
        session.out.masked(masked)
    if faults:
        fail(f"{len(faults):,} could not be imported:{_listed(faults)}")


def _written(path: Path) -> datetime:
    """When the file was written; now, if its file system tells no time that there is."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)


async def _restore(
    storage: MemoryStorage, found: list[interchange.Found], faults: list[str]
) -> list[Stored]:
    """Restore some memories; what keeps one of them out becomes a fault. One that is known keeps
    its time if the file has none for it.
    """

    undated = [each.memory for each in found if not each.dated]

    def date(store: OpenStore[Collection]) -> None:
        keys = store.keys([clean_memory(memory) for memory in undated])
        known = {point.id: store.memory(point) for point in store.collection.retrieve(keys)}
        for memory, key in zip(undated, keys, strict=True):
            memory.timestamp = known[key].timestamp if key in known else memory.timestamp

    if undated:
        await storage.operate(date, None)
    try:
        return await storage.restore([each.memory for each in found])
    except InputError as error:
        if len(found) == 1:
            faults.append(f"{found[0].place}: {error}")
            return []
    return [done for each in found for done in await _restore(storage, [each], faults)]


def _listed(faults: list[str]) -> str:
    more = [f"and {len(faults) - _FAULTS:,} more"] if len(faults) > _FAULTS else []
    return "".join(f"\n  {fault}" for fault in [*faults[:_FAULTS], *more])
