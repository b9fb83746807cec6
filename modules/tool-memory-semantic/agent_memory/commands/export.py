"""Memories to a file: `export`."""

from datetime import UTC, datetime
from pathlib import Path

import click
from memory_semantic import counted

from .. import files
from ..options import command, since_filter, until_filter, yes_option
from ..session import Session, confirm, run


@command("export memories.jsonl", "export - | gzip > memories.jsonl.gz")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@since_filter
@until_filter
@yes_option
def export(
    session: Session, file: str, since: datetime | None, until: datetime | None, yes: bool
) -> None:
    """Write all memories, or those of a time, to FILE, or to standard output ("-").

    The file has one JSON object per line; the first says what the file is. It holds texts, ids,
    times and tags, but no vectors. `agent-memory import` reads it on any machine.

    Of a read-only store, such as one in a snapshot, it is written from the store's journal,
    memories.jsonl, which `import` reads as well.
    """
    from memory_semantic import exchange, upkeep

    agent = session.existing.agent_id
    memories = [
        memory
        for memory in run(upkeep.memories(session.place, session.out.warn))
        if (not since or memory.timestamp >= since) and (not until or memory.timestamp <= until)
    ]
    header = exchange.Header(agent=agent, exported=datetime.now(UTC), memories=len(memories))
    lines = (exchange.line_of(memory.dict_for_storage()) for memory in memories)
    content = header.line() + b"".join(lines)
    if file == "-":
        click.echo(content, nl=False)
        return
    if Path(file).is_file():
        confirm(session, f"{file} exists. Replace it?", yes)
    files.write(file, content)
    session.out.json({"agent": agent, "file": file, "memories": len(memories)})
    session.out.line(f"{counted(len(memories))} of {agent} written to {file}")
