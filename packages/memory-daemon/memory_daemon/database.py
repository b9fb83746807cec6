"""The database: its schema, the pool, who a token stands for, transactions that see one tenant."""

import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from typing import Any, Literal, NamedTuple, Self, get_args

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

POOL_SIZE = 16
WAIT_SECONDS = 5  # for a connection, and for the database to finish a statement
UNCHANGED = "Nothing was recorded or changed."
LATER = "Try again later."  # the end of what is said of a call that may succeed then

Channel = Literal["private", "agent", "team", "public"]  # each sees what those after it see
CHANNELS: tuple[Channel, ...] = get_args(Channel)
Connection = AsyncConnection[DictRow]

# The role that serves sees one tenant at a time, and deletes nothing. Roles are not part of a dump.
_ROLE = """
  DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'memory_daemon') THEN
      CREATE ROLE memory_daemon NOLOGIN; END IF;
    BEGIN SET LOCAL ROLE memory_daemon; RESET ROLE;
    EXCEPTION WHEN insufficient_privilege THEN GRANT memory_daemon TO CURRENT_USER; END;
    IF (SELECT rolsuper OR rolbypassrls OR rolname = current_user FROM pg_roles
        WHERE rolname = 'memory_daemon') THEN RAISE insufficient_privilege; END IF;
  END $$"""
_NO_ROLE = (
    "The database's user may not create the role memory_daemon, which serves every call and must "
    "not be a superuser. Ask an administrator to run: CREATE ROLE memory_daemon NOLOGIN; GRANT "
    'memory_daemon TO "{}";'
)
SCHEMA = "agent-memory-daemon, schema 1"
_STATE = """
  SELECT obj_description(n.oid, 'pg_namespace') AS made_by,
    has_schema_privilege('memory_daemon', n.oid, 'USAGE') AS granted, EXISTS (SELECT
      FROM pg_attribute WHERE attrelid = to_regclass('memory.chunks') AND attname = 'embedding')
    AS meaning FROM pg_namespace n WHERE nspname = 'memory'"""
_FOREIGN = (
    f"The database has a schema `memory` that is not `{SCHEMA}`. Use the version that made it, or "
    "another database (--dsn) or folder (--home)."
)
_TOO_OLD = "The database must be PostgreSQL 15 or newer, with the encoding UTF8."
_NO_MEANING = (
    "Everything is found by words alone, not by meaning: the database has no extension vector "
    "(pgvector) of version 0.8 or newer. Install it, let an administrator run CREATE EXTENSION "
    "vector, and start again: what is recorded from then on is found by meaning, too."
)
_UNREADABLE = (
    "The DSN cannot be read. Write it as host=… user=… password='…' dbname=…; or as "
    "postgresql://user:password@host/dbname, with %40 for an @ in the password, and %25 for a %."
)
_UNSURE = (
    "The connection broke during the commit. If this call records something, that may or may not "
    f"be done; events with an event_id of your own can safely be sent again. {LATER}"
)
_CAUSES = {  # the first that fits
    errors.DiskFull: f"The database's disk is full. Make room on it. {LATER}",
    errors.QueryCanceled: f"The database took longer than {WAIT_SECONDS} seconds. {LATER}",
    psycopg.OperationalError: f"The database does not answer ({{}}). {LATER}",
    errors.DataError: "The database cannot hold this (SQLSTATE {}).",
    errors.IntegrityError: "The database refused this (SQLSTATE {}).",
    psycopg.Error: f"The database cannot do this (SQLSTATE {{}}): ask its operator. {LATER}",
}
_BEGIN = """
  SELECT set_config('role', 'memory_daemon', true), set_config('app.tenant', %s, true),
    set_config('search_path', 'memory, pg_temp', true), set_config('statement_timeout', %s, true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('plan_cache_mode', 'force_custom_plan', true), set_config('synchronous_commit',
      replace(current_setting('synchronous_commit'), 'off', 'on'), true)"""
_OPTIONS: dict[str, Any] = {"autocommit": True, "row_factory": dict_row}
_OPTIONS |= {"connect_timeout": WAIT_SECONDS, "client_encoding": "UTF8"}
log = logging.getLogger(__name__)


class Refused(Exception):
    """A sentence for the caller: why nothing was recorded or changed, and what to do."""


class Unsure(Refused):
    """Nobody knows whether it was recorded."""


@contextmanager
def _sentences() -> Iterator[None]:
    # Never in the database's own words, which may hold what was recorded.
    try:
        yield
    except psycopg.Error as error:
        first, context = error, error.__context__  # the end of a pipeline may hide what broke it
        if isinstance(error, errors.PipelineAborted) and isinstance(context, psycopg.Error):
            first = context
        cause = next(text for kind, text in _CAUSES.items() if isinstance(first, kind))
        raise Refused(cause.format(first.sqlstate or type(first).__name__)) from error


@asynccontextmanager
async def owner(dsn: str, *, serving: bool = False) -> AsyncIterator[Connection]:
    """A transaction as the owner, who sees every tenant, in a database whose schema is made; and
    made again if it is for `serving` and lacks something. Raises Refused.
    """
    with _sentences():
        try:
            if "@" in str(conninfo_to_dict(dsn).get("host")).partition("/")[0]:  # of a password
                raise Refused(_UNREADABLE)
            opened = await AsyncConnection[DictRow].connect(dsn, **_OPTIONS)
        except psycopg.ProgrammingError:  # its words quote what may be a password
            raise Refused(_UNREADABLE) from None
        except psycopg.OperationalError as error:  # in libpq's words, which hold nothing recorded
            raise Refused(f"The database cannot be reached: {str(error).strip()}") from error
        async with opened as connection:
            async with connection.transaction():
                await _prepare(connection, serving)
            async with connection.transaction():
                await connection.execute("SET LOCAL search_path = memory, pg_temp")
                yield connection


async def _prepare(connection: Connection, serving: bool) -> None:
    info = connection.info
    if info.server_version < 150_000 or info.parameter_status("server_encoding") != "UTF8":
        raise Refused(_TOO_OLD)
    await connection.execute("SELECT pg_advisory_xact_lock(1835363684)")  # "memd"
    try:
        await connection.execute(_ROLE)
    except errors.InsufficientPrivilege as error:
        raise Refused(_NO_ROLE.format(info.user)) from error
    state = await (await connection.execute(_STATE)).fetchone()
    if state and state["made_by"] != SCHEMA:
        raise Refused(_FOREIGN)
    # Again when there may be pgvector, or when a dump was restored, which has no roles.
    if not state or (serving and not (state["meaning"] and state["granted"])):
        await connection.execute(files("memory_daemon").joinpath("schema.sql").read_bytes())
        await connection.execute(f"COMMENT ON SCHEMA memory IS '{SCHEMA}'".encode())


def common(*channels: Channel) -> Channel:
    """The channel that an agent on any of `channels` sees."""
    return max(channels, key=CHANNELS.index)


class Access(NamedTuple):
    """What a token stands for: a tenant, an agent, the widest channel that it may use, and whether
    it may make rules for all."""

    tenant: str = "default"
    agent: str = "default"
    channel: Channel = "private"
    may_rule: bool = False

    def reach(self, channel: Channel | None) -> Channel:
        """`channel`, or the widest if it is None. Raises Refused if it is wider than that."""
        if channel and CHANNELS.index(channel) < CHANNELS.index(self.channel):
            raise Refused(f"The widest channel of this token is {self.channel}, not {channel}.")
        return channel or self.channel


def sha256(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


async def new_token(connection: Connection, access: Access) -> str:
    """Make a token that stands for `access`; the connection is the owner's."""
    made = f"mem_{secrets.token_urlsafe(32)}"
    insert = "INSERT INTO tokens VALUES (%s, %s, %s, %s, %s)"
    await connection.execute(insert, [sha256(made), *access])
    return made


class Database(AsyncConnectionPool[Connection]):
    """The pool of connections to `dsn`; open it with `async with`. `meaning` says whether the
    database compares vectors; `first_token` is a token, if there was none before."""

    meaning = False
    first_token: str | None = None

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
        self.dsn = dsn

    async def __aenter__(self) -> Self:
        async with owner(self.dsn, serving=True) as connection:
            state = await (await connection.execute(_STATE)).fetchone()
            self.meaning = bool(state and state["meaning"])
            if not (await connection.execute("SELECT FROM tokens LIMIT 1")).rowcount:
                self.first_token = await new_token(connection, Access())
        if not self.meaning:
            log.warning(_NO_MEANING)
        return await super().__aenter__()

    async def tokens(self, where: str, value: Any) -> list[Access]:
        """The access of each token for which `where` holds. Raises Refused."""
        query = f"SELECT tenant_id, agent, channel, may_rule FROM memory.tokens WHERE {where}"
        with _sentences():
            async with self.connection() as connection:
                rows = await (await connection.execute(query.encode(), [value])).fetchall()
        return [Access(*row.values()) for row in rows]

    @asynccontextmanager
    async def transaction(self, tenant: str) -> AsyncIterator[Connection]:
        """A transaction as the serving role, which sees only rows of `tenant`. Raises Refused."""
        committing = False
        try:
            with _sentences():
                async with self.connection() as connection, connection.transaction():
                    await connection.execute(_BEGIN, [tenant, f"{WAIT_SECONDS}s"])
                    yield connection
                    committing = True
        except Refused as error:
            if committing:
                raise Unsure(_UNSURE) from error
            raise
