"""Forgetting, and checking that all is well."""

import asyncio
import contextlib
import re
from datetime import UTC, datetime, timedelta

from .access import Tokens
from .database import MIGRATIONS, Connection, connected
from .settings import Refused, Settings

_RETENTION_SECONDS = 3_600  # between checks for what is too old
_ID = {  # the column in which each table has the event's id
    "events": "event_id",
    "chunks": "event_id",
    "decisions": "decision_id",
    "tasks": "event_id",
    "artifacts": "artifact_id",
}
_BY = {
    "tenant": "tenant_id = %(tenant)s",
    "event": "event_id = %(event)s",
    "session": "session_id = %(session)s",
    "tag": "%(tag)s = ANY(tags)",
    "before": "ts < %(before)s",
}
_CHECKS = {  # each is true if all is well
    "PostgreSQL is 15 or newer": "current_setting('server_version_num')::int >= 150000",
    "the schema fits this program": "(SELECT max(version) FROM schema_version) = %(schema)s",
    "row level security is on for every table": "(SELECT count(*) = 5 FROM pg_class WHERE"
    " relnamespace = 'memory'::regnamespace AND relname = ANY(%(tables)s) AND relrowsecurity)",
    "word frequencies are known, or not needed": "(SELECT count(*) < 1000 FROM (SELECT FROM chunks"
    " LIMIT 1000) c) OR EXISTS (SELECT FROM pg_stats WHERE schemaname = 'memory' AND tablename ="
    " 'chunks' AND attname = 'tsv' AND most_common_elems IS NOT NULL)",
}


async def forget(dsn: str, by: dict[str, str], *, really: bool = True) -> dict[str, int]:
    """Delete the events that match all of `by`: tenant, event, session, tag, before.

    Returns the number of rows in each table; unless `really`, they are only counted. Afterwards it
    checks that none is left, vacuums the tables and updates the word statistics. Backups and the
    write-ahead log are up to the database's owner. Raises Refused.
    """
    values = by | ({"before": _moment(by["before"])} if "before" in by else {})
    where = " AND ".join(_BY[name] for name in by)
    which = f"SELECT tenant_id, event_id FROM events WHERE {where} FOR UPDATE"
    async with connected(dsn) as connection:
        async with connection.transaction():
            await connection.execute(f"CREATE TEMP TABLE forgotten AS {which}".encode(), values)
            gone = await _counted(connection)
            if not really:
                return gone
            await connection.execute(
                "DELETE FROM events WHERE (tenant_id, event_id) IN (TABLE forgotten)"
            )
        if left := sum((await _counted(connection)).values()):
            raise Refused(f"{left} rows are still there. Run this again.")
        await connection.execute(f"VACUUM ANALYZE {', '.join(_ID)}".encode())
    return gone


async def _counted(connection: Connection) -> dict[str, int]:
    counts = ", ".join(
        f"(SELECT count(*) FROM {table} WHERE (tenant_id, {id}) IN (TABLE forgotten)) AS {table}"
        for table, id in _ID.items()
    )
    return await (await connection.execute(f"SELECT {counts}".encode())).fetchone() or {}


def _moment(given: str) -> datetime:
    if days := re.fullmatch(r"(\d{1,5})d", given):
        return datetime.now(UTC) - timedelta(days=int(days[1]))
    try:
        return datetime.fromisoformat(given).astimezone()
    except ValueError:
        raise Refused(f"{given} is not a time. Use 30d, or a date such as 2026-01-31.") from None


async def retain(dsn: str, days: int | None) -> None:
    """Forget events older than `days`, now and every hour; None forgets nothing."""
    while days:
        with contextlib.suppress(Refused):
            await forget(dsn, {"before": f"{days}d"})
        await asyncio.sleep(_RETENTION_SECONDS)


async def examine(settings: Settings, dsn: str) -> dict[str, bool]:
    """What was checked, and whether it is well. Raises Refused."""
    tokens = Tokens(settings.tokens).all()
    findings = {f"{len(tokens)} tokens in {settings.tokens}": bool(tokens)}
    checks = ", ".join(f'{check} AS "{finding}"' for finding, check in _CHECKS.items())
    known = {"schema": len(MIGRATIONS), "tables": list(_ID)}
    async with connected(dsn) as connection, connection.transaction():
        found = await connection.execute(f"SELECT {checks}".encode(), known)
        findings |= await found.fetchone() or {}
        await connection.execute("SET LOCAL ROLE memory_daemon")
        for table in _ID:
            found = await connection.execute(f"SELECT FROM {table} LIMIT 1".encode())
            findings[f"no row of {table} is visible without a tenant"] = found.rowcount == 0
    return findings
