"""Changes the product in one small place at a time, and prints which changes no test notices.

The sample is the same for as long as the code is. Each is tried in a copy of the tree by the tests
of its package, those first that name what was changed. `--compare OLD` tries what was killed there.
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
from pathlib import Path
from time import monotonic
from typing import Any

TREE, PRODUCT, SAMPLE = Path(__file__).parents[1], "modules/tool-memory-semantic", 100
TESTS = {  # which can see a change in which package
    "memory_semantic": "contract files embeddings session",
    "memory_server": "server contract",
    "memory_hooks": "session",
    "memory_sharing": "session server command_line",
    "memory_mcp": "clients",
    "agent_memory": "command_line clients page",
}
NAMED = [  # boundaries that are easily forgotten, always tried, with a word of the tests for them
    ("ranking.py", "< RECENCY_WINDOW", "<= RECENCY_WINDOW", "WEEK"),  # exactly seven days
    ("ranking.py", "min(max(similarity, 0.0), 1.0)", "max(similarity, 0.0)", "WEEK"),
    ("limits.py", "MAX_TAGS = 20", "MAX_TAGS = 21", "OF_A_TOOL"),
    ("remembered.py", "self.expires <= now", "self.expires < now", "HISTORIES"),  # at this moment
    ("check.py", "expires <= now", "expires < now", "HISTORIES"),
]
PAIRS = {"<": "<=", ">": ">=", "==": "!=", "and": "or", "min": "max", "True": "False"}
SWAPPED = PAIRS | {b: a for a, b in PAIRS.items()} | {"not": "", "return": "return None and"}
# In the function `name` of a file, `before` becomes `after`; `new` is the whole file then.
Mutant = dict[str, Any]
broken: list[str] = []  # tests that fail without any mutant


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All of a file: operators and numbers changed, what is returned dropped, calls not made."""
    name, last, begins, lines = "", "", True, text.splitlines(True)
    for kind, word, (row, at), (_, end), line in tokenize.generate_tokens(iter(lines).__next__):
        name, last = (word if last in ("def", "class") else name), word
        afters = [SWAPPED[word]] if word in SWAPPED else []
        if word.isdecimal():
            afters = [str(int(word) + 1), f"({int(word) - 1})"]
        elif kind == tokenize.NAME and begins:
            afters.append(f"None and {word}")
        for after in afters:
            about = {"file": file, "name": name, "line": line.strip(), "before": word}
            about = {**about, "after": after, "place": at - len(line) + len(line.lstrip())}
            id = sha256(json.dumps(about).encode()).hexdigest()[:12]
            new = [*lines[: row - 1], line[:at] + after + line[end:], *lines[row:]]
            yield {"id": id, **about, "row": row, "new": "".join(new)}
        if kind not in (tokenize.NL, tokenize.COMMENT):
            begins = kind in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def sample(root: Path) -> Iterator[Mutant]:
    """The named mutants, and a sample of all others that depends on nothing but the code."""
    for name, before, after, word in NAMED:
        text = (root / (file := f"memory_semantic/{name}")).read_text()
        assert before in text, f"{file} no longer has {before!r}: correct NAMED"
        yield {"id": before, "file": file, "name": word, "new": text.replace(before, after, 1)}
    files = [file for package in TESTS for file in (root / package).rglob("*.py")]
    every = [m for f in files for m in mutants(str(f.relative_to(root)), f.read_text())]
    left = SAMPLE
    for mutant in sorted(every, key=lambda each: each["id"]):
        with suppress(SyntaxError):  # some are no Python
            compile(mutant["new"], mutant["file"], "exec")
            yield mutant
            if not (left := left - 1):
                return


def failing(tree: Path, tests: list[str], seconds: float) -> str:
    """The first of the tests that fails there, of those that do not always; or nothing."""
    command = [sys.executable, "-m", "pytest", "-xq", "--tb=no", "-pno:cacheprovider", *tests]
    command += [f"--deselect={each}" for each in broken]
    environment = {**os.environ, "PYTHONPATH": str(tree / PRODUCT), "TMPDIR": str(tree.parent)}
    how = {"cwd": tree, "env": environment, "stdout": subprocess.PIPE, "text": True}
    done = subprocess.run(command, timeout=max(1, seconds), **how)
    found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return (found or ["all"])[0] if done.returncode else ""  # a signal, too: the engine may abort


def tried(tree: Path, mutant: Mutant, seconds: float) -> Mutant:
    """What became of a mutant in this copy of the tree: killed, survived, or out of time."""
    word = re.compile(rf"\b({mutant['name']}|{Path(mutant['file']).stem})\b")
    folders = TESTS[mutant["file"].partition("/")[0]].split()
    files = [file for name in folders for file in (tree / "tests" / name).rglob("test_*.py")]
    tests = sorted(map(str, files), key=lambda file: -len(word.findall(Path(file).read_text())))
    path, end, verdict, by = tree / PRODUCT / mutant["file"], monotonic() + seconds, "", ""
    old, new = path.read_text(), mutant.pop("new")
    with suppress(subprocess.TimeoutExpired):
        while not verdict:
            path.write_text(new)
            by = failing(tree, tests, end - monotonic())
            path.write_text(old)
            if by not in ("", "all") and failing(tree, [by], 100):
                broken.append(by)
            else:
                verdict = "killed" if by else "survived"
    path.write_text(old)
    took = round(monotonic() - end + seconds)
    return {**mutant, "verdict": verdict or "out of time", "by": by, "seconds": took}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="files that begin so: memory_semantic/files")
    parser.add_argument("--seconds", type=float, default=300, help="for each mutant (300)")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="what was printed before")
    given = parser.parse_args()
    old = map(json.loads, given.compare.read_text().splitlines() if given.compare else [])
    killed = {told["id"] for told in old if told["verdict"] == "killed"}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache"))
        for mutant in sample(TREE / PRODUCT):
            wanted = mutant["id"] in killed or not given.compare
            if wanted and mutant["file"].startswith(given.only):
                print(json.dumps(tried(tree, mutant, given.seconds)), flush=True)


if __name__ == "__main__":
    main()
