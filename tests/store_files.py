"""Reading, copying and damaging the files of a store."""

import os
import subprocess
from pathlib import Path


def bytes_of(folder: Path) -> bytes:
    """The contents of all files below `folder`."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


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
