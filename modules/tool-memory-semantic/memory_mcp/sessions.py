"""What the session of a client was shown: ids, and no text.

    {storage_root}/.hooks/{agent}/{hash of the session's id}.json    mode 0600 in 0700

A hook and a server are two processes, and a session may be resumed.
"""

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from memory_semantic.glance import root_of

# A session that rests so long is shown all again: 30 days, in seconds.
KEPT_SECONDS = 30 * 24 * 3600


class ClientSession:
    """The session that its client calls `key`, with the memory of `agent` that `config` names.
    `shown` has the ids of memories without `mem-`.
    """

    def __init__(self, config: Mapping[str, Any], agent: str, key: str) -> None:
        self._folder = _folder(config, agent)
        name = sha256(key.encode(errors="replace")).hexdigest()[:16]
        self._file = self._folder / f"{name}.json"
        self.shown = _read(self._file)

    def show(self, ids: Iterable[str]) -> None:
        """Note that it is shown the memories with these ids."""
        self.shown.update(id.removeprefix("mem-") for id in ids)

    def save(self) -> None:
        """Write down what was noted, and remove what is old of others. Where that cannot be done,
        the session is told the same again.
        """
        if not (self.shown or self._file.exists()):
            return
        with suppress(OSError):
            self._folder.parents[1].mkdir(0o700, parents=True, exist_ok=True)
            self._folder.parent.mkdir(0o700, exist_ok=True)
            self._folder.mkdir(0o700, exist_ok=True)
            _write(self._file, self.shown)
            for file in self._folder.glob("*.json"):
                if time.time() - file.stat().st_mtime > KEPT_SECONDS:
                    file.unlink()


def forget(config: Mapping[str, Any], agent: str, ids: Collection[str]) -> None:
    """Forget that any session was shown the memories with these ids. Raises OSError."""
    gone = {id.removeprefix("mem-") for id in ids}
    for file in _folder(config, agent).glob("*.json"):
        if (shown := _read(file)) & gone:
            _write(file, shown - gone)


def _folder(config: Mapping[str, Any], agent: str) -> Path:
    return root_of(config) / ".hooks" / agent


def _read(file: Path) -> set[str]:
    with suppress(OSError, ValueError, TypeError):
        return set(map(str, json.loads(file.read_text())))
    return set()


def _write(file: Path, shown: Collection[str]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(file, flags, 0o600), "w") as opened:
        json.dump(sorted(shown), opened)
