"""What an examination finds about a store on this machine: its disk, folder, shard and journal.

What a damaged shard can crash runs in a child, a process limited in time and memory: damage can
make the engine abort its process, hang, or ask for more memory than there is.
"""

import asyncio
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from uuid import UUID

from .. import errors
from ..errors import (
    REPAIR_COMMAND,
    UNCHANGED,
    DamagedStoreError,
    StorageError,
    explained,
    readable_size,
)
from ..examine import examine, is_whole
from ..findings import (
    NO_STORE,
    Finding,
    ShowProgress,
    about_info,
    about_memories,
    about_words,
    removal,
    store_problem,
)
from ..limits import PAGE
from ..memory import Memory
from ..points import Point
from ..settings import StorageConfig
from ..store import Store, memory_of
from ..workers import run_blocking
from . import disk, vectors
from .edge import Shard
from .folder import AgentFolder
from .place import FilePlace
from .points import FilePoints

# The slowest work here, the full check, takes 4 ms for a memory of 4 kB on disk. After four times
# that, and these, it hangs.
_SECONDS = 300
_BYTES_PER_SECOND = 250_000
# Address space besides four times the store's size: an altered number in a list of ids makes the
# engine ask for up to 100 GB.
_BYTES = 4 * 2**30
# What the engine does if this ends its process. Any other end is not the store's fault.
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)
_ENDS: dict[int, str] = {signal.SIGALRM: "hangs", **dict.fromkeys(_CRASHES, "crashes")}
_START = "import sys; sys.path[:] = {!r}; from memory_semantic.files.doctor import main; main()"


async def findings(
    place: FilePlace, config: StorageConfig, progress: ShowProgress
) -> AsyncIterator[Finding]:
    """All findings, each after those it depends on."""
    async for finding in _of_store(place, config, progress):
        yield finding
    for finding in _leftovers(place.folder):
        yield finding


async def _of_store(
    place: FilePlace, config: StorageConfig, progress: ShowProgress
) -> AsyncIterator[Finding]:
    folder = place.folder
    # Before anything else: opening a store tightens the rights of its folder.
    was_open = _is_open_to_others(folder.path)
    try:
        exists = folder.exists
        folder.require_writable()
        if not exists:
            none = f"{folder.agent_id!r} has no store in {folder.root}."
            yield Finding("ok", "store", none, NO_STORE)
            return
        folder.require_space()
        yield Finding("ok", "disk", f"{readable_size(shutil.disk_usage(folder.root).free)} free")
        info = await run_blocking(folder.manifest)
        if info:
            yield about_info(info, info.shard)
        with progress("Comparing", 1):
            problems, number = await run_blocking(lambda: examined(place))
    except StorageError as error:
        yield store_problem(error)
        return
    compared = "hashes, vectors, indexes and the journal"
    for finding in about_memories(problems, number, compared, REPAIR_COMMAND):
        yield finding
    if info:
        for finding in about_words(config, info):
            yield finding
        yield _journal(folder)
    # A file in it may be open to all while a session writes it: nobody else reaches it.
    tightened = "were too wide; tightened to the owner alone"
    yield Finding("ok", "permissions", tightened if was_open else "the owner alone")


def _journal(folder: AgentFolder) -> Finding:
    if header := folder.journal.ends()[0]:
        size = readable_size(folder.journal.path.stat().st_size)
        return Finding("ok", "journal", f"{size}, of {header.shard}")
    remedy = f"See that you may write to {folder.path}, and that its disk has room."
    return Finding("warning", "journal", "none could be written", remedy)


def _is_open_to_others(folder: Path) -> bool:
    with suppress(OSError):  # another finding says so
        return bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)
    return False


def _leftovers(folder: AgentFolder) -> Iterator[Finding]:
    for left in folder.gathered:
        yield Finding(
            "warning",
            "vectors",
            "a reembed or a repair is running, or was interrupted and can be resumed",
            f"Run the same one again, or discard what it has: {removal(left)}",
        )
    shard: Path | None = None
    with suppress(StorageError, OSError):  # another finding says so
        shard = folder.shard_that_counts() if folder.exists else None
    for kept in folder.damaged:
        if kept == shard:
            text = f"{kept.name} is the shard of this store: a repair of it was interrupted"
            yield Finding("warning", "kept files", text, REPAIR_COMMAND)
        else:
            text = f"{kept.name} is a shard that a repair has replaced, forgotten texts included"
            mend = f"When you no longer need it: {removal(kept)}"
            yield Finding("warning", "kept files", text, mend)


class Readable(NamedTuple):
    """What can be read of a shard: of how many, and which of these have a whole vector."""

    stored: int
    memories: dict[UUID, Memory]
    embedded: set[UUID]
    whole: bool


def examined(place: FilePlace) -> tuple[list[str], int]:
    """The faults of a store, a sentence each, and how many memories it holds. Raises StorageError
    as a call on the store does, and DamagedStoreError if the engine crashes or hangs.
    """
    folder = place.folder
    arguments = str(folder.root), folder.agent_id, str(place.lock_seconds)
    waits = int(place.lock_seconds)
    code, output = _run("examine", *arguments, folder=folder.database, waits=waits)
    if what := _ENDS.get(-code):
        raise DamagedStoreError(f"The vector engine {what} on the store's files.")
    if code:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise StorageError(f"The check failed: its process {how}. Run it again.", UNCHANGED)
    answer = json.loads(output)
    if "error" in answer:
        raise getattr(errors, answer["error"], StorageError)(*answer["said"])
    return answer["problems"], answer["number"]


def readable(shard: Path, agent: str, dimensions: int, gathered: Path | None) -> Readable:
    """What can be read of the folder `shard`, whatever happens to the process that reads it. Whole
    vectors of so many `dimensions` go to the file `gathered`, if one is named.
    """
    arguments = str(shard), agent, str(dimensions), str(gathered or "")
    code, output = _run("read", *arguments, folder=shard)
    stored, memories, embedded = 0, dict[UUID, Memory](), set[UUID]()
    for line in output.splitlines():
        with suppress(ValueError):  # the last one, of a process that crashed
            fields = json.loads(line)
            if isinstance(fields, int):
                stored = fields
                continue
            memory = Memory.from_storage(fields["payload"])
            memories[memory.key] = memory
            embedded |= {memory.key} if fields["embedded"] else set()
    return Readable(stored, memories, embedded, not code and len(memories) == stored)


def examined_points(points: FilePoints) -> tuple[list[str], int]:
    """The faults of an open store, a sentence each, and how many memories it holds."""
    return examine(Store(points), points.second_copy()), points.info.memories


def _run(task: str, *arguments: str, folder: Path, waits: int = 0) -> tuple[int, bytes]:
    """The return code and the output of `task` in a child that opens the shard in `folder`, for
    which it `waits` so many seconds. The child ends with this process, or, if the engine hangs,
    once its time is over.
    """
    seconds = waits + _SECONDS + disk.size(folder, holes=False) // _BYTES_PER_SECOND
    limits = str(seconds), str(4 * disk.size(folder) + _BYTES)
    reading, writing = os.pipe()  # closed with this process, however that ends
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _START.format(sys.path), task, *limits, *arguments],
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the engine writes there when it crashes
        )
        return done.returncode, done.stdout
    finally:
        os.close(reading)
        os.close(writing)


def main() -> None:
    """In the child: do what the arguments name."""
    task, seconds, memory, *arguments = sys.argv[1:]
    # By default both end the process, even while the engine hangs and no Python runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(seconds))
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(ValueError, OSError):  # macOS refuses it
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), most))
    for answer in {"examine": _examine, "read": _read}[task](*arguments):
        print(json.dumps(answer), flush=True)


def _end_with_parent() -> None:
    os.read(0, 1)  # until the pipe is closed
    os._exit(1)


def _examine(root: str, agent: str, lock_seconds: str) -> Iterator[Any]:
    place = FilePlace(AgentFolder(Path(root), agent), float(lock_seconds))
    try:
        with explained(UNCHANGED):
            found = asyncio.run(place.on_points(examined_points))
        problems, number = found or ([], 0)
        yield {"problems": problems, "number": number}
    except StorageError as error:
        said = *error.args, error.outcome, error.remedy
        yield {"error": type(error).__name__, "said": said}


def _read(path: str, agent: str, dimensions: str, gathered: str) -> Iterator[Any]:
    with closing(Shard(Path(path), words=False)) as shard:
        keys = shard.keys()
        yield len(keys)
        for start in range(0, len(keys), PAGE):
            points = shard.readable(keys[start : start + PAGE])
            there = [point for point in points if _is_memory(point, agent)]
            whole = [each for each in there if is_whole(each.vector, int(dimensions))]
            if gathered:
                vectors.add(Path(gathered), ((each.key, each.vector) for each in whole))
            embedded = {point.key for point in whole}
            yield from ({"payload": p.payload, "embedded": p.key in embedded} for p in there)


def _is_memory(point: Point, agent: str) -> bool:
    with suppress(StorageError):
        return memory_of(point, agent).agent_id == agent
    return False
