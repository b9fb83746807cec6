"""Memories from a file: `import`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from memory_semantic import InputError, RefusedTextError, counted, one_line

from .. import files, foreign, formats, interchange
from ..options import command, tag_label, yes_option
from ..output import listed
from ..session import Session, ask, confirm, cost, fail, in_parts, run
from .pin import tell_unshown

if TYPE_CHECKING:
    from memory_semantic import Memory, Stored

_SHOWN = 3  # memories of each kind before a question


@command("import memories.jsonl", "import ~/Downloads/data-export.zip", "import CLAUDE.md --pin")
@click.argument("file", type=click.Path(exists=True, allow_dash=True), metavar="FILE-OR-FOLDER")
@tag_label
@click.option("--pin", is_flag=True, help="Pin all of them: each is a rule of yours.")
@yes_option
def import_(session: Session, file: str, tags: Sequence[str], pin: bool, yes: bool) -> None:
    """Read memories from a file, a folder, a zip file, or standard input ("-").

    Reads an export, the JSON that list, search and show print, the YAML of dev-memory, or text with
    one memory per line; gzip works, too. Ids and times are kept, unless another memory has the id;
    a known text gets the tags of both and the later time. Safe to rerun after an interruption.

    Shows what it would take of other tools, and asks: what Claude and ChatGPT saved, in their data
    exports; rules files (CLAUDE.md, AGENTS.md, GEMINI.md, .cursorrules); a folder with a MEMORY.md
    and other Markdown; mem0; the MCP reference server. What cannot be read is named, and makes the
    exit code 1; the rest comes.
    """
    out, storage = session.out, session.storage
    try:
        if file == "-":
            entries = formats.entries(files.read_all(sys.stdin.buffer.read), file)
        else:
            entries = foreign.recognise(Path(file))
        found, faults, masked, left = interchange.read(entries, storage, tags, pin)
        if faults:
            out.warn(f"Cannot be read, and left out: {len(faults):,}.{listed(faults)}")
        of_others = [m for entry, m in found if not entry.tag and entry.agent != session.agent]
        claims = [memory for memory in of_others if memory.of_user or memory.replaced_by]
        believed = pin or (bool(claims) and _believed(session, claims, yes))
        loose = run(interchange.fit(found, () if believed else of_others, storage))
    except InputError as error:
        why = listed(str(error).split("\n"))
        fail(f"{file} cannot be imported; nothing was changed.{why}")
    undo = sorted({entry.tag for entry, _ in found if entry.tag})
    if undo:
        _ask(session, found, yes)
    memories = [memory for _, memory in found]
    counts, refused = _carry_out(session, memories)
    rest = {"not_read": len(faults), "not_believed": 0 if believed else len(claims)}
    rest |= {"unlinked": loose, "masked_secrets": masked, "left_out": left}
    rest |= {"refused": [memory.id for memory in refused]}
    out.json({"agent": session.agent, **counts, **rest})
    said = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    out.line(f"{counted(sum(counts.values()))} for {session.agent}: {said}")
    lost = {memory.key for memory in refused}
    if rules := sum(m.pinned and not m.replaced_by for m in memories if m.key not in lost):
        out.line(f"Pinned as rules in the file, or by --pin: {rules:,}.")
        tell_unshown(session)
    if claims and not believed:
        out.line(
            f"Stored as plain memories: {len(claims):,} that the file calls rules, your words or "
            f"replaced. It is no export of {session.agent}'s."
        )
        out.note(f"To pin a rule: agent-memory pin ID{session.named}")
    if loose:
        out.line(f"Not replaced here, as their corrections did not come along: {loose:,}.")
    if left:
        names = ", ".join(f"{name} ({number:,})" for name, number in left.most_common())
        out.line(one_line(f"Fields that are not understood, and were left out: {names}."))
    out.masked(masked)
    if refused:
        places = {memory.key: entry.place for entry, memory in found}
        named = [f"{places[memory.key]}: {memory.sized}" for memory in refused]
        out.warn(f"Not imported, as the embeddings service refuses them:{listed(named)}")
    if undo and counts["new"]:
        told = "".join(f" --tag {tag}" for tag in undo) + session.named
        out.note(f"Undo: agent-memory forget{told}\nThat takes back all imports of this kind.")
    if faults or refused:
        raise click.exceptions.Exit(1)


def _ask(session: Session, found: Sequence[tuple[formats.Entry, "Memory"]], yes: bool) -> None:
    """Show what would be taken of others' memories, from which files, and ask."""
    memories = [memory for _, memory in found]
    for kind in dict.fromkeys(entry.kind for entry, _ in found):
        some = [(entry.place, memory) for entry, memory in found if entry.kind == kind]
        names = dict.fromkeys(place.rpartition(", ")[0] for place, _ in some)
        session.out.line(one_line(f"{kind}: {len(some):,}, in {', '.join(names)}"))
        session.out.memories([memory for _, memory in some[:_SHOWN]])
    generator = session.storage.generator(run(session.storage.info()))
    session.out.note(f"At most {cost(memories, generator)}")  # known texts keep their vectors
    confirm(session, f"Import {counted(len(memories))} for {session.agent}?", yes)


def _believed(session: Session, claims: Sequence["Memory"], yes: bool) -> bool:
    """Show what a file says that only the person may, and ask whether it is so. Whoever does not
    want to be asked has not seen it.
    """
    session.out.first_memories(claims)
    question = "The file calls these rules, your own words, or replaced. Take its word for it?"
    return not (yes or session.out.as_json) and bool(ask(question))


def _carry_out(
    session: Session, memories: Sequence["Memory"]
) -> tuple[dict[str, int], list["Memory"]]:
    """What became of the memories, a text that came several times counting once, and those that the
    embeddings service refused.
    """
    refused: list[Memory] = []

    async def restore(some: Sequence["Memory"]) -> list["Stored"]:
        try:
            return await session.storage.restore(some)
        except RefusedTextError as error:
            refused.extend(memory for memory in some if memory.key in error.keys)
            return await session.storage.restore(m for m in some if m.key not in error.keys)

    stored = in_parts(session, "Importing", memories, restore)
    counts = {"new": 0, "merged": 0, "unchanged": 0}
    for each in {each.id: each for each in reversed(stored)}.values():
        counts["new" if not each.known else "merged" if each.changed else "unchanged"] += 1
    return counts, refused
