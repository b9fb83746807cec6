"""Markdown: rules files (CLAUDE.md, AGENTS.md), and notes: a MEMORY.md, and the files beside it."""

import re
from collections.abc import Iterator

from ..formats import Entry

RULES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", ".cursorrules")
_FRONT = re.compile(r"\A---[^\S\n]*\n(.*?)^---[^\S\n]*$", re.DOTALL | re.MULTILINE)
_DESCRIPTION = re.compile(r"^description:(.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\([^()\s/]+\.md\)")
# Comments, the files that a rules file names, and what `/init` writes into each.
_UNSAID = re.compile(
    r"<!--.*?(?:-->|\Z)|^@\S+\.md\s*?$"
    r"|^This file provides guidance to [^\n]* when working with code in this repository\.$",
    re.DOTALL | re.MULTILINE,
)
# A line in bold or italics above another is a heading, if it is no sentence.
_EMPHASIS = re.compile(
    r"^(\*\*|__|\*|_)(?=\S)([^*_\n]*[^*_\n\s.!?:]):?\1:?[^\S\n]*$(?=\s*^(?!#|\*\*|__)\S)",
    re.MULTILINE,
)
_TITLE = re.compile(r"#{1,6}\s+(.*?)\s*#*$|([-*_])(?:\s*\2){2,}\s*$")  # or a ruler
_ITEM = re.compile(r"[-*+]\s+")


def entries(name: str, text: str, notes: bool) -> Iterator[Entry]:
    """What a file called `name` says, if it is a rules file, or one of somebody's `notes`."""
    rules, front = name in RULES, _FRONT.match(text)
    if not (rules or notes):
        return
    kind, said_by = ("rules", None) if rules else ("notes", "agent")
    about = _DESCRIPTION.search(front[1]) if front and not rules else None  # it is one memory
    whole = [f"{about[1].strip()}\n{_FRONT.sub('', text).strip()}"] if about else None
    for number, said in enumerate(whole or blocks(text), start=1):
        if name != "MEMORY.md" or not _LINK.search(said):  # the other file is read, too
            fields = {"content": said, "said_by": said_by}
            yield Entry(f"item {number}", fields, tag=f"from-{kind}", kind=kind)


def blocks(text: str, heading: str = "") -> Iterator[str]:
    """Each paragraph, and each item of a list that has bullets, after the heading above it. What is
    indented, code, and a list below a colon belong to what stands before.
    """
    lines = _EMPHASIS.sub(r"# \2", _UNSAID.sub("", _FRONT.sub("", text))).splitlines()
    fences = [n for n, line in enumerate(lines) if line.lstrip().startswith(("```", "~~~"))]
    if len(fences) % 2:  # the last is not closed
        del lines[fences[-1]]
    parts = [(heading, list[str]())]
    fenced = gap = False
    for line in lines:
        if not (fenced or line.strip()):
            gap = True
            continue
        heading, block = parts[-1]
        fence = line.lstrip().startswith(("```", "~~~"))
        below = block[:1] and block[0].endswith(":") if _ITEM.match(line) else not gap
        if not fenced and (title := _TITLE.match(line)):
            parts.append((title[1] or heading, []))
        elif fenced or fence or below or line[0].isspace():
            block.append(line)
        else:
            parts.append((heading, [line]))
        fenced, gap = fenced ^ fence, False
    for heading, block in parts:
        said = re.sub(r"\A[-*+]\s+", "", "\n".join(block).strip())
        if said.strip("-*+ "):
            yield f"{heading}: {said}" if heading and not heading.endswith(".md") else said
