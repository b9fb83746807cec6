"""What is used: which memories searches find, and recall shows, and when, if the setting `usage` is
on.

Each search, and each prompt before which there was recall, adds a line to `usage.jsonl`, in the
agent's folder under this machine's storage root, wherever the store is kept: when it was, how long
it took, and the ids of the memories, but no text and no question. Over 1 MB, the file becomes
`usage.old.jsonl`, in place of the one before.
"""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict

from .errors import StorageError
from .files.folder import AgentFolder

logger = logging.getLogger(__name__)

NAME, OLD_NAME = "usage.jsonl", "usage.old.jsonl"
MAX_BYTES = 1_000_000  # about 6,000 searches with five answers


class Search(BaseModel):
    """A search: when it was, how many milliseconds it took, and the ids of what it found; or, with
    `prompt`, the same of what recall showed before a prompt.
    """

    model_config = ConfigDict(defer_build=True)  # most processes record nothing

    time: AwareDatetime
    ms: float
    ids: list[str]
    prompt: bool = False


def record(
    folder: AgentFolder, ids: Iterable[str], asked: datetime, now: datetime, prompt: bool = False
) -> None:
    """Add a search, or a `prompt`, that was `asked` then and has found the memories with these ids
    by now. A failure is only logged.
    """
    ms = round((now - asked).total_seconds() * 1000, 1)
    search = Search(time=asked, ms=ms, ids=list(ids), prompt=prompt)
    try:
        folder.require_ours()
        folder.make_outermost()  # with a store on a server, it may not exist here
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        path = folder.path / NAME
        with os.fdopen(os.open(path, flags, 0o600), "ab") as log:
            log.write(search.model_dump_json(exclude_defaults=True).encode() + b"\n")
            if log.tell() > MAX_BYTES:
                path.replace(folder.path / OLD_NAME)
    except (OSError, StorageError) as error:
        logger.warning("A search is not in the usage log: %s", type(error).__name__)


def searches(folder: AgentFolder) -> list[Search]:
    """All that is recorded, oldest first. What cannot be read is left out."""
    found: list[Search] = []
    for name in (OLD_NAME, NAME):
        with suppress(OSError):
            for line in (folder.path / name).read_bytes().splitlines():
                with suppress(ValueError):  # torn by a crash
                    found.append(Search.model_validate_json(line))
    return sorted(found, key=lambda search: search.time)
