"""Reading, copying and damaging the files of a store, and being killed while they are written."""

import asyncio
import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from memory_semantic import Memory, MemoryStorage, upkeep
from memory_semantic.remembered import MEMORY_ID

Call = Callable[[], Coroutine[Any, Any, object]]

# What an agent's folder has, if nothing was interrupted.
OF_A_STORE = {".gitignore", "memories.jsonl", "qdrant.db"}
# Shorter beginnings of a text may occur by chance. The engine compresses each memory separately,
# which leaves ids and nearly all beginnings readable.
_TEXT_BYTES = 16
_ID = re.compile(MEMORY_ID.pattern.encode())
_HOLE = bytes(4096)


async def repair(storage: MemoryStorage) -> None:
    """Repair it, as `doctor --repair` does."""
    plan = await upkeep.repair(storage.place, storage.config)
    await plan.run(lambda done, of: None)


def bytes_of(folder: Path) -> bytes:
    """The contents of all files below `folder`."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def traces(folder: Path, forgotten: Sequence[Memory]) -> list[Path]:
    """The files in `folder` in which the id, the key or the text of a forgotten memory is."""
    ids = {memory.id.encode() for memory in forgotten}
    texts = {memory.content.encode()[:_TEXT_BYTES] for memory in forgotten}
    texts = {text for text in texts if len(text) == _TEXT_BYTES}
    keys = {form for m in forgotten for form in (m.key.bytes, str(m.key).encode())}
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes().replace(_HOLE, b"")  # most of a file is holes
            marks = any(mark in content for mark in texts | keys)
            if marks or not ids.isdisjoint(_ID.findall(content)):
                found.append(path)
    return found


def copy_sparse(source: Path, target: Path) -> None:
    """The engine's files are mostly holes; copying those as zeros takes a hundred times longer."""
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)


def is_taken(file: Path) -> bool:
    """Whether a process holds a lock on it: on `lock` who is in the store, on `queue` who waits."""
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def in_a_child(call: Call, kill_after: float | None = None) -> str:
    """What a call returns in a process of its own, which is killed after so many seconds, if any
    are given; "" if it ended before it said so.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(120)  # the engine can read a garbled index for 30 s beside other tests
            os.write(writing, str(asyncio.run(call())).encode())
            time.sleep(kill_after or 0)
        finally:
            os._exit(1)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garble(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))
