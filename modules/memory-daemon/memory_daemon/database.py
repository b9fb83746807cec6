"""The database: migrations, the pool, and transactions that can see one tenant only."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from .settings import POOL_SECONDS, POOL_SIZE, STATEMENT_SECONDS, UNCHANGED, Refused

Connection = AsyncConnection[DictRow]
MIGRATIONS = sorted(
    (file for file in files(__package__).joinpath("migrations").iterdir()),
    key=lambda file: file.name,
)
_LOCK = 0x6D656D64  # "memd": the advisory lock under which one daemon migrates
_UNKNOWN = (
    "The connection to the database broke at the very end, so it is not known whether this was "
    "recorded. Events with an event_id of yours can be sent again and are recorded once."
)
_ROLE = """CREATE ROLE memory_daemon NOLOGIN; GRANT memory_daemon TO "{user}";"""


async def migrate(dsn: str, upto: int = len(MIGRATIONS)) -> None:
    """Bring the schema `memory` to version `upto`, in one transaction; what is there stays.

    Raises Refused if the schema is newer than this program, or if the user of `dsn` may not make
    the role that serves.
    """
    with sentences(lambda: "The schema is as it was."):
        async with await psycopg.AsyncConnection.connect(
            dsn, connect_timeout=POOL_SECONDS
        ) as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            await _have_role(connection)
            await connection.execute(
                "CREATE SCHEMA IF NOT EXISTS memory; SET LOCAL search_path = memory;"
                "CREATE TABLE IF NOT EXISTS schema_version"
                " (version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now());"
                "GRANT USAGE ON SCHEMA memory TO memory_daemon"
            )
            row = await (
                await connection.execute("SELECT coalesce(max(version), 0) FROM schema_version")
            ).fetchone()
            version = row[0] if row else 0
            if version > len(MIGRATIONS):
                raise Refused(
                    f"The database has schema {version}, this program knows {len(MIGRATIONS)} at "
                    "most. Nothing was changed. Update agent-memory-daemon."
                )
            for number, file in enumerate(MIGRATIONS[version:upto], version + 1):
                await connection.execute(file.read_bytes())
                await connection.execute("INSERT INTO schema_version VALUES (%s)", [number])


async def _have_role(connection: AsyncConnection) -> None:
    user = connection.info.user
    try:
        async with connection.transaction():
            role = await (
                await connection.execute(
                    "SELECT rolsuper OR rolbypassrls OR rolname = current_user,"
                    " pg_has_role(current_user, oid, 'MEMBER')"
                    " FROM pg_roles WHERE rolname = 'memory_daemon'"
                )
            ).fetchone()
            if role and role[0]:
                raise Refused(
                    "The role memory_daemon may see every tenant. Take SUPERUSER and BYPASSRLS "
                    "from it, and connect as another user. Nothing was changed."
                )
            if not role:
                await connection.execute("CREATE ROLE memory_daemon NOLOGIN")
            if not (role and role[1]):
                await connection.execute("GRANT memory_daemon TO current_user")
            await connection.execute("SET LOCAL ROLE memory_daemon; RESET ROLE")
    except errors.InsufficientPrivilege as error:
        raise Refused(
            f"The user {user} may not make or take the role memory_daemon, which serves. Nothing "
            f"was changed. Run this once as an administrator: {_ROLE.format(user=user)}"
        ) from error


class Database:
    """The pool of connections to `dsn`; opened by `async with`."""

    def __init__(self, dsn: str) -> None:
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            dsn,
            connection_class=AsyncConnection[DictRow],
            kwargs={"autocommit": True, "row_factory": dict_row, "connect_timeout": POOL_SECONDS},
            min_size=1,
            max_size=POOL_SIZE,
            timeout=POOL_SECONDS,
            reconnect_timeout=POOL_SECONDS,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )

    async def __aenter__(self) -> "Database":
        await self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def transaction(self, tenant: str) -> AsyncIterator[Connection]:
        """A transaction as the serving role, which sees the rows of `tenant` and no others.

        What the database reports is raised as Refused: a sentence that says what was changed.
        """
        committing = False
        with sentences(lambda: _UNKNOWN if committing else UNCHANGED):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(
                    "SELECT set_config('role', 'memory_daemon', true),"
                    " set_config('search_path', 'memory, pg_temp', true),"
                    " set_config('app.tenant', %s, true), set_config('statement_timeout', %s, true)",
                    [tenant, f"{STATEMENT_SECONDS}s"],
                )
                yield connection
                committing = True


@contextmanager
def sentences(outcome: Callable[[], str] = lambda: UNCHANGED) -> Iterator[None]:
    """Raises what the database reports as Refused, with `outcome` for what became of the call.

    Never with the database's own words, which may hold a text that was recorded.
    """
    try:
        yield
    except psycopg.Error as error:
        # The more special come first: all but the last are also OperationalErrors.
        causes = {
            errors.DiskFull: "The database's disk is full. Make room on it.",
            errors.QueryCanceled: f"The database took longer than {STATEMENT_SECONDS} seconds.",
            errors.DeadlockDetected: "Two calls were in each other's way. Try again.",
            errors.ReadOnlySqlTransaction: "The database takes no writes at present.",
            psycopg.OperationalError: "The database does not answer. Try again in a moment.",
            psycopg.Error: f"The database refused this (SQLSTATE {error.sqlstate}).",
        }
        cause = next(text for kind, text in causes.items() if isinstance(error, kind))
        raise Refused(f"{outcome()} {cause}") from error
