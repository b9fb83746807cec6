"""Where stores are, and what can be read from their files without opening a store: no lock, no
engine, nothing that takes long to load.

What it reads may be a moment old; what was forgotten is not in it.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from .errors import InputError
from .identity import AGENT_ID
from .limits import HERE, SERVER_VARIABLE, STORAGE_ROOT
from .remembered import MEMORY_ID, Remembered, as_utc

# In an agent's folder: the journal, and the database with its manifest.
JOURNAL = "memories.jsonl"
DATABASE = "qdrant.db"
MANIFEST = "manifest.json"

# Of a journal no more is read at a glance: some 5,000 memories, and 30 ms of processor.
MAX_BYTES = 2_000_000


class Glanced(Remembered):
    """A memory as its line in a journal has it. Raises an error if that is not a memory's."""

    def __init__(self, line: Mapping[str, Any]) -> None:
        if not MEMORY_ID.fullmatch(line["id"]):
            raise ValueError("It is no memory.")
        self.id, self.content = line["id"], str(line["content"])
        self.timestamp = as_utc(datetime.fromisoformat(line["timestamp"]))
        self.metadata = dict(line.get("metadata", {}))
        self.pinned, self.said_by = bool(line.get("pinned")), line.get("said_by")
        replaced_by, expires = line.get("replaced_by"), line.get("expires")
        self.replaced_by = UUID(replaced_by) if replaced_by else None
        self.expires = as_utc(datetime.fromisoformat(expires)) if expires else None


def memories(root: Path, agent: str) -> list[Glanced] | None:
    """The memories of `agent` in its journal under `root`, the newest first; None if it has none
    that is of its present store, that is its own, and that can be read at a glance.
    """
    folder = root / agent
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return None
        with os.fdopen(os.open(folder / JOURNAL, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                return None
            header = json.loads(file.readline())
            # Between a swap and its journal, the older one still has what was forgotten.
            manifest = json.loads((folder / DATABASE / MANIFEST).read_bytes())
            if (header["shard"], header["agent"]) != (manifest["shard"], agent):
                return None
            found = _last_of_each(file)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return sorted(found, key=lambda memory: memory.timestamp, reverse=True)


def _last_of_each(lines: Iterable[bytes]) -> Iterable[Glanced]:
    found = dict[str, Glanced]()
    for line in lines:
        with suppress(ValueError, LookupError, TypeError, AttributeError, OverflowError):
            memory = Glanced(json.loads(line))  # a line that is being written is left out
            found[memory.content] = memory
    return found.values()


def clean_root(path: str) -> str:
    """The storage root `path` with `~` expanded. Raises InputError for an impossible one, and for
    one that is another folder wherever it is used.
    """
    home = os.environ.get("HOME")
    if path.startswith("~") and home is not None and not Path(home).is_absolute():
        raise InputError(f"HOME is {home!r:.80}, not a folder. Set it to your home folder.")
    if "\0" in path or "${" in path:
        raise InputError("storage_root cannot be a folder, or a variable in it was not expanded.")
    try:
        root = Path(path).expanduser()
        here = os.path.realpath(root)
    except (RuntimeError, FileNotFoundError):
        raise InputError(
            "storage_root is in a home or current folder that does not exist."
        ) from None
    if not root.is_absolute():
        raise InputError(
            f"storage_root {path!r:.80} is not an absolute path, so each folder that you work in "
            f"would have a memory of its own. Write {here} instead."
        )
    return str(root)


def is_here(config: Mapping[str, Any]) -> bool:
    """Whether the settings in `config` keep the stores on this machine, and not on a server."""
    server = str(config.get("qdrant_url") or "").strip() or os.environ.get(SERVER_VARIABLE, "")
    return server.strip().lower() in ("", HERE)


def root_of(config: Mapping[str, Any]) -> Path:
    """The folder of all stores by the settings in `config`, if they are here. Raises InputError."""
    return Path(clean_root(str(config.get("storage_root") or "").strip() or STORAGE_ROOT))


def agents(root: Path) -> list[str]:
    """All agents that have a store in `root`, or a folder there that may not be read. Those whose
    folders another bundle has moved away are among them. Raises OSError if `root` may not be read.
    """
    moved = moved_root(root)
    folders = list(moved.glob("*")) if moved else []
    with suppress(FileNotFoundError):
        folders += root.iterdir()  # unlike glob, it raises if not permitted
    named = (each for each in folders if AGENT_ID.fullmatch(each.name))  # not lost+found, sam.bak
    return sorted({folder.name for folder in named if _may_have_store(folder)})


def moved_root(root: Path) -> Path | None:
    """Where Amplifier's memory bundle offers to move the default storage root, which it takes for
    an older one of its own; None for any other root.
    """
    default = root.parts[-2:] == (".amplifier", "memory")
    return root.parent.with_name(".amplifier-memory") if default else None


def _may_have_store(folder: Path) -> bool:
    try:
        (folder / DATABASE).stat()
    except PermissionError:
        return True
    except OSError:
        return (folder / JOURNAL).exists()
    with suppress(OSError, ValueError, LookupError, TypeError):  # else it is damaged
        owner = json.loads((folder / DATABASE / MANIFEST).read_bytes())["agent"]
        return owner == folder.name or not (folder.parent / owner / DATABASE).exists()  # a copy
    return True
