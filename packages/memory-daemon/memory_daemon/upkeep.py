"""Forgetting, and checking that all is well."""

import asyncio
import contextlib
import logging
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
    "recorded before": "recorded_at < %(recorded before)s",
}
# What retention leaves: decisions that are active, and the last update of a task that is not done.
_IN_FORCE = """
  SELECT tenant_id, decision_id FROM decisions WHERE status = 'active'
  UNION ALL SELECT tenant_id, event_id FROM tasks WHERE status <> 'done'"""
# A decision that a forgotten one had superseded is superseded by that one's successor, or active.
_REACTIVATE = """
  UPDATE decisions former SET superseded_by = gone.superseded_by,
    status = CASE WHEN gone.superseded_by IS NULL THEN 'active' ELSE 'superseded' END
  FROM decisions gone
  WHERE (gone.tenant_id, gone.decision_id) = (former.tenant_id, former.superseded_by)
    AND (gone.tenant_id, gone.decision_id) IN (TABLE forgotten)
    AND (former.tenant_id, former.decision_id) NOT IN (TABLE forgotten)"""
# A task whose last update is forgotten is as the update before it said.
_RESTORE_TASKS = """
  WITH updates AS (
    SELECT *, task->>'task_id' AS task_id, task->>'status' AS status, task->>'title' AS title,
      coalesce(content->>'text', content->>'excerpt_text') AS text
    FROM events WHERE task IS NOT NULL AND (tenant_id, event_id) NOT IN (TABLE forgotten)
      AND (tenant_id, task->>'task_id') IN (
        SELECT tenant_id, task_id FROM tasks WHERE (tenant_id, event_id) IN (TABLE forgotten))),
  earlier AS (
    SELECT DISTINCT ON (tenant_id, task_id) *, coalesce(
      (SELECT title FROM updates named WHERE title <> '' AND ts <= updates.ts
         AND (named.tenant_id, named.task_id) = (updates.tenant_id, updates.task_id)
       ORDER BY ts DESC LIMIT 1), left(split_part(ltrim(text), E'\\n', 1), 200)) AS named
    FROM updates ORDER BY tenant_id, task_id, ts DESC, recorded_at DESC)
  UPDATE tasks SET event_id = earlier.event_id, ts = earlier.ts, status = earlier.status,
    title = earlier.named, details = left(earlier.text, 3000), refs = earlier.refs,
    channel = earlier.channel, sensitivity = earlier.sensitivity, actor_id = earlier.actor_id
  FROM earlier WHERE (tasks.tenant_id, tasks.task_id) = (earlier.tenant_id, earlier.task_id)
    AND (tasks.tenant_id, tasks.event_id) IN (TABLE forgotten)"""
log = logging.getLogger(__name__)
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

    Returns the number of rows in each table; unless `really`, they are only counted. What a
    forgotten decision had superseded is in force again, and a task is as it was before. Afterwards
    it checks that none is left, and writes the tables anew, so that their files do not hold the
    texts either. Backups and the write-ahead log are up to the database's owner. Raises Refused.
    """
    return await _forget(dsn, by, really=really, afterwards="VACUUM (FULL, ANALYZE)")


async def _forget(
    dsn: str, by: dict[str, str], *, really: bool, afterwards: str, spared: str = ""
) -> dict[str, int]:
    values = by | {name: _moment(by[name]) for name in by if name.endswith("before")}
    where = " AND ".join([*(_BY[name] for name in by), *([spared] if spared else [])])
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
        if left := sum((await _counted(connection)).values()):
            raise Refused(f"{left} rows are still there. Run this again.")
        if gone["events"]:
            await connection.execute(f"{afterwards} {', '.join(_ID)}".encode())
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
    """Forget events recorded more than `days` ago, now and every hour, but not what is in force;
    None forgets nothing. Logs how much it took.
    """
    while days:
        try:
            gone = await _forget(
                dsn,
                {"recorded before": f"{days}d"},
                really=True,
                afterwards="VACUUM (ANALYZE)",
                spared=f"(tenant_id, event_id) NOT IN ({_IN_FORCE})",
            )
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
