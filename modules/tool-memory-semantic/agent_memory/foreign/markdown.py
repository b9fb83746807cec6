"""Markdown: rules files (CLAUDE.md, AGENTS.md), folders of memories around a MEMORY.md (Claude
Code's, and Amplifier's official memory), and the notes of basic-memory.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from .. import formats
from .haul import Form, Haul, dict_of, list_of
from .sources import Source

RULES = Form("rules files", "from-rules-file")
CLAUDE_CODE = Form("Claude Code's memories", "from-claude-code")
AMPLIFIER = Form("Amplifier's official memory", "from-amplifier-memory")
BASIC = Form("basic-memory's notes", "from-basic-memory")
RULE = "rules"

_RULES_NAME = re.compile(r"(?:CLAUDE(?:\.local)?|AGENTS)\.md")
_NOT_MEMORY = ("declined.md", "inbox.md")  # of Amplifier's official memory
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)^---[ \t]*\n?", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TITLE = re.compile(r"#{1,6}\s+(.*?)\s*#*$|([-*_])(?:\s*\2){2,}\s*$")  # or a ruler
_ITEM = re.compile(r"(?:[-*+]|(\d)+[.)])\s+")
_NUMBER = re.compile(r"(^|: )\[m-\d+\] ")  # of a memory of Amplifier's
_LINK = re.compile(r"(?:\]\(|→ *|-> *)([^()\s]+\.md)\b")
_OBSERVATION = re.compile(r"^[ \t]*- \[([^\]\n]{2,})\] (?!\()(.+)$", re.MULTILINE)
_RELATION = re.compile(r"^[ \t]*- ([^\[\n]*)\[\[([^\]\n]+)\]\].*$", re.MULTILINE)
_HASHTAG = re.compile(r"\s#([\w/-]+)")
_DATES = ("updated_at", "modified", "updated", "created_at", "created", "date")
_GIT = "git -c core.fsmonitor=false blame --porcelain --no-textconv HEAD --"  # runs no filter
_GIT_SECONDS = 10


def blocks(text: str) -> Iterator[tuple[list[str], str]]:
    """Each paragraph and each item of a list: its lines, and one text after the heading above it.
    What is indented belongs to what it is below, and code to the paragraph before. Items stay
    together if they are numbered, or if the paragraph before them ends with a colon.
    """
    heading, lines, fenced, gap = "", list[str](), False, False
    for line in [*_COMMENT.sub("", text).splitlines(), "---"]:
        if not (fenced or line.strip()):
            gap = True
            continue
        fence = line.lstrip().startswith(("```", "~~~"))
        title, item = not fenced and _TITLE.match(line), _ITEM.match(line)
        together = bool(lines) and (lines[0].endswith(":") or lines[0][0].isdigit())
        below = together if item else line[0].isspace() or not gap if line else True
        if lines and not (fenced or fence or (below and not title)):
            yield from _block(heading, lines)
            lines = []
        fenced, gap = fenced ^ fence, False
        if title:
            heading = title[1] or heading
        else:
            lines.append(line)
    yield from _block(heading, lines)


def _block(heading: str, lines: list[str]) -> Iterator[tuple[list[str], str]]:
    text = "\n".join(lines).strip()
    if (item := _ITEM.match(text)) and not item[1]:
        text = text[item.end() :]
    if text.strip("-*+ "):
        yield lines, f"{heading}: {text}" if heading and not heading.endswith(".md") else text


class Notes:
    """The Markdown files among which a MEMORY.md and what belongs to it are known."""

    def __init__(self, files: list[Source]) -> None:
        self._belongs = dict[str, Form]()
        names = [PurePosixPath(each.name) for each in files]
        for index, file in zip(names, files, strict=True):
            if index.name == "MEMORY.md":
                text, folder = file.text(), index.parent
                form = AMPLIFIER if re.search(r"^- \[m-\d+\] ", text, re.MULTILINE) else CLAUDE_CODE
                linked = {index, *(folder / link for link in _LINK.findall(text))}
                homes = {folder / "topics", *([folder] if folder.name == "memory" else [])}
                for name in names:
                    if name.name not in _NOT_MEMORY and (name in linked or name.parent in homes):
                        self._belongs[str(name)] = form

    def add(self, file: Source, haul: Haul) -> bool:
        """Add what the file holds. False if it is of no known form."""
        name, text = PurePosixPath(file.name), file.text()
        fields, body = _front(text, haul)
        form = RULES if _RULES_NAME.fullmatch(name.name) else self._belongs.get(str(name))
        if form == CLAUDE_CODE and fields.get("name"):  # one memory
            kind = fields.get("type") or dict_of(fields.get("metadata")).get("type")
            about, body = str(fields.get("description") or ""), body.strip()
            content = body if about in body else f"{about}\n{body}"
            haul.add(
                CLAUDE_CODE, "notes", content, None, file.written, [kind] if kind else [], "agent"
            )
        elif form and text:
            self._blocks(form, file, body, haul)
        elif fields.get("permalink") or ("title" in fields and _OBSERVATION.search(body)):
            _basic(file, fields, body, haul)
        else:
            return False
        return True

    def _blocks(self, form: Form, file: Source, body: str, haul: Haul) -> None:
        name, dates = PurePosixPath(file.name), _dates(file)
        kind, said_by = RULE if form is RULES else "notes", "agent" if form is CLAUDE_CODE else None
        haul.left["comments"] += len(_COMMENT.findall(body))
        for lines, content in blocks(body):
            link = _LINK.search(lines[0]) if len(lines) == 1 else None
            if lines[0].startswith("@"):
                haul.left["files that a rules file names with @"] += 1
            elif link and str(name.parent / link[1]) in self._belongs:
                haul.left["lines that point to a file of the same folder"] += 1
            else:
                when = max((dates[line] for line in lines if line in dates), default=None)
                content = _NUMBER.sub(r"\1", content, count=1)
                haul.add(form, kind, content, when, file.written, (), said_by, file=name.name)


def _dates(file: Source) -> dict[str, float]:
    """When each line of the file was written, in seconds since 1970, if git knows it."""
    path = file.path and file.path.absolute()
    if path is None or not any((each / ".git").exists() for each in path.parents):
        return {}
    quiet = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    command = [*_GIT.split(), path.name]
    try:
        done = subprocess.run(
            command, cwd=path.parent, env=quiet, capture_output=True, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    dates, times, commit = dict[str, float](), dict[str, float](), ""
    for line in done.stdout.decode(errors="replace").split("\n"):
        if line.startswith("\t"):
            dates[line[1:]] = times[commit]
        elif line.startswith("committer-time "):
            times[commit] = float(line.split()[1])
        elif re.match(r"[0-9a-f]{40,64} \d", line):
            commit = line.split()[0]
    return dates


def _front(text: str, haul: Haul) -> tuple[Mapping[str, Any], str]:
    """The fields at the beginning of a file, and what follows them."""
    if not (front := _FRONT.match(text)):
        return {}, text
    try:
        fields = formats.yaml_values(front[1])
    except (formats.ImportFileError, RecursionError):
        haul.left["front matter that is not plain YAML"] += 1
        fields = None
    return dict_of(fields), text[front.end() :]


def _basic(file: Source, fields: Mapping[str, Any], body: str, haul: Haul) -> None:
    title = str(fields.get("title") or Path(file.name).stem)
    tags = fields.get("tags")
    tags = tags.split(",") if isinstance(tags, str) else list_of(tags)
    tags = [str(tag).strip().removeprefix("#") for tag in tags]
    when = next((fields[each] for each in _DATES if fields.get(each)), None)

    def add(kind: str, content: str, *own: str) -> None:
        haul.add(BASIC, kind, content, when, file.written, [*tags, *own], note=title)

    for category, said in _OBSERVATION.findall(body):
        content = f"{title}: {_HASHTAG.sub('', said)}"
        add("observations", content, category.strip(), *_HASHTAG.findall(said))
    body = _OBSERVATION.sub("", body)
    for relation, other in _RELATION.findall(body):
        add("relations", f"{title} {relation.strip().replace('_', ' ') or 'relates to'} {other}")
    for _, content in blocks(_RELATION.sub("", body)):
        add("notes", content if content.startswith(f"{title}: ") else f"{title}: {content}")
    known = {"title", "type", "tags", "permalink", *_DATES}
    haul.left.update(f"the field {each}" for each in fields.keys() - known if fields[each])
