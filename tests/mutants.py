"""Changes the product in one small place at a time, and tells which changes no test notices.

    uv run tests/mutants.py > before.jsonl                    # one line for each mutant
    uv run tests/mutants.py --compare before.jsonl > after.jsonl
    uv run tests/mutants.py --room memory_semantic/files      # only those of one room

The sample is the same in every run for as long as the code is. A mutant is tried in a copy of the
tree, by the tests of its room; first by the files that name what was changed.
"""

import argparse
import ast
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).parents[1]
PRODUCT = "modules/tool-memory-semantic"
SAMPLE = 100
FIRST = 3  # test files that are run before all others, most of which cannot see the change
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
# Boundaries that were once forgotten: always tried, besides the sample.
NAMED = [
    ("memory_semantic/ranking.py", "< RECENCY_WINDOW", "<= RECENCY_WINDOW"),
    ("memory_semantic/ranking.py", "min(max(similarity, 0.0), 1.0)", "max(similarity, 0.0)"),
    ("memory_semantic/limits.py", "MAX_TAGS = 20", "MAX_TAGS = 21"),
    ("memory_semantic/remembered.py", "self.expires <= now", "self.expires < now"),
    ("memory_semantic/check.py", "expires <= now", "expires < now"),
]
PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
SWAPPED: dict[type, type] = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
SWAPPED |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And}


class Mutant(NamedTuple):
    """`before` at `start` of a file, in the function or class `name`, becomes `after`."""

    file: str
    name: str
    start: int  # in bytes
    before: str
    after: str

    @property
    def id(self) -> str:
        """The same for as long as the changed place reads the same."""
        return sha256(
            "|".join((self.file, self.name, self.before, self.after)).encode()
        ).hexdigest()


def changed(node: ast.AST) -> Iterator[str]:
    """What may stand in place of a node."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            new.ops = [SWAPPED[type(op)]()]
            yield f"({ast.unparse(new)})"
        case ast.BoolOp():
            new.op = SWAPPED[type(new.op)]()
            yield f"({ast.unparse(new)})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(new.operand)})"
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield from (f"({number + 1})", f"({number - 1})")
        case ast.Name(id="min" | "max" as name):
            yield "max" if name == "min" else "min"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "pass"


def mutants_of(file: Path, name: str, node: ast.AST, text: bytes) -> Iterator[Mutant]:
    """All mutants of what is in `node`, which is in the function or class `name` of the file."""
    starts = [0, *(match.end() for match in re.finditer(b"\n", text))]
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr | ast.arguments):  # places are wrong; annotations
            continue
        inner = f"{name}.{child.name}".lstrip(".") if hasattr(child, "name") else name
        if isinstance(child, ast.expr | ast.stmt):
            start = starts[child.lineno - 1] + child.col_offset
            end = starts[(child.end_lineno or 0) - 1] + (child.end_col_offset or 0)
            for after in changed(child):
                yield Mutant(str(file), inner, start, text[start:end].decode(), after)
        yield from mutants_of(file, inner, child, text)


def sample(root: Path) -> list[Mutant]:
    """The named mutants, and a sample of all others that depends on nothing but the code."""
    named, found = [], dict[str, Mutant]()
    for file, before, after in NAMED:
        start = (root / file).read_bytes().find(before.encode())
        assert start >= 0, f"{file} no longer has {before!r}: correct NAMED"
        named.append(Mutant(file, "named", start, before, after))
    for room in {room.partition("/")[0] for room in ROOMS}:
        for path in (root / room).rglob("*.py"):
            text, file = path.read_bytes(), path.relative_to(root)
            found |= {each.id: each for each in mutants_of(file, "", ast.parse(text), text)}
    return named + [found[id] for id in sorted(found)[:SAMPLE]]


def tests_for(mutant: Mutant) -> list[str]:
    """The test files of a mutant's room, first those that name it most."""
    row = next(row for room, row in ROOMS.items() if mutant.file.startswith(room))
    words = re.compile(rf"\b({mutant.name.rpartition('.')[2]}|{Path(mutant.file).stem})\b")
    named = {
        str(path.relative_to(TREE)): len(words.findall(path.read_text()))
        for place in row.split()
        for path in sorted((TREE / "tests" / place).rglob("test_*.py")) or [TREE / "tests" / place]
    }
    return sorted(named, key=lambda path: -named[path])


def tried(tree: Path, mutant: Mutant, seconds: float) -> dict[str, object]:
    """What became of a mutant in this copy of the tree: killed, survived, or out of time."""
    path = tree / PRODUCT / mutant.file
    whole, end = path.read_bytes(), mutant.start + len(mutant.before.encode())
    path.write_bytes(whole[: mutant.start] + mutant.after.encode() + whole[end:])
    command = [sys.executable, "-m", "pytest", "-xq", "--tb=no", "-pno:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(tree / PRODUCT), "TMPDIR": str(tree.parent)}
    started, verdict, killer = time.monotonic(), "survived", ""
    tests = tests_for(mutant)
    try:
        for some in filter(None, (tests[:FIRST], tests[FIRST:])):
            left = seconds - (time.monotonic() - started)
            how = {"cwd": tree, "env": environment, "capture_output": True, "text": True}
            done = subprocess.run([*command, *some], timeout=max(left, 1), **how)
            if done.returncode:
                found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                verdict, killer = "killed", next(iter(found), "all")
                break
    except subprocess.TimeoutExpired:
        verdict = "out of time"
    finally:
        path.write_bytes(whole)
    line, took = whole[: mutant.start].count(b"\n") + 1, round(time.monotonic() - started)
    told = {"id": mutant.id[:12], "verdict": verdict, "line": line, **mutant._asdict()}
    return {**told, "by": killer, "seconds": took}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--room", default="", help="only files whose path begins so")
    parser.add_argument("--seconds", type=float, default=300, help="for each mutant (300)")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="say what was killed there")
    given = parser.parse_args()
    old = given.compare.read_text().splitlines() if given.compare else []
    before = {told["id"]: told["verdict"] for told in map(json.loads, old)}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache"))
        for mutant in sample(TREE / PRODUCT):
            if mutant.file.startswith(given.room):
                told = tried(tree, mutant, given.seconds)
                print(json.dumps(told), flush=True)
                if before.get(str(told["id"])) == "killed" != told["verdict"]:
                    print("no longer killed:", told, file=sys.stderr)


if __name__ == "__main__":
    main()
