"""Bearer tokens: each stands for a tenant, the widest channel it may use and its largest bundle."""

import hashlib
import hmac
import json
import os
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from .settings import BUNDLE_TOKENS, Refused

CHANNELS = ("public", "team", "agent", "private")  # each sees what those before it see


@dataclass(frozen=True)
class Access:
    """What a token gives. The token itself is not kept, only its SHA-256."""

    id: str
    tenant: str
    channel: str
    max_tokens: int
    made: str
    sha256: str

    def checked(self, channel: str | None) -> str:
        """The channel of a request: this token's own if none is named. Raises Refused."""
        if channel and CHANNELS.index(channel) > CHANNELS.index(self.channel):
            raise Refused(f"This token reaches as far as channel {self.channel}, not {channel}.")
        return channel or self.channel


class Tokens:
    """The tokens in the file at `path`, which only its owner may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, list[Access]] = (-1, [])

    def all(self) -> list[Access]:
        """Every token; the file is read again when it changes. Raises Refused."""
        try:
            status = self._path.stat()
            if status.st_mode & 0o077:
                raise Refused(f"Others may read {self._path}. Run: chmod 600 {self._path}")
            if status.st_mtime_ns != self._read[0]:
                known = [Access(**entry) for entry in json.loads(self._path.read_text())]
                self._read = status.st_mtime_ns, known
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            raise Refused(
                f"The tokens in {self._path} cannot be read ({error}). No token was changed."
            ) from error
        return self._read[1]

    def find(self, token: str) -> Access | None:
        """Whose token this is. It takes as long for a wrong token as for a right one."""
        digest = _digest(token)
        found = None
        for access in self.all():
            if hmac.compare_digest(access.sha256, digest):
                found = access
        return found

    def make(self, tenant: str, channel: str = "private", max_tokens: int = BUNDLE_TOKENS) -> str:
        """A new token. It is shown this once and cannot be read again."""
        token = f"mem_{secrets.token_urlsafe(32)}"
        digest = _digest(token)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*self.all(), Access(digest[:8], tenant, channel, max_tokens, made, digest)])
        return token

    def revoke(self, id: str) -> None:
        """Takes a token out, at once also for a daemon that runs. Raises Refused if there is none."""
        left = [access for access in self.all() if access.id != id]
        if len(left) == len(self.all()):
            raise Refused(f"There is no token {id}. `agent-memory-daemon token list` shows all.")
        self._write(left)

    def _write(self, known: list[Access]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump([asdict(access) for access in known], file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
