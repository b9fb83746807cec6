"""Bearer tokens: each stands for a tenant, an agent, the widest channel it may use and its largest
bundle."""

import hashlib
import secrets
from pathlib import Path
from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from .settings import BUNDLE_TOKENS, UNCHANGED, Refused

Channel = Literal["private", "agent", "team", "public"]  # each sees what those after it see
CHANNELS: tuple[Channel, ...] = get_args(Channel)
USUAL: Channel = "team"  # of what is recorded: a record that nobody else sees is of no use to them


@dataclass(frozen=True, config={"extra": "forbid"})
class Access:
    """What a token allows."""

    tenant: str
    channel: Channel = "private"
    max_tokens: int = BUNDLE_TOKENS
    agent: str = ""  # then a request's agent_id says it

    def reach(self, channel: Channel | None) -> Channel:
        """`channel`, or the token's own if it is None. Raises Refused if it is wider than that."""
        if channel and CHANNELS.index(channel) < CHANNELS.index(self.channel):
            raise Refused(
                f"{UNCHANGED} The widest channel of this token is {self.channel}, not {channel}."
            )
        return channel or self.channel

    def recorded_on(self, channel: Channel | None) -> Channel:
        """`channel`, or team, if it is None, or what the token may use if that is less."""
        usual = CHANNELS[max(CHANNELS.index(USUAL), CHANNELS.index(self.channel))]
        return self.reach(channel or usual)


_FILE = TypeAdapter(dict[str, Access])


class Tokens:
    """The tokens in a file that only its owner may read, by their SHA-256.

    The file is read for every request, so that a token can be revoked at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Access]:
        """All tokens. Raises Refused if the file cannot be read, or others may read it."""
        try:
            if self._path.stat().st_mode & 0o077:
                raise Refused(f"Others may read {self._path}. Run: chmod 600 {self._path}")
            return _FILE.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            what = type(error).__name__  # its message may quote the file
            raise Refused(f"The tokens in {self._path} cannot be read ({what}).") from error

    def find(self, token: str) -> Access | None:
        """What `token` allows, if it is known. How long it takes depends on its hash alone."""
        return self.all().get(digest_of(token))

    def make(self, access: Access) -> str:
        """A new token, of which only the SHA-256 is kept."""
        token = f"mem_{secrets.token_urlsafe(32)}"
        self._write(self.all() | {digest_of(token): access})
        return token

    def revoke(self, digest: str) -> None:
        """Revoke the one token whose SHA-256 begins with `digest`. Raises Refused otherwise."""
        known = self.all()
        found = [each for each in known if each.startswith(digest)]
        if len(found) != 1:
            raise Refused(f"{len(found)} tokens begin with {digest}. No token was revoked.")
        del known[found[0]]
        self._write(known)

    def _write(self, tokens: dict[str, Access]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
        new = self._path.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_bytes(_FILE.dump_json(tokens))
        new.replace(self._path)


def digest_of(token: str) -> str:
    """The name of a token in the file: its SHA-256."""
    return hashlib.sha256(token.encode()).hexdigest()
