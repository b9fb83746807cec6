"""The database: migrations, the pool, and transactions that see only one tenant."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from .settings import UNCHANGED, Refused

POOL_SIZE = 16
WAIT_SECONDS = 5  # for a connection, and for the database to finish a statement
ROLE, *MIGRATIONS, SEARCH = sorted(
    files("memory_daemon").joinpath("migrations").iterdir(), key=lambda file: file.name
)
_NO_ROLE = (
    "Nothing was changed. The database's user may not create the role memory_daemon, which serves "
    "every call. Ask an administrator to run: CREATE ROLE memory_daemon NOLOGIN; "
    "GRANT memory_daemon TO "
)
_UNREADABLE = (
    "MEMORY_DAEMON_DSN cannot be read. Write it as host=… user=… password='…' dbname=…; or as "
    "postgresql://user:password@host/dbname, with %40 for an @ in the password, and %25 for a %."
)
_UNKNOWN = (
    "The connection broke during the commit: this may or may not have been recorded. Events with "
    "an event_id of your own can safely be sent again."
)
_CAUSES = {  # the first that fits
    errors.DiskFull: "The database's disk is full. Make room on it.",
    errors.QueryCanceled: f"The database took longer than {WAIT_SECONDS} seconds.",
    errors.DeadlockDetected: "Two calls blocked each other. Try again.",
    errors.ReadOnlySqlTransaction: "The database is read-only at present.",
    psycopg.OperationalError: "The database does not answer. Try again in a moment.",
}

TRIES = 8  # of calls that blocked each other; with five writers of the same tasks, four were enough
Connection = AsyncConnection[DictRow]
_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "row_factory": dict_row,
    "connect_timeout": WAIT_SECONDS,
}


@contextmanager
def _sentences(outcome: Callable[[], str] = lambda: UNCHANGED) -> Iterator[None]:
    # Never in the database's own words, which may hold what was recorded.
    try:
        yield
    except psycopg.Error as error:
        refused = f"The database refused this (SQLSTATE {error.sqlstate})."
        cause = next((text for kind, text in _CAUSES.items() if isinstance(error, kind)), refused)
        raise Refused(f"{outcome()} {cause}") from error


def _undone(error: BaseException | None) -> bool:
    undone = isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)
    return undone or (error is not None and _undone(error.__cause__))


# Work that the database undid, because another call was in its way, is done again.
retried = retry(
    retry=retry_if_exception(_undone),
    stop=stop_after_attempt(TRIES),
    wait=wait_random_exponential(0.05, max=1),
    reraise=True,
)


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """A connection as the owner, who sees every tenant: for upkeep only. Raises Refused."""
    with _sentences():
        try:
            if "@" in str(conninfo_to_dict(dsn).get("host")):  # the rest of a password
                raise Refused(_UNREADABLE)
            opened = await AsyncConnection[DictRow].connect(dsn, **_OPTIONS)
        except psycopg.ProgrammingError:  # its words quote what may be a password
            raise Refused(_UNREADABLE) from None
        except psycopg.OperationalError as error:  # in libpq's words, which hold nothing recorded
            raise Refused(f"The database cannot be reached: {str(error).strip()}") from error
        async with opened as connection:
            await connection.execute("SET search_path = memory, pg_temp")
            yield connection


async def migrate(dsn: str, upto: int = len(MIGRATIONS)) -> None:
    """Bring the schema `memory` to version `upto`, all or nothing; its data stays.

    Raises Refused if the schema is newer, or the user of `dsn` may not create the serving role.
    """
    async with connected(dsn) as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(1835363684)")  # "memd"
        try:
            await connection.execute(ROLE.read_bytes())
        except errors.InsufficientPrivilege as error:
            raise Refused(f'{_NO_ROLE}"{connection.info.user}";') from error
        await connection.execute(
            "CREATE SCHEMA IF NOT EXISTS memory; CREATE TABLE IF NOT EXISTS schema_version"
            " (version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
        )
        version = (await connection.execute("SELECT FROM schema_version")).rowcount
        if version > len(MIGRATIONS):
            raise Refused(
                f"Nothing was changed. The database has schema version {version}; this program "
                f"knows up to {len(MIGRATIONS)}. Update agent-memory-daemon."
            )
        for number, file in enumerate(MIGRATIONS[version:upto], version + 1):
            await connection.execute(file.read_bytes())
            await connection.execute("INSERT INTO schema_version VALUES (%s)", [number])
        if upto == len(MIGRATIONS):  # it is of the newest schema
            await connection.execute(SEARCH.read_bytes())


class Database(AsyncConnectionPool[Connection]):
    """The pool of connections to `dsn`; open it with `async with`."""

    def __init__(self, dsn: str) -> None:
        super().__init__(
            dsn,
            connection_class=AsyncConnection[DictRow],
            kwargs=_OPTIONS,
            min_size=1,
            max_size=POOL_SIZE,
            timeout=WAIT_SECONDS,
            reconnect_timeout=WAIT_SECONDS,
            check=self.check_connection,
            open=False,
        )

    @asynccontextmanager
    async def transaction(self, tenant: str) -> AsyncIterator[Connection]:
        """A transaction as the serving role, which sees only rows of `tenant`. Raises Refused."""
        committing = False
        with _sentences(lambda: _UNKNOWN if committing else UNCHANGED):
            async with self.connection() as connection, connection.transaction():
                await connection.execute(
                    "SELECT set_config('role', 'memory_daemon', true),"
                    " set_config('search_path', 'memory, pg_temp', true),"
                    " set_config('app.tenant', %s, true),"
                    " set_config('statement_timeout', %s, true)",
                    [tenant, f"{WAIT_SECONDS}s"],
                )
                yield connection
                committing = True
