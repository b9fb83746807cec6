"""Memories to a file and back: `export` and `import`."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from memory_semantic import AgentMemoryError, InputError, counted, limits

from .. import files, formats, interchange
from ..foreign import recognise
from ..foreign.markdown import RULE
from ..foreign.sources import written
from ..options import command, since_filter, tag_label, until_filter, yes_option
from ..output import first_line, listed
from ..plan import plan
from ..session import Session, confirm, fail, run
from .memories import tell_unshown

if TYPE_CHECKING:
    from collections import Counter

    from memory_semantic import Memory, MemoryStorage, Stored

    from ..foreign.haul import Haul


@dataclass
class _Tally:
    """What became of the memories of a file, by their ids, and the faults."""

    outcomes: dict[str, str] = field(default_factory=dict)
    renamed: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, memory: "Memory", stored: "Stored") -> None:
        """Count what became of a memory; a text that the file has several times counts once."""
        if stored.id not in self.outcomes:
            known = "merged" if stored.changed else "unchanged"
            self.outcomes[stored.id] = known if stored.known else "new"
            self.renamed += not stored.known and stored.id != memory.id


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

    Of a read-only store, such as one in a snapshot, it is the backup, which may be a day old.
    """
    agent = session.existing.agent_id
    memories = [
        memory
        for memory in session.backend.memories(session.out.note)
        if (not since or memory.timestamp >= since) and (not until or memory.timestamp <= until)
    ]
    content = b"".join(interchange.export_lines(agent, memories))
    if file == "-":
        click.echo(content, nl=False)
        return
    if Path(file).is_file():
        confirm(f"{file} exists. Replace it?", yes)
    files.write(file, content)
    session.out.json({"agent": session.agent, "file": file, "memories": len(memories)})
    session.out.line(f"{counted(len(memories))} of {session.agent} written to {file}")


class _Source(click.Path):
    """A file, a folder, "-", or the address of a collection on a Qdrant server."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        address = isinstance(value, str) and value.startswith(("http://", "https://"))
        return value if address else super().convert(value, param, ctx)


@command(
    "import memories.jsonl",
    "import ~/Downloads/data-export.zip",
    "import CLAUDE.md --pin",
    "import notes.txt --tag notes",
)
@click.argument("file", type=_Source(exists=True, allow_dash=True), metavar="FILE-OR-FOLDER")
@tag_label
@click.option("--pin", is_flag=True, help="Pin all of them, or all rules: each is a rule of yours.")
@yes_option
def import_(session: Session, file: str, tags: Sequence[str], pin: bool, yes: bool) -> None:
    """Read memories from a file, a folder, a zip file, or standard input ("-").

    Reads an export, the JSON that list, search and show print, the YAML of the dev-memory bundle,
    or text with one memory per line; gzip works, too. Safe to rerun: resumes after an interruption.
    Ids and times are kept, unless another memory has the id; a text that is already known gets the
    tags of both and the later time.

    Recognises what other tools remember, shows what it would take, and asks: data exports of Claude
    and ChatGPT, rules files (CLAUDE.md, AGENTS.md), the memories of Claude Code and of Amplifier's
    official memory, basic-memory's notes, mem0's get_all, the memory of the MCP reference server,
    and a collection of mcp-server-qdrant by its address on a Qdrant server.
    """
    storage = session.storage
    try:
        haul = None if file == "-" else recognise(file)
        if haul:
            found = haul.memories(storage, tags, RULE if pin else "")
        else:
            found = _own(file, storage, tags, pin)
    except formats.ImportFileError as error:
        fail(f"{file} cannot be imported; nothing was changed.{listed(error.faults)}")
    memories = [memory for _, memory in found.memories]
    if haul:
        _announce(session, file, haul, memories, yes)
        run(interchange.keep_apart(memories, haul.tags, storage))
    loose = run(interchange.drop_open_links(memories, storage))
    tally = _carry_out(session, found.memories)
    outcomes = list(tally.outcomes.values())
    counts = {what: outcomes.count(what) for what in ("new", "merged", "unchanged")}
    left = +haul.left if haul else found.left
    rest = {"renamed": tally.renamed, "unlinked": loose, "masked_secrets": found.masked}
    session.out.json({"agent": session.agent, **counts, **rest, "left_out": left})
    said = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    number = len(outcomes) + len(tally.faults)
    session.out.line(f"{counted(number)} for {session.agent}: {said}")
    if tally.renamed:
        owners = "theirs" if tally.renamed > 1 else "its id"
        session.out.line(f"{tally.renamed:,} got a new id, because another memory has {owners}.")
    if rules := sum(memory.pinned for memory in memories):
        session.out.line(f"Pinned as rules in the file, or by --pin: {rules:,}.")
        tell_unshown(session)
    if loose:
        session.out.line(f"Not replaced here, as their corrections did not come along: {loose:,}.")
    if left and not haul:
        session.out.line(f"Fields that are not understood, and were left out: {_listed(left)}.")
    session.out.masked(found.masked)
    if haul and memories:
        tagged = " ".join(f"--tag {tag}" for tag in haul.tags)
        session.out.note(f"Undo: agent-memory forget {tagged}")
    if tally.faults:
        fail(f"{len(tally.faults):,} could not be imported:{listed(tally.faults)}")


def _own(file: str, storage: "MemoryStorage", tags: Sequence[str], pin: bool) -> interchange.Read:
    path = None if file == "-" else Path(file)
    with path.open("rb") if path else nullcontext(sys.stdin.buffer) as stream:
        data = formats.read_all(stream.read)
    when = written(path) if path else None
    return interchange.read(data, file, storage, tags, pin, when or datetime.now(UTC))


def _announce(
    session: Session, file: str, haul: "Haul", memories: Sequence["Memory"], yes: bool
) -> None:
    """Show what would be taken of others' memories, and ask."""
    if session.out.as_json and not yes:
        raise click.UsageError("With --json nothing is shown before it is imported: add --yes.")
    for (form, kind), number in sorted(haul.kinds.items()):
        session.out.line(f"{kind}, from {form.name}: {number:,}")
    if left := +haul.left:
        session.out.line(f"Left out: {_listed(left)}.")
    if not memories:
        fail(f"{file} holds nothing to keep. Nothing was changed.")
    generator = session.storage.generator(run(session.storage.info()))
    session.out.note(run(plan(memories, generator)).sentence)
    confirm(f"Import {counted(len(memories))} for {session.agent}?", yes)


def _listed(left: "Counter[str]") -> str:
    """What is left out, with its numbers, the most first."""
    return first_line(", ".join(f"{what} ({number:,})" for what, number in left.most_common()))


def _carry_out(session: Session, found: Sequence[tuple[str, "Memory"]]) -> _Tally:
    tally, done = _Tally(), 0
    try:
        with session.out.progress("Importing", len(found)) as progress:
            for start in range(0, len(found), limits.EMBEDDED_AT_ONCE):
                some = found[start : start + limits.EMBEDDED_AT_ONCE]
                run(_restore(session.storage, some, tally))
                done = start + len(some)
                progress.done(done)
    except (KeyboardInterrupt, AgentMemoryError) as error:
        why = "Interrupted." if isinstance(error, KeyboardInterrupt) else str(error)
        fail(f"{why}\n{done:,} of {len(found):,} were imported. Run it again to resume.")
    return tally


async def _restore(
    storage: "MemoryStorage",
    found: Sequence[tuple[str, "Memory"]],
    tally: _Tally,
) -> None:
    """Restore some memories; one that is refused becomes a fault, with its place."""
    memories = [memory for _, memory in found]
    try:
        for memory, stored in zip(memories, await storage.restore(memories), strict=True):
            tally.add(memory, stored)
    except InputError as error:
        if len(found) == 1:
            tally.faults.append(f"{found[0][0]}: {error}")
            return
        for each in found:
            await _restore(storage, [each], tally)
