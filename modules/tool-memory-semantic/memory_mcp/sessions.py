"""What is known of a session in a program that runs hooks: what it was shown, and, where no server
hears it, what its human typed.

    {storage_root}/.hooks/{agent}/{hash of the session's id}.json    mode 0600 in 0700

It is a file because the hook and the server are two processes. What a human typed is masked, and
kept for a day at most: these are the words in which a `quote` may stand.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from memory_semantic.glance import root_of
from memory_semantic.masking import mask

KEPT_SECONDS = 24 * 3600
# Of what a human typed; a longer prompt was pasted (see `speaker`).
MAX_PROMPTS, MAX_PROMPT_CHARS = 50, 4_000


def folder_of(config: Mapping[str, Any], agent: str) -> Path:
    """Where the sessions of `agent` are known, by the settings in `config`."""
    return root_of(config) / ".hooks" / agent


def session_of(folder: Path, key: str) -> "Session":
    """The session that its program calls `key`."""
    return Session(folder / f"{sha256(key.encode(errors='replace')).hexdigest()[:16]}.json")


class Session:
    """A session, as it is known in `file`: the memories that it has `shown`, by their ids without
    `mem-`, and what its human `said`, after the time in seconds since 1970.
    """

    def __init__(self, file: Path) -> None:
        self.shown, self.said = set[str](), list[tuple[float, str]]()
        self._file, self._stale = file, False
        with suppress(OSError, ValueError, LookupError, TypeError):
            known, since = json.loads(file.read_text()), time.time() - KEPT_SECONDS
            self.shown = set(known["shown"])
            self.said = [(at, text) for at, text in known["said"] if at > since]
            self._stale = len(self.said) < len(known["said"]) or file.stat().st_mtime < since

    def show(self, ids: Iterable[str]) -> None:
        """Note that it was shown the memories with these ids."""
        self.shown.update(filter(None, (id.removeprefix("mem-") for id in ids)))

    def hear(self, prompt: str) -> None:
        """Note what its human typed."""
        if len(prompt) <= MAX_PROMPT_CHARS:
            self.said = [*self.said, (time.time(), mask(prompt)[0])][-MAX_PROMPTS:]

    def save(self) -> None:
        """Write down what was noted, if anything was. Raises OSError."""
        if not (self.shown or self.said):
            return self.end()
        folder = self._file.parent
        folder.parents[1].mkdir(0o700, parents=True, exist_ok=True)
        folder.parent.mkdir(0o700, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        new = self._file.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"shown": sorted(self.shown), "said": self.said}, file)
        new.replace(self._file)

    def end(self) -> None:
        """Remove what is known of it. Raises OSError."""
        self._file.unlink(missing_ok=True)

    def end_if_stale(self) -> None:
        """Remove what is known of it, if some of that is more than a day old. Raises OSError."""
        if self._stale:
            self.end()


def said(folder: Path) -> list[str]:
    """What humans typed in the sessions of the last day. Raises OSError."""
    words = list[tuple[float, str]]()
    for file in folder.glob("*.json"):
        session = Session(file)
        session.end_if_stale()
        words += session.said
    return [text for _, text in sorted(words)]


def forget(folder: Path) -> None:
    """Remove all that is known of sessions: it may hold what is to be forgotten. Raises OSError."""
    import shutil

    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
