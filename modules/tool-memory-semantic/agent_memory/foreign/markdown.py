"""Markdown: rules files (CLAUDE.md, AGENTS.md), folders of memories around a MEMORY.md (Claude
Code's, and Amplifier's official memory), and the notes of basic-memory.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from .. import formats
from .haul import Form, Haul

RULES = Form("rules files", "from-rules-file")
CLAUDE_CODE = Form("Claude Code's memories", "from-claude-code")
AMPLIFIER = Form("Amplifier's official memory", "from-amplifier-memory")
BASIC = Form("basic-memory's notes", "from-basic-memory")
RULE = "rules"

_RULES_NAME = re.compile(r"(?:CLAUDE(?:\.local)?|AGENTS)\.md")
_INDEX = "MEMORY.md"
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)^---[ \t]*\n?", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
_ITEM = re.compile(r"([-*+]|\d+[.)])\s+")
_FENCE = ("```", "~~~")
_RULER = re.compile(r"([-*_])(\s*\1){2,}\s*")
_NUMBERED = re.compile(r"- \[m-\d+\] ")  # a line of Amplifier's official memory
_LINK = re.compile(r"(?:\]\(|→ *|-> *)([^()\s]+\.md)\b")
_OBSERVATION = re.compile(r"^[ \t]*- \[([^\]\n]{2,})\] (?!\()(.+)$", re.MULTILINE)
_RELATION = re.compile(r"^[ \t]*- ([^\[\n]*)\[\[([^\]\n]+)\]\].*$", re.MULTILINE)
_HASHTAG = re.compile(r"(?<!\S)#([\w/-]+)")
_GIT_SECONDS = 10


def blocks(text: str) -> Iterator[tuple[list[str], str]]:
    """Each paragraph and each item of a list, with its lines as they stand there, as one text: after
    the heading above it, with what is indented below it, and code with the paragraph before. Items
    stay together if they are numbered, or if the paragraph before them ends with a colon.
    """
    heading, lines, fenced, gap = "", list[str](), False, False
    for line in [*_COMMENT.sub("", text).splitlines(), ""]:
        start = line.lstrip()
        item, indented = _ITEM.match(line), line[:1].isspace()
        open_ = bool(lines) and lines[0].rstrip().endswith(":") and not lines[0].startswith("#")
        steps = bool(item and lines and item[1][0].isdigit() and lines[0][0].isdigit())
        if fenced or (lines and start.startswith(_FENCE)):
            goes_on = True
        elif not start:
            gap = True
            continue
        elif item:
            goes_on = open_ or steps
        else:
            goes_on = bool(lines) and (indented if gap else True)
        if title := not fenced and (_HEADING.match(line) or _RULER.fullmatch(line)):
            goes_on = False
        if lines and not goes_on:
            yield lines, _one(heading, lines)
            lines = []
        fenced ^= start.startswith(_FENCE)
        gap = False
        if title:
            heading = title[1] if line.startswith("#") else heading
        elif start or lines:
            lines.append(line)
    if lines:
        yield lines, _one(heading, lines)


def _one(heading: str, lines: list[str]) -> str:
    item = _ITEM.match(lines[0])
    bullet = item and not item[1][0].isdigit()
    text = "\n".join([lines[0][item.end() :] if item and bullet else lines[0], *lines[1:]]).rstrip()
    return f"{heading}: {text}" if heading and not heading.endswith(".md") else text


class Notes:
    """The Markdown files of a tree: `names` are those of all its files, `read` gives the text of
    one, and `path` where it is on disk, if it is.
    """

    def __init__(
        self, names: list[str], read: Callable[[str], str], path: Callable[[str], Path | None]
    ) -> None:
        self._names = set(names)
        self._read, self._path = read, path
        self._linked = dict[str, Form]()  # the files that belong to an index
        for name in names:
            if Path(name).name == _INDEX:
                self._look_into(name)

    def add(self, name: str, written: datetime | None, haul: Haul) -> bool:
        """Add what the file holds. False if it is of no known form."""
        text = self._read(name)
        if not text:
            return False
        fields, body = _front(text, haul)
        if _RULES_NAME.fullmatch(Path(name).name):
            self._blocks(RULES, RULE, name, body, written, haul)
        elif name in self._linked:
            form = self._linked[name]
            kind = fields.get("type") or _dict(fields.get("metadata")).get("type")
            if form is CLAUDE_CODE and fields.get("name"):
                about = str(fields.get("description") or "")
                content = body.strip() if about in body else f"{about}\n{body.strip()}"
                when = self._dates(name).get("", None)
                haul.add(form, "notes", content, when, written, [kind] if kind else [], "agent")
            else:
                self._blocks(form, "notes", name, body, written, haul)
        elif fields.get("permalink") or ("title" in fields and _OBSERVATION.search(body)):
            _basic(name, fields, body, written, haul)
        else:
            return False
        return True

    def _look_into(self, index: str) -> None:
        folder = Path(index).parent
        text = self._read(index)
        form = AMPLIFIER if _NUMBERED.search(text) else CLAUDE_CODE
        beside = [
            index,
            *(f"{folder.as_posix()}/{link}".removeprefix("./") for link in _LINK.findall(text)),
        ]
        for name in self._names:
            parent, lone = Path(name).parent, Path(name).name in ("declined.md", "inbox.md")
            topic = parent == folder / "topics" or (parent == folder and folder.name == "memory")
            if name.endswith(".md") and not lone and (name in beside or topic):
                self._linked[name] = form

    def _blocks(
        self, form: Form, kind: str, name: str, body: str, written: datetime | None, haul: Haul
    ) -> None:
        dates = self._dates(name)
        said_by = "agent" if form is CLAUDE_CODE else None
        haul.left["comments"] += len(_COMMENT.findall(body))
        for lines, content in blocks(body):
            link = _LINK.search(lines[0]) if len(lines) == 1 else None
            if lines[0].startswith("@"):
                haul.left["files that a rules file names with @"] += 1
            elif link and self._belongs(name, link[1]):
                haul.left["lines that point to a file of the same folder"] += 1
            else:
                when = max((dates[line] for line in lines if line in dates), default=None)
                content = re.sub(r"(^|: )\[m-\d+\] ", r"\1", content, count=1)
                haul.add(form, kind, content, when, written, said_by=said_by, file=Path(name).name)

    def _belongs(self, index: str, link: str) -> bool:
        return f"{Path(index).parent.as_posix()}/{link}".removeprefix("./") in self._linked

    def _dates(self, name: str) -> dict[str, float]:
        """When each line of the file was written, as git knows it; under "", the last time."""
        path = self._path(name)
        if path is None or not any((each / ".git").exists() for each in path.absolute().parents):
            return {}
        command = [*("git", "-c", "core.fsmonitor=false", "--no-pager", "blame", "--porcelain")]
        command += ["--no-textconv", "HEAD", "--", path.name]  # HEAD, so that no filter runs
        quiet = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
        try:
            answer = subprocess.run(
                command, cwd=path.parent, env=quiet, capture_output=True, timeout=_GIT_SECONDS
            ).stdout.decode(errors="replace")
        except (OSError, subprocess.TimeoutExpired):
            return {}
        dates, times, commit = dict[str, float](), dict[str, float](), ""
        for line in answer.splitlines():
            if re.match(r"[0-9a-f]{40,64} \d", line):
                commit = line.split()[0]
            elif line.startswith("committer-time "):
                times[commit] = float(line.split()[1])
            elif line.startswith("\t") and commit in times:
                dates[line[1:]] = times[commit]
        return dates | ({"": max(times.values())} if times else {})


def _front(text: str, haul: Haul) -> tuple[Mapping[str, Any], str]:
    """The fields at the beginning of the file, and what follows them."""
    front = _FRONT.match(text)
    if not front:
        return {}, text
    try:
        fields = formats.yaml_values(front[1])
    except (formats.ImportFileError, RecursionError):
        haul.left["front matter that is not plain YAML"] += 1
        fields = None
    return _dict(fields), text[front.end() :]


def _basic(
    name: str, fields: Mapping[str, Any], body: str, written: datetime | None, haul: Haul
) -> None:
    title = str(fields.get("title") or Path(name).stem)
    tags = fields.get("tags") or []
    tags = tags.split(",") if isinstance(tags, str) else tags if isinstance(tags, list) else []
    tags = [str(tag).strip().removeprefix("#") for tag in tags]
    dates = ("updated_at", "modified", "updated", "created_at", "created", "date")
    when = next((fields[each] for each in dates if fields.get(each)), None)
    for category, said in _OBSERVATION.findall(body):
        own = [*tags, category.strip(), *_HASHTAG.findall(said)]
        content = f"{title}: {_HASHTAG.sub('', said).strip()}"
        haul.add(BASIC, "observations", content, when, written, own, note=title)
    for relation, other in _RELATION.findall(_OBSERVATION.sub("", body)):
        content = f"{title} {relation.strip().replace('_', ' ') or 'relates to'} {other.strip()}"
        haul.add(BASIC, "relations", content, when, written, tags, note=title)
    rest = _RELATION.sub("", _OBSERVATION.sub("", body))
    for _, content in blocks(rest):
        told = content if content.startswith(f"{title}: ") else f"{title}: {content}"
        haul.add(BASIC, "notes", told, when, written, tags, note=title)
    known = {"title", "type", "tags", "permalink", *dates}
    haul.left.update(f"the field {each}" for each in fields.keys() - known if fields[each])


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
