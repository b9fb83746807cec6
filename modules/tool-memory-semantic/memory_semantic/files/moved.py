"""The note that an agent's memories were moved to a server: `moved.json`, in its folder here.

It tells a session with the old settings where they are. What 2.0 wrote there counts as no note.
"""

from datetime import date
from pathlib import Path

from pydantic import BaseModel

from ..errors import UNCHANGED, StorageError

NAME = "moved.json"


class Moved(BaseModel):
    """To which server, as the setting qdrant_url names it, and when."""

    to: str
    on: date


def read(folder: Path) -> Moved | None:
    """The note in this folder, if there is one."""
    try:
        return Moved.model_validate_json((folder / NAME).read_bytes())
    except (OSError, ValueError):
        return None


def require_none(folder: Path, agent: str, url: str) -> None:
    """Raise StorageError if a note in `folder` says that the memories of `agent` are elsewhere than
    at `url`, which is a value of the setting qdrant_url.
    """
    note = read(folder)
    if note and note.to != url:
        raise StorageError(
            f"The memories of {agent!r} were moved to {note.to} on {note.on}. {UNCHANGED} Set "
            f"qdrant_url to {note.to} (or, to begin anew, delete {folder / NAME})."
        )
