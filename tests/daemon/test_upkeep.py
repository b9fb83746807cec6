"""What remains after forgetting, by hand and by age, and after an upgrade."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from memory_daemon.access import Access
from memory_daemon.database import migrate
from memory_daemon.upkeep import retain
from memory_daemon_process import TABLES, Agent, DaemonProcess

# What the schema of version 2 had besides its tables, and rows of every kind.
VERSION_2 = """
SET search_path = memory;
INSERT INTO schema_version VALUES (2);
CREATE FUNCTION any_word(question text) RETURNS tsquery IMMUTABLE LANGUAGE sql AS
  'SELECT plainto_tsquery(question)';
CREATE FUNCTION acb_candidates(question text, request text, agent text, recency double precision,
  budget int DEFAULT 5000, recent int DEFAULT 1000, top int DEFAULT 200)
RETURNS TABLE (event_id text, ts timestamptz, actor_type text, actor_id text, kind text,
  refs text[], token_est int, text text, score double precision)
LANGUAGE sql STABLE SECURITY DEFINER AS 'SELECT event_id, ts, actor_type, actor_id, kind, refs,
  token_est, text, 1 FROM memory.chunks';
REVOKE ALL ON FUNCTION acb_candidates FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acb_candidates TO memory_daemon;
INSERT INTO events SELECT 't', id, '2026-01-01'::timestamptz + n * interval '1 hour', 's', 'team',
  CASE kind WHEN 'tool_result' THEN 'tool' ELSE 'agent' END, 'sam', kind, sensitivity, tags,
  jsonb_build_object('text', text), refs, sha256(id::bytea)
FROM (VALUES
  (1, 'm', 'message', 'none', '{ops}'::text[], 'a quokka is loose', '{}'::text[]),
  (2, 'c', 'tool_call', 'none', '{}', 'read_file(compose.yaml)', '{}'),
  (3, 'r', 'tool_result', 'none', '{}', 'services of the shop', '{shop/compose.yaml}'),
  (4, 'd1', 'decision', 'none', '{}', 'Use MySQL', '{}'),
  (5, 'd2', 'decision', 'low', '{}', 'Use PostgreSQL', '{}'),
  (6, 'u', 'task_update', 'none', '{}', 'Umlauts fail', '{}'),
  (7, 'a', 'artifact', 'none', '{}', 'a drawing', '{}'),
  (8, 'x', 'message', 'secret', '{}', 'never shown', '{}')
) AS old(n, id, kind, sensitivity, tags, text, refs);
INSERT INTO chunks SELECT tenant_id, event_id || '.0', event_id, ts, session_id, channel,
  actor_type, actor_id, kind, sensitivity, refs, 9, 0.5, content->>'text' FROM events
  WHERE sensitivity <> 'secret';
INSERT INTO decisions SELECT tenant_id, event_id, ts,
  CASE event_id WHEN 'd1' THEN 'superseded' ELSE 'active' END,
  CASE event_id WHEN 'd1' THEN 'd2' END, 'project', channel, sensitivity, actor_id,
  content->>'text', '{two writers}', '{}', '{}', '{}', refs, 'local', '\\x0000'
  FROM events WHERE kind = 'decision';
INSERT INTO tasks SELECT tenant_id, 'login', event_id, ts, 'doing', 'Mend the login',
  content->>'text', refs, channel, sensitivity, actor_id FROM events WHERE kind = 'task_update';
INSERT INTO artifacts SELECT tenant_id, event_id, ts, 'blob', 'the whole drawing', '{}', refs,
  channel, sensitivity, actor_id FROM events WHERE kind = 'artifact';
"""
pytestmark = pytest.mark.timeout(300)  # a slow machine starts a command in several seconds


@pytest.fixture
def on_fresh(fresh: str, empty: Path) -> Iterator[DaemonProcess]:
    """A daemon on a database of its own, which finds by words; a test starts it."""
    daemon = DaemonProcess(empty, dsn=fresh, embedding_model="none")
    yield daemon
    if daemon.started:
        daemon.stop()


@pytest.mark.parametrize(
    ("forgotten", "active"),
    [(["c"], "b"), (["b"], "c"), (["b", "c"], "a"), (["c", "b"], "a"), (["a", "b"], "c")],
)
async def test_the_decision_before_a_forgotten_one_is_in_force_again(
    daemon: DaemonProcess, sam: Agent, forgotten: list[str], active: str
) -> None:
    former = None
    for name in "abc":
        why = {"supersedes": former}
        await sam.record(f"Paint it {name * 9}", "decision", event_id=name, decision=why)
        former = name
    for name in forgotten:
        done = daemon.run("forget", "--tenant", sam.tenant, "--event", name, "--yes")
        assert done.stdout.startswith("Forgotten, and verified to be gone: 1 events"), done.stderr
    left = set("abc") - set(forgotten)
    for status, names in {"active": {active}, "superseded": left - {active}}.items():
        found = await sam.ask("query_decisions", status=status)
        assert {name for name in "abc" if name * 9 in found} == names
    chain = dict(
        daemon.sql(
            "SELECT decision_id, superseded_by FROM decisions WHERE tenant_id = %s", sam.tenant
        )
    )
    assert chain == {name: min((n for n in left if n > name), default=None) for name in left}


async def test_a_chain_forgotten_at_once_leaves_what_was_before_it(
    daemon: DaemonProcess, sam: Agent
) -> None:
    for name, former in {"a": None, "b": "a", "c": "b", "d": "c"}.items():
        where, why = "s2" if name in "bc" else "s1", {"supersedes": former}
        await sam.record(name * 9, "decision", event_id=name, session_id=where, decision=why)
    assert daemon.run("forget", "--tenant", sam.tenant, "--session", "s2", "--yes").stdout
    assert "aaa" in await sam.ask("query_decisions", status="superseded")
    daemon.run("forget", "--tenant", sam.tenant, "--event", "d", "--yes")
    assert "aaa" in await sam.ask("query_decisions")


async def test_a_task_whose_last_update_is_forgotten_is_as_before(
    daemon: DaemonProcess, sam: Agent
) -> None:
    updates = {
        "1": ("Umlauts fail\nin the login", {"status": "open"}),
        "2": ("They are compared", {"status": "doing"}),
        "3": ("In which form?", {"status": "doing", "title": "Mend the login"}),
        "4": ("All green", {"status": "done"}),
    }
    for event_id, (text, task) in updates.items():
        told = {"event_id": event_id, "task": {"task_id": "t", **task}}
        late = (
            {"ts": "2020-01-01T00:00:00Z"} if event_id == "3" else {}
        )  # recorded third all the same
        await sam.record(text, "task_update", **told, **late)

    async def without(event_id: str) -> str:
        done = daemon.run("forget", "--tenant", sam.tenant, "--event", event_id, "--yes")
        assert "1 events" in done.stdout, done.stderr
        bundle = await sam.bundle("y", session_id="s2")
        return bundle.partition("# Tasks")[2].partition("# Evidence")[0]

    tasks = await without("4")
    assert "task t (doing)" in tasks and "Mend the login" in tasks and "In which form?" in tasks
    tasks = await without("3")
    assert "Umlauts fail" in tasks and "They are compared" in tasks and "Mend" not in tasks
    tasks = await without("2")
    assert "task t (open)" in tasks and "in the login" in tasks
    assert "task t" not in await without("1")


async def test_retention_goes_by_recording_and_spares_what_is_in_force(
    on_fresh: DaemonProcess, caplog: pytest.LogCaptureFixture
) -> None:
    sam = on_fresh.start().agent(Access("t"))
    async with sam.connected():
        await sam.record("Use red", "decision", event_id="superseded")
        why = {"supersedes": "superseded"}
        await sam.record("Use blue", "decision", event_id="active", decision=why)
        for status in ("open", "doing"):
            task = {"task_id": "unfinished", "status": status, "title": "Paint"}
            await sam.record(status, "task_update", event_id=status, task=task)
        task = {"task_id": "finished", "status": "done"}
        await sam.record("Painted", "task_update", event_id="done", task=task)
        await sam.record("Hello", event_id="old")
        old = {"ts": "2020-01-01T00:00:00Z"}
        await sam.record("Told late", event_id="late", **old)
    on_fresh.sql(
        "UPDATE events SET recorded_at = now() - interval '31 days' WHERE event_id <> 'late'"
    )
    caplog.set_level(logging.INFO, "memory_daemon")
    retention = asyncio.create_task(retain(on_fresh.dsn, 30))
    while not caplog.messages:
        await asyncio.sleep(0.05)
    retention.cancel()
    assert caplog.messages == [
        "Forgotten, as recorded more than 30 days ago: 4 events, 4 chunks, 1 decisions, 1 tasks, "
        "0 artifacts."
    ]
    left = on_fresh.sql("SELECT event_id FROM events ORDER BY 1")
    assert left == [("active",), ("doing",), ("late",)]
    bundle = await sam.bundle("What was told late?", session_id="s2")
    assert "Use blue" in bundle and "task unfinished (doing)" in bundle and "Told late" in bundle


async def test_a_database_of_schema_version_2_keeps_everything(on_fresh: DaemonProcess) -> None:
    await migrate(on_fresh.dsn, upto=1)
    with psycopg.connect(on_fresh.dsn) as connection:
        connection.execute(VERSION_2.encode())
    before = [on_fresh.sql(f"SELECT count(*) FROM {table}") for table in TABLES]
    sam = on_fresh.start().agent(Access("t"))
    assert [on_fresh.sql(f"SELECT count(*) FROM {table}") for table in TABLES] == before
    async with sam.connected():
        bundle = await sam.bundle("Where is the quokka?", session_id="s2", tags=["ops"])
        assert "a quokka is loose" in bundle
        bundle = await sam.bundle("What does compose.yaml do?", session_id="s2")
        assert "services of the shop" in bundle and "never shown" not in bundle
        assert "task login (doing)" in bundle and "Use PostgreSQL" in bundle
        assert "MySQL" not in await sam.ask("query_decisions", query_text="Which database?")
        assert "two writers" in await sam.ask("query_decisions", status="superseded")
        assert "the whole drawing" in await sam.ask("get_artifact", artifact_id="a")
        await sam.record("All green", "task_update", task={"task_id": "login", "status": "done"})
        why = {"supersedes": "d2"}
        await sam.record("Use SQLite", "decision", decision=why)
    moved = "SELECT count(*) FROM events WHERE recorded_at <> ts AND session_id = 's'"
    assert on_fresh.sql(moved) == [(0,)]
    assert on_fresh.run("forget", "--session", "s1", "--yes").stdout
    bundle = await sam.bundle("x", session_id="s2")
    assert "task login (doing)" in bundle and "Mend the login" in bundle and "PostgreSQL" in bundle
