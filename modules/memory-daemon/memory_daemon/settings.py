"""The settings, all from the environment, and the limits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BUNDLE_TOKENS = 65_000  # the specification's
MIN_BUNDLE_TOKENS = 500  # less holds the headings and nothing else
BODY_BYTES = 16 << 20  # of one HTTP request: a text of 10 MB, escaped
STATEMENT_SECONDS = 5  # after which the database gives up on a statement
POOL_SIZE = 16
POOL_SECONDS = 5  # to wait for a connection
UNCHANGED = "Nothing was recorded or changed."
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Refused(Exception):
    """A sentence for whoever asked: what is wrong, what was and was not changed, what to do."""


@dataclass(frozen=True)
class Settings:
    """How the daemon runs. `dsn` is None for the embedded PostgreSQL under `home`."""

    dsn: str | None
    home: Path
    tokens: Path
    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    bundle_tokens: int = BUNDLE_TOKENS
    excerpt_chars: int = 4_000
    retention_days: int | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """From variables named MEMORY_DAEMON_…; raises Refused if one is not usable."""
        given = {
            name.removeprefix("MEMORY_DAEMON_"): value.strip()
            for name, value in environment.items()
            if name.startswith("MEMORY_DAEMON_") and value.strip()
        }

        def number(name: str, default: int, low: int, high: int) -> int:
            value = given.get(name, str(default))
            if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
                raise Refused(
                    f"MEMORY_DAEMON_{name} is {value!r}, not a whole number from {low} to {high}."
                )
            return int(value)

        home = Path(given.get("HOME", _default_home())).expanduser().absolute()
        settings = cls(
            dsn=given.get("DSN"),
            home=home,
            tokens=Path(given.get("TOKENS", home / "tokens.json")).expanduser().absolute(),
            host=given.get("HOST", cls.host),
            port=number("PORT", cls.port, 0, 65_535),
            allowed_hosts=tuple(given.get("ALLOWED_HOSTS", "").replace(",", " ").split()),
            bundle_tokens=number("ACB_TOKENS", BUNDLE_TOKENS, MIN_BUNDLE_TOKENS, BUNDLE_TOKENS),
            excerpt_chars=number("EXCERPT_CHARS", cls.excerpt_chars, 200, 20_000),
            retention_days=number("RETENTION_DAYS", 0, 0, 36_500) or None,
        )
        if settings.host not in ("127.0.0.1", "localhost", "::1") and not settings.allowed_hosts:
            raise Refused(
                f"MEMORY_DAEMON_HOST is {settings.host}, so other machines can connect, but "
                "MEMORY_DAEMON_ALLOWED_HOSTS does not say by which names. Set it, for example to "
                "memory.example.com."
            )
        return settings


def _default_home() -> Path:
    # PostgreSQL refuses to run as root, and what it runs as instead cannot enter root's home.
    if os.geteuid() == 0:
        return Path("/var/lib/agent-memory-daemon")
    return Path.home() / ".amplifier" / "memory-daemon"
