"""What version 1.3.0 left behind: stores that it made, and itself, to run beside today's."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent
WHEEL = next(HERE.glob("*-1.3.0-*.whl"))

_SERVE = """
import asyncio, json, sys
import memory_semantic
from memory_semantic import AgentMemoryError, MemoryStorage
assert sys.argv[2] in memory_semantic.__file__, memory_semantic.__file__
storage = MemoryStorage("sam", {"storage_root": sys.argv[1], "embedding_model": "local"})
for line in sys.stdin:
    name, arguments = json.loads(line)
    try:
        answer = {"answer": asyncio.run(getattr(storage, name)(*arguments))}
    except AgentMemoryError as error:
        answer = {"refused": str(error)}
    print(json.dumps(answer, default=lambda memory: memory.dict_for_storage()), flush=True)
"""


def unpack(name: str, root: Path) -> dict[str, Any]:
    """Unpack the store kept under `name` into `root`, with its holes; returns its contents."""
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(root, filter="data")
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        folder.chmod(0o700)
    return json.loads((HERE / f"{name}.json").read_text())


def start(*arguments: object) -> "subprocess.Popen[str]":
    """An interpreter with these arguments that has version 1.3.0 in place of today's."""
    return subprocess.Popen(
        [sys.executable, "-P", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (WHEEL, HERE.parent)))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class OldVersion:
    """The store of `sam` under `root` as version 1.3.0 sees it, in a separate process."""

    def __init__(self, root: Path) -> None:
        self._process = start("-c", _SERVE, root, WHEEL)

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of its MemoryStorage returns; memories come as dicts."""
        told = self._told(method, arguments)
        assert "answer" in told, told
        return told["answer"]

    def refused(self, method: str, *arguments: Any) -> str:
        """The error message of a method that refuses."""
        told = self._told(method, arguments)
        assert "refused" in told, told
        return told["refused"]

    def _told(self, method: str, arguments: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # which ends its input, and so the process
