"""Forgetting: events go, and with them all that was made of them."""

import re
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import sql

from .database import sentences
from .settings import POOL_SECONDS, Refused

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


async def forget(dsn: str, by: dict[str, str], *, really: bool = True) -> dict[str, int]:
    """Delete the events that match all of `by`: tenant, event, session, tag, before.

    Answers with the rows of each table, which are only counted if not `really`. Afterwards it is
    checked that none is left, and the database tidies up, its word statistics too. Its backups and
    logs are its owner's. Raises Refused.
    """
    conditions = sql.SQL(" AND ").join(sql.SQL(_BY[name]) for name in by)
    values = by | ({"before": _moment(by["before"])} if "before" in by else {})
    with sentences():
        async with await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, connect_timeout=POOL_SECONDS
        ) as connection:
            await connection.execute("SET search_path = memory, pg_temp")
            async with connection.transaction():
                await connection.execute(
                    sql.SQL(
                        "CREATE TEMP TABLE forgotten AS"
                        " SELECT tenant_id, event_id FROM events WHERE {} FOR UPDATE"
                    ).format(conditions),
                    values,
                )
                gone = await _counted(connection)
                if really:
                    await connection.execute(
                        "DELETE FROM events USING forgotten f WHERE"
                        " (events.tenant_id, events.event_id) = (f.tenant_id, f.event_id)"
                    )
            if really:
                left = sum((await _counted(connection)).values())
                if left:
                    raise Refused(f"{left} rows are still there. Run this again.")
                await connection.execute("VACUUM ANALYZE " + ", ".join(_ID))
    return gone


async def _counted(connection: psycopg.AsyncConnection) -> dict[str, int]:
    counts = {}
    for table, column in _ID.items():
        found = await connection.execute(
            sql.SQL(
                "SELECT count(*) FROM {table} JOIN forgotten f"
                " ON ({table}.tenant_id, {table}.{column}) = (f.tenant_id, f.event_id)"
            ).format(table=sql.Identifier(table), column=sql.Identifier(column))
        )
        [counts[table]] = await found.fetchone() or [0]
    return counts


def _moment(given: str) -> datetime:
    days = re.fullmatch(r"(\d{1,5})d", given)
    if days:
        return datetime.now(UTC) - timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise Refused(f"{given} is no time. Take 30d, or a date such as 2026-01-31.") from None
    return moment if moment.tzinfo else moment.astimezone()
