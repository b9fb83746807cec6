"""Reading, copying and damaging the files of a store."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from memory_semantic import Memory
from memory_semantic.memory import MEMORY_ID

# What an agent's folder has, if nothing was interrupted.
OF_A_STORE = {".gitignore", "backup.jsonl", "qdrant.db"}
# Shorter beginnings of a text may occur by chance. The engine compresses each memory separately,
# which leaves ids and nearly all beginnings readable.
_TEXT_BYTES = 16
_ID = re.compile(MEMORY_ID.pattern.encode())
_HOLE = bytes(4096)


def bytes_of(folder: Path) -> bytes:
    """The contents of all files below `folder`."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def traces(folder: Path, forgotten: Sequence[Memory]) -> list[Path]:
    """The files in `folder` in which the id or the text of a forgotten memory can be read."""
    ids = {memory.id.encode() for memory in forgotten}
    texts = {memory.content.encode()[:_TEXT_BYTES] for memory in forgotten}
    texts = {text for text in texts if len(text) == _TEXT_BYTES}
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes().replace(_HOLE, b"")  # most of a file is holes
            if not ids.isdisjoint(_ID.findall(content)) or any(text in content for text in texts):
                found.append(path)
    return found


def copy_sparse(source: Path, target: Path) -> None:
    """The engine's files are mostly holes; copying those as zeros takes a hundred times longer."""
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garble(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))
