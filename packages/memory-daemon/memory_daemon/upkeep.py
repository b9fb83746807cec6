"""Forgetting, and checking that all is well."""

import asyncio
import contextlib
import logging
import re
from datetime import UTC, datetime, timedelta

from psycopg import errors

from .access import Tokens
from .database import Connection, connected
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
    # Retention leaves decisions that are active, and the last update of a task that is not done.
    "outdated before": """recorded_at < %(outdated before)s AND (tenant_id, event_id) NOT IN (
      SELECT tenant_id, decision_id FROM decisions WHERE status = 'active'
      UNION ALL SELECT tenant_id, event_id FROM tasks WHERE status <> 'done')""",
}
# A decision that a forgotten one had superseded is superseded by that one's successor, or active.
_REACTIVATE = """
  UPDATE decisions former SET superseded_by = gone.superseded_by,
    status = CASE WHEN gone.superseded_by IS NULL THEN 'active' ELSE 'superseded' END
  FROM decisions gone
  WHERE (gone.tenant_id, gone.decision_id) = (former.tenant_id, former.superseded_by)
    AND (gone.tenant_id, gone.decision_id) IN (TABLE forgotten)
    AND (former.tenant_id, former.decision_id) NOT IN (TABLE forgotten)"""
# A task whose last update is forgotten is as the update that was recorded before it said.
_RESTORE_TASKS = """
  WITH before AS (
    SELECT tenant_id, task->>'task_id' AS task_id,
      (array_agg(event_id ORDER BY recorded_at DESC))[1] AS event_id, coalesce(
        (array_agg(task->>'title' ORDER BY recorded_at DESC)
          FILTER (WHERE task->>'title' <> ''))[1],
        left(split_part(ltrim((array_agg(coalesce(content->>'text', content->>'excerpt_text')
          ORDER BY recorded_at))[1], E' \\n\\t'), E'\\n', 1), 200)) AS title
    FROM events WHERE task IS NOT NULL AND (tenant_id, event_id) NOT IN (TABLE forgotten)
      AND (tenant_id, task->>'task_id') IN (
        SELECT tenant_id, task_id FROM tasks WHERE (tenant_id, event_id) IN (TABLE forgotten))
    GROUP BY 1, 2)
  UPDATE tasks SET event_id = last.event_id, ts = last.ts, status = last.task->>'status',
    title = before.title, refs = last.refs, channel = last.channel, actor_id = last.actor_id,
    details = left(coalesce(last.content->>'text', last.content->>'excerpt_text'), 3000),
    sensitivity = last.sensitivity
  FROM before JOIN events last USING (tenant_id, event_id)
  WHERE (tasks.tenant_id, tasks.task_id) = (last.tenant_id, before.task_id)
    AND (tasks.tenant_id, tasks.event_id) IN (TABLE forgotten)"""
# Samples of the texts, which stay when a table becomes empty. Only a superuser may delete them.
_FORGET_SAMPLES = """
  DELETE FROM pg_statistic WHERE starelid IN
    (SELECT oid FROM pg_class WHERE relnamespace = 'memory'::regnamespace)"""
# Transactions that may still see what was deleted; until they end, rewriting a table keeps it.
_ONLOOKERS = """
  SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND age(backend_xmin) >= age(%s::xid)"""
_ONLOOKERS_SECONDS = 30
log = logging.getLogger(__name__)


async def forget(
    dsn: str, by: dict[str, str], *, really: bool = True, files: bool = True
) -> dict[str, int]:
    """Delete the events that match all of `by`, whose keys are those of `_BY`.

    Returns the number of rows in each table; unless `really`, they are only counted. What a
    forgotten decision had superseded is in force again, and a task is as it was before. Afterwards
    it checks that none is left, and with `files` writes the tables anew, so that their files do not
    hold the texts either. Backups and the write-ahead log are up to the database's owner. Raises
    Refused.
    """
    values = by | {name: _moment(by[name]) for name in by if name.endswith("before")}
    where = " AND ".join(_BY[name] for name in by)
    which = f"SELECT tenant_id, event_id FROM events WHERE {where} FOR UPDATE"
    async with connected(dsn) as connection:
        async with connection.transaction():
            await connection.execute(f"CREATE TEMP TABLE forgotten AS {which}".encode(), values)
            gone = await _counted(connection)
            if not really:
                return gone
            while (await connection.execute(_REACTIVATE.encode())).rowcount:
                pass  # a step along a chain of forgotten decisions
            await connection.execute(_RESTORE_TASKS.encode())
            await connection.execute(
                "DELETE FROM events WHERE (tenant_id, event_id) IN (TABLE forgotten)"
            )
            if files:
                with contextlib.suppress(errors.InsufficientPrivilege):
                    async with connection.transaction():
                        await connection.execute(_FORGET_SAMPLES.encode())
            found = await connection.execute("SELECT pg_current_xact_id()::xid::text AS id")
            deletion = await found.fetchone() or {}
        if left := sum((await _counted(connection)).values()):
            raise Refused(f"{left} rows are still there. Run this again.")
        if gone["events"] and files:
            await _write_anew(connection, deletion["id"])
        elif gone["events"]:
            await connection.execute(f"VACUUM (ANALYZE) {', '.join(_ID)}".encode())
    return gone


async def _write_anew(connection: Connection, deletion: str) -> None:
    for _ in range(10 * _ONLOOKERS_SECONDS):
        if not (await connection.execute(_ONLOOKERS.encode(), [deletion])).rowcount:
            break
        await asyncio.sleep(0.1)
    else:
        log.warning(
            "Another transaction is open and may still see what was forgotten, so the database's "
            "files may hold it. End that transaction, and run VACUUM FULL."
        )
    await connection.execute(f"VACUUM (FULL, ANALYZE) {', '.join(_ID)}".encode())
    await connection.execute("VACUUM (FULL) pg_statistic")


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
    """Forget events recorded more than `days` ago, now and every hour, but not what is in force;
    None forgets nothing. Logs how much it took.
    """
    while days:
        try:
            gone = await forget(dsn, {"outdated before": f"{days}d"}, files=False)
            if gone["events"]:
                rows = ", ".join(f"{count} {table}" for table, count in gone.items())
                log.info("Forgotten, as recorded more than %d days ago: %s.", days, rows)
        except Refused as error:
            log.warning("What is older than %d days was not forgotten: %s", days, error)
        await asyncio.sleep(_RETENTION_SECONDS)


async def analyze(dsn: str) -> None:
    """Update the word statistics, which a database that was restored or upgraded lacks."""
    with contextlib.suppress(Refused):
        async with connected(dsn) as connection:
            await connection.execute(f"ANALYZE {', '.join(_ID)}".encode())


async def examine(settings: Settings, dsn: str) -> dict[str, bool]:
    """What was checked, and whether it is well. Raises Refused."""
    tokens = Tokens(settings.tokens).all()
    walled = (
        "SELECT FROM pg_class WHERE relnamespace = 'memory'::regnamespace AND relname = ANY(%s)"
        " AND relrowsecurity"
    )
    seen = " UNION ALL ".join(f"(SELECT 1 FROM {table} LIMIT 1)" for table in _ID)
    async with connected(dsn) as connection, connection.transaction():
        walls = (await connection.execute(walled, [list(_ID)])).rowcount
        await connection.execute("SET LOCAL ROLE memory_daemon")
        rows = (await connection.execute(seen.encode())).rowcount
        version = connection.info.server_version
    return {
        f"{len(tokens)} tokens in {settings.tokens}": bool(tokens),
        "PostgreSQL is 15 or newer": version >= 150_000,
        "row level security is on for every table": walls == len(_ID),
        "no row is visible without a tenant": rows == 0,
    }
