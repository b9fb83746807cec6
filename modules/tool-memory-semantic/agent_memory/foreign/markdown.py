"""Markdown: rules files (CLAUDE.md, AGENTS.md), and notes: a MEMORY.md, and the files beside it."""

import re
from collections.abc import Iterator

from ..formats import Entry

_RULES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md")
_FRONT = re.compile(r"\A---\s*?\n(.*?)^---\s*?$", re.DOTALL | re.MULTILINE)
_DESCRIPTION = re.compile(r"^description:(.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\([^()\s/]+\.md\)")
# Comments, and the files that a rules file names.
_UNSAID = re.compile(r"<!--.*?(?:-->|\Z)|^@\S+\.md\s*?$", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r"#{1,6}\s+(.*?)\s*#*$|([-*_])(?:\s*\2){2,}\s*$")  # or a ruler
_ITEM = re.compile(r"[-*+]\s+")


def entries(name: str, text: str, notes: bool) -> Iterator[Entry]:
    """What a file called `name` says, if it is a rules file, or there are `notes` in its folder."""
    front = _FRONT.match(text)
    about = _DESCRIPTION.search(front[1]) if front else None  # then the file is one memory
    body = text[front.end() :].strip() if front else text
    if name in _RULES:
        for said in blocks(body):
            yield Entry("rules", {"content": said}, tag="from-rules-file")
    elif notes:
        for said in [f"{about[1].strip()}\n{body}"] if about else blocks(body):
            if name != "MEMORY.md" or not _LINK.search(said):  # the other file is read, too
                yield Entry("notes", {"content": said, "said_by": "agent"}, tag="from-claude-code")


def blocks(text: str, heading: str = "") -> Iterator[str]:
    """Each paragraph, and each item of a list that has bullets, after the heading above it. What is
    indented, code, and a list below a colon belong to what stands before.
    """
    parts = [(heading, list[str]())]
    fenced = gap = False
    for line in _UNSAID.sub("", text).splitlines():
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
