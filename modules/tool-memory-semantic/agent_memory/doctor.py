"""Is the memory healthy, and if not, what mends it: everything that can be looked at."""

import errno
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from memory_semantic import AgentMemoryError, InputError, MemoryStorage, StorageError
from memory_semantic.check import check
from memory_semantic.errors import REPAIR as HOW_TO_MEND
from memory_semantic.errors import DamagedStoreError
from memory_semantic.lock import locked
from memory_semantic.manifest import Manifest
from memory_semantic.models import DEFAULT_MODEL, LOCAL_MODEL, MIN_FREE_BYTES
from memory_semantic.resources import explanation, shortage
from memory_semantic.shard import ENGINE
from memory_semantic.workers import run_blocking
from memory_server import Server

from .checking import checked_apart
from .output import Progress, readable_size
from .settings import Settings, agent_names, files

# What the embedding model is tried with: says nothing about anybody.
_SAMPLE = "agent-memory doctor"
_SHOWN = 10
_OTHER_LANGUAGES = (
    f"For other languages: agent-memory reembed --model {DEFAULT_MODEL}, or a multilingual one of "
    "your own with --base-url"
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

# What is done, and of how much.
ShowProgress = Callable[[str, int], AbstractContextManager[Progress]]


class Finding(NamedTuple):
    """One thing that was looked at. `mend` is what to do about it; `repairable` means that this is
    `agent-memory doctor --repair`.
    """

    state: Literal["ok", "warning", "problem"]
    subject: str
    text: str
    mend: str = ""

    @property
    def repairable(self) -> bool:
        """Whether a repair of the store mends it."""
        return self.mend == REPAIR


REPAIR = "agent-memory doctor --repair"


async def findings(
    settings: Settings,
    storage: MemoryStorage | None,
    progress: ShowProgress,
    *,
    offline: bool,
) -> AsyncIterator[Finding]:
    """Everything, in the order in which one thing rests on another. `progress` opens a display for
    what takes long. Without a `storage` it ends with the settings.
    """
    for finding in _about_settings(settings, storage.agent_id if storage else None):
        yield finding
    if storage is None:
        return
    about = _about_server if isinstance(storage.place, Server) else _about_store
    async for finding in about(storage, progress):
        yield finding
    yield await _about_model(storage, offline)


def _about_settings(settings: Settings, agent: str | None) -> Iterator[Finding]:
    package = version("amplifier-module-tool-memory-semantic")
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "version", f"agent-memory {package}, {ENGINE}, Python {python}")
    for problem in settings.problems:
        yield Finding("problem", "settings", problem, "Correct the file.")
    read = [str(path) for path in files()]
    if read and not settings.problems:
        yield Finding("ok", "settings", f"read from {', '.join(read)}")
    try:
        name, source = next(agent_names(settings), (None, ""))
    except InputError as error:
        yield Finding("problem", "identity", str(error))
        return
    if name is None:
        yield Finding(
            "warning",
            "identity",
            "Amplifier's settings name no agent here; sessions have a memory only if their bundle "
            "names one.",
            "Set agent_identity under overrides: tool-memory-semantic: config: in "
            "~/.amplifier/settings.yaml",
        )
    else:
        yield Finding("ok", "identity", f"Amplifier's sessions here are {name!r}, says {source}")
        if agent and agent != name:
            yield Finding("warning", "identity", f"this looks at the memory of {agent!r} instead")


async def _about_store(storage: MemoryStorage, progress: ShowProgress) -> AsyncIterator[Finding]:
    folder = storage.folder
    root = Path(storage.config.storage_root)
    # Before anything else: what looks at a store tightens its folder.
    exposed = _exposed(folder.path)
    try:
        exists = folder.exists
        folder.require_writable()
    except StorageError as error:
        yield _store_problem(error)
        return
    if not exists:
        doubt = storage.config.doubt
        yield Finding(
            "problem" if doubt else "warning",
            "store",
            f"{storage.agent_id!r} has no memory in {root}",
            doubt or "agent-memory agents",
        )
        for finding in _leftovers(storage):
            yield finding
        return
    free = shutil.disk_usage(root).free
    if free < MIN_FREE_BYTES:
        yield Finding(
            "problem",
            "disk",
            f"{readable_size(free)} are free; {readable_size(MIN_FREE_BYTES)} are needed",
            "Free some space; the store is not opened before.",
        )
        return
    yield Finding("ok", "disk", f"{readable_size(free)} free")

    try:
        manifest = await storage.manifest()
    except StorageError as error:
        yield _store_problem(error)
        return
    if manifest:
        size = f"{manifest.embedding}, {manifest.shard}, made {manifest.created:%Y-%m-%d}"
        yield Finding("ok", "manifest", f"{manifest.memories:,} memories, {size}")
    yield await run_blocking(lambda _: _lock_state(storage))
    try:
        with progress("Comparing", manifest.memories if manifest else 0) as bar:
            problems, number = await run_blocking(lambda _: checked_apart(storage, bar.done))
    except StorageError as error:
        yield _store_problem(error)
        return
    for finding in _about_memories(problems, number, "hashes, vectors and indexes", REPAIR):
        yield finding
    for finding in _about_words(storage, manifest):
        yield finding
    yield _permissions(folder.path, exposed)
    for finding in _leftovers(storage):
        yield finding


async def _about_server(storage: MemoryStorage, progress: ShowProgress) -> AsyncIterator[Finding]:
    server = storage.place
    assert isinstance(server, Server)
    try:
        version = await run_blocking(lambda _: server.version())
        yield Finding("ok", "server", f"{server.url} answers: Qdrant {version}")
        url = urlsplit(server.url)
        if server.config.qdrant_api_key and url.scheme == "http" and url.hostname not in _LOOPBACK:
            yield Finding(
                "warning", "server", "the API key and all texts go there unencrypted", "Use https."
            )
        manifest = await storage.manifest()
        if manifest is None:
            text = f"{storage.agent_id!r} has no memory at {server.url}"
            yield Finding("warning", "store", text, "agent-memory agents")
            return
        number = await storage.count()
        made = f"{manifest.embedding}, {manifest.shard}, made {manifest.created:%Y-%m-%d}"
        yield Finding("ok", "manifest", f"{number:,} memories, {made}")
        with progress("Comparing", number) as bar:
            problems = await storage.operate(lambda store: check(store, bar.done), [])
        shards = await run_blocking(lambda _: server.shards())
    except StorageError as error:
        mend = REPAIR if REPAIR in str(error) else ""
        yield Finding("problem", "store", str(error), mend)
        return
    # Without a lock the ids alone can be mended; the rest is the server's.
    ids_only = problems and all("belongs to" in problem for problem in problems)
    mend = REPAIR if ids_only else "Restore the collection from a snapshot."
    for finding in _about_memories(problems, number, "hashes and vectors", mend):
        yield finding
    for finding in _about_words(storage, manifest):
        yield finding
    if len(shards) > 1:
        yield Finding(
            "warning",
            "collections",
            f"{len(shards) - 1} more of this agent: of a reembed under way, or an interrupted one",
            f"agent-memory reembed --model {manifest.embedding.model}",
        )


async def _about_model(storage: MemoryStorage, offline: bool) -> Finding:
    try:
        manifest = await storage.manifest()
    except StorageError:
        manifest = None
    try:
        generator = storage.generator(manifest)
        service = "" if generator.model == LOCAL_MODEL else f" at {generator.endpoint or 'OpenAI'}"
        name = f"{generator.model}{service}"
        if service and offline:
            return Finding("ok", "model", f"{name}, not tried")
        vector = await generator.generate(_SAMPLE)
    except AgentMemoryError as error:
        return Finding(
            "problem", "model", str(error), _mend_model(manifest, storage.config.embedding_model)
        )
    if manifest and len(vector) != manifest.embedding.dimensions:
        text = f"{name} gives {len(vector)} dimensions, the store has {manifest.embedding}"
        return Finding(
            "problem", "model", text, _mend_model(manifest, storage.config.embedding_model)
        )
    answers = f"{name} answers, {len(vector)} dimensions"
    if generator.model == LOCAL_MODEL:
        return Finding("ok", "model", f"{answers}; it is for English", _OTHER_LANGUAGES)
    return Finding("ok", "model", answers)


def _about_memories(
    problems: list[str], number: int, compared: str, mend: str
) -> Iterator[Finding]:
    for problem in problems[:_SHOWN]:
        yield Finding("problem", "store", problem, mend)
    if len(problems) > _SHOWN:
        yield Finding("problem", "store", f"{len(problems) - _SHOWN:,} more like these", mend)
    if not problems:
        yield Finding("ok", "store", f"{number:,} memories: {compared} agree with each other")


def _about_words(storage: MemoryStorage, manifest: Manifest | None) -> Iterator[Finding]:
    if manifest and storage.lexical_weight(manifest.embedding.model) and not manifest.words:
        yield Finding(
            "warning",
            "words",
            "this memory was made without the words of its texts, and is ranked by meaning alone",
            f"agent-memory reembed --model {manifest.embedding.model}",
        )


def _store_problem(error: StorageError) -> Finding:
    text = str(error).replace(f" {HOW_TO_MEND}", "")  # who reads it has run the doctor
    return Finding("problem", "store", text, REPAIR if isinstance(error, DamagedStoreError) else "")


def _mend_model(manifest: Manifest | None, configured: str | None) -> str:
    if manifest and configured and configured != manifest.embedding.model:
        return f"or change the store: agent-memory reembed --model {configured}"
    if manifest and manifest.embedding.model != LOCAL_MODEL:
        return "or go to the built-in model: agent-memory reembed --model local"
    if manifest:
        return f"or change the store: agent-memory reembed --model {DEFAULT_MODEL}"
    return ""


def _exposed(folder: Path) -> list[Path]:
    try:
        return [path for path in (folder, *folder.rglob("*")) if _open_to_others(path)]
    except OSError:  # it may not be looked at, which is told elsewhere
        return []


def _open_to_others(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)
    except FileNotFoundError:
        return False


def _permissions(folder: Path, exposed: list[Path]) -> Finding:
    left = [path for path in exposed if _open_to_others(path)]
    if left:
        return Finding(
            "warning",
            "permissions",
            f"{len(left)} files are readable by others, inside a folder that is not",
            f"chmod -R go-rwx {folder}",
        )
    if exposed:
        return Finding("ok", "permissions", "were too wide; tightened to the owner alone")
    return Finding("ok", "permissions", "the owner alone")


def _lock_state(storage: MemoryStorage) -> Finding:
    try:
        with locked(storage.folder.database, 0, Event()):
            return Finding("ok", "lock", "free")
    except StorageError as error:
        return Finding("warning", "lock", str(error))
    except OSError as error:
        number = shortage(error)
        if number:
            return Finding("problem", "lock", explanation(number))
        if error.errno in (errno.EACCES, errno.EPERM, errno.EISDIR):  # it is the file
            path = storage.folder.database / "lock"
            return Finding("problem", "lock", f"{error.filename or path}: {error.strerror}")
        return Finding(
            "problem",
            "lock",
            f"this file system has no locks ({error.strerror})",
            "Move the storage_root to a local disk.",
        )


def _leftovers(storage: MemoryStorage) -> Iterator[Finding]:
    folder = storage.folder
    for left in (folder.rebuild, folder.rebuild.with_suffix(".tmp")):
        if not left.exists():
            continue
        yield Finding(
            "warning",
            "rebuild",
            "one is running, or was interrupted and is kept to go on from",
            f"Run the same reembed or repair again, or give it up: rm -r {left}",
        )
    if folder.removed.exists():
        text = "a removal was interrupted; texts are left"
        yield Finding("warning", "removed", text, f"rm -r {folder.removed}")
    for kept in folder.kept:
        yield Finding(
            "warning",
            "kept files",
            f"{kept.name} holds what an earlier repair replaced, forgotten texts included",
            f"When you no longer need it: rm -r {kept}",
        )
