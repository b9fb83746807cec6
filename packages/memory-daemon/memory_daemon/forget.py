"""Forgetting: the one thing that deletes."""

import re
from datetime import UTC, datetime, timedelta

from .database import Refused, owner

_BY = {
    "tenant": "tenant_id = %(tenant)s",
    "event": "event_id = %(event)s",
    "session": "session_id = %(session)s",
    "tag": "%(tag)s = ANY(tags)",
    "before": "recorded_at < %(before)s",
}
_NOT_IN_FORCE = """ AND (tenant_id, event_id) NOT IN (
    SELECT tenant_id, decision_id FROM decisions WHERE status = 'active'
    UNION ALL SELECT e.tenant_id, e.event_id FROM events e JOIN tasks USING (tenant_id, task_id)
    WHERE status <> 'done')"""
# A decision that a forgotten one had superseded is superseded by that one's successor, or active.
_REACTIVATE = """
  UPDATE decisions d SET superseded_by = next.superseded_by FROM decisions next
  WHERE (d.tenant_id, d.superseded_by) = (next.tenant_id, next.decision_id)
    AND (next.tenant_id, next.decision_id) IN (TABLE forgotten)"""


async def forgotten(dsn: str, by: dict[str, str], *, in_force: bool, really: bool) -> int:
    """Delete the events that match all of `by`, whose keys are those of `_BY`, and all that is
    derived from them; only what is not in force, unless `in_force`. What a forgotten decision had
    superseded is in force again, and a task is as it was before.

    Returns how many events; unless `really`, it only counts them. Raises Refused.
    """
    values = by | ({"before": _moment(by["before"])} if "before" in by else {})
    where = " AND ".join(_BY[name] for name in by) + ("" if in_force else _NOT_IN_FORCE)
    async with owner(dsn) as connection:
        # Nothing is superseded meanwhile.
        await connection.execute("LOCK TABLE decisions IN SHARE ROW EXCLUSIVE MODE")
        chosen = await connection.execute(
            "CREATE TEMP TABLE forgotten ON COMMIT DROP AS SELECT tenant_id, event_id FROM events"
            f" WHERE {where} FOR UPDATE".encode(),
            values,
        )
        if really:
            while (await connection.execute(_REACTIVATE)).rowcount:
                pass  # as long as one points to a forgotten one
            await connection.execute(
                "DELETE FROM events WHERE (tenant_id, event_id) IN (TABLE forgotten)"
            )
    return chosen.rowcount


def _moment(given: str) -> datetime:
    if days := re.fullmatch(r"(\d{1,5})d", given):
        return datetime.now(UTC) - timedelta(days=int(days[1]))
    try:
        return datetime.fromisoformat(given).astimezone()
    except (ValueError, OverflowError):
        raise Refused(f"{given} is not a time. Use 30d, or a date such as 2026-01-31.") from None
