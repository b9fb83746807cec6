"""Changes the product in one small place at a time, and prints which changes no test notices.

The sample is the same for as long as the code is. Each mutant is tried in a copy of the tree, by
the tests of its room; those first that name what was changed. Each is printed as a line of JSON:

    uv run tests/mutants.py > before.jsonl && uv run tests/mutants.py --compare before.jsonl
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from time import monotonic
from typing import Any

TREE, PRODUCT, SAMPLE = Path(__file__).parents[1], "modules/tool-memory-semantic", 100
# Which tests can see a change in which room; the first row that fits counts.
ROOMS = {
    "memory_semantic/files": "files contract command_line",
    "memory_semantic/embeddings": "embeddings contract",
    "memory_semantic/speaker.py": "session contract",
    "memory_semantic": "contract files embeddings session",
    "memory_server": "server contract",
    "memory_hooks": "session",
    "memory_sharing": "session/test_sharing.py command_line/test_share.py server",
    "memory_mcp": "clients",
    "agent_memory": "command_line clients page",
}
# Boundaries that are easily forgotten, always tried, and a word of the tests for them.
NAMED = [
    ("ranking.py", "< RECENCY_WINDOW", "<= RECENCY_WINDOW", "WEEK"),  # exactly seven days
    ("ranking.py", "min(max(similarity, 0.0), 1.0)", "max(similarity, 0.0)", "WEEK"),
    ("limits.py", "MAX_TAGS = 20", "MAX_TAGS = 21", "OF_A_TOOL"),
    ("remembered.py", "self.expires <= now", "self.expires < now", "HISTORIES"),  # at this moment
    ("check.py", "expires <= now", "expires < now", "HISTORIES"),
]
PAIRS = {"<": "<=", ">": ">=", "==": "!=", "and": "or", "min": "max", "True": "False"}
SWAPPED = PAIRS | {b: a for a, b in PAIRS.items()} | {"not": "", "return": "return None and"}


broken: list[str] = []  # tests that fail without any mutant
Mutant = dict[str, Any]  # `before`, at `start` in the function `name` of a file, becomes `after`


def applied(mutant: Mutant, text: str) -> str:
    """The file with it."""
    end = mutant["start"] + len(mutant["before"])
    return text[: mutant["start"]] + mutant["after"] + text[end:]


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All of a file: operators and numbers changed, what is returned dropped, calls not made."""
    name, last, begins, lines = "", "", True, text.splitlines(True)
    above = [0, *accumulate(map(len, lines))]
    for kind, word, (row, column), _, line in tokenize.generate_tokens(iter(lines).__next__):
        name, last = (word if last in ("def", "class") else name), word
        afters = [SWAPPED[word]] if word in SWAPPED else []
        if word.isdecimal():
            afters = [str(int(word) + 1), f"({int(word) - 1})"]
        elif kind == tokenize.NAME and begins:
            afters.append(f"None and {word}")
        for after in afters:
            about = {"file": file, "name": name, "line": line.strip(), "before": word}
            about = {**about, "after": after, "place": column - len(line) + len(line.lstrip())}
            id = sha256(json.dumps(about).encode()).hexdigest()[:12]
            yield {"id": id, **about, "start": above[row - 1] + column}
        if kind not in (tokenize.NL, tokenize.COMMENT):
            begins = kind in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def sample(root: Path) -> Iterator[Mutant]:
    """The named mutants, and a sample of all others that depends on nothing but the code."""
    files = (f for room in {r.split("/")[0] for r in ROOMS} for f in (root / room).rglob("*.py"))
    texts = {str(file.relative_to(root)): file.read_text() for file in files}
    for name, before, after, word in NAMED:
        start = texts[file := f"memory_semantic/{name}"].index(before)
        about = {"file": file, "name": word, "start": start, "before": before, "after": after}
        yield {"id": before, **about}
    left, every = SAMPLE, [each for about in texts.items() for each in mutants(*about)]
    for mutant in sorted(every, key=lambda each: each["id"]):
        with suppress(SyntaxError):  # some are no Python
            compile(applied(mutant, texts[mutant["file"]]), mutant["file"], "exec")
            yield mutant
            left -= 1
        if not left:
            break


def tests_for(tree: Path, mutant: Mutant) -> list[str]:
    """The test files of a mutant's room, first those that name it most."""
    row = next(row for room, row in ROOMS.items() if mutant["file"].startswith(room))
    word = re.compile(rf"\b({mutant['name']}|{Path(mutant['file']).stem})\b")
    places = [tree / "tests" / place for place in row.split()]
    tests = [f for place in places for f in sorted(place.rglob("test_*.py")) or [place]]
    tests.sort(key=lambda file: -len(word.findall(file.read_text())))
    return [str(file.relative_to(tree)) for file in tests]


def failing(tree: Path, tests: list[str], seconds: float) -> str:
    """The first of the tests that fails there, of those that do not always; or nothing."""
    options = ["-xq", "--tb=no", "-pno:cacheprovider", *(f"--deselect={each}" for each in broken)]
    environment = {**os.environ, "PYTHONPATH": str(tree / PRODUCT), "TMPDIR": str(tree.parent)}
    how = {"cwd": tree, "env": environment, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(command, timeout=max(1, seconds), **how)
    found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return (found or ["all"])[0] if done.returncode in (1, 2, 4) else ""


def tried(tree: Path, mutant: Mutant, seconds: float) -> Mutant:
    """What became of a mutant in this copy of the tree: killed, survived, or out of time."""
    path, tests, end = (
        tree / PRODUCT / mutant["file"],
        tests_for(tree, mutant),
        monotonic() + seconds,
    )
    text, verdict, by = path.read_text(), "survived", ""
    try:
        for some in (tests[:3], tests[3:]):  # most of the others cannot see it
            while some and verdict == "survived":
                path.write_text(applied(mutant, text))
                if not (by := failing(tree, some, end - monotonic())):
                    break
                path.write_text(text)
                if by == "all" or not failing(tree, [by], 100):
                    verdict = "killed"
                else:  # without the mutant, too
                    broken.append(by)
    except subprocess.TimeoutExpired:
        verdict = "out of time"
    finally:
        path.write_text(text)
    return {**mutant, "verdict": verdict, "by": by, "seconds": round(monotonic() - end + seconds)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--room", default="", help="only files that begin so: memory_semantic/f")
    parser.add_argument("--seconds", type=float, default=300, help="for each mutant (300)")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="say what was killed there")
    given = parser.parse_args()
    old = map(json.loads, given.compare.read_text().splitlines() if given.compare else [])
    killed = {told["id"] for told in old if told["verdict"] == "killed"}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache"))
        for mutant in sample(TREE / PRODUCT):
            if mutant["file"].startswith(given.room):
                print(json.dumps(told := tried(tree, mutant, given.seconds)), flush=True)
                if told["verdict"] != "killed" and told["id"] in killed:
                    print("no longer killed:", told["id"], file=sys.stderr)


if __name__ == "__main__":
    main()
