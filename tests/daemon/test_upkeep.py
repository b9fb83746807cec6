"""What remains after forgetting, by hand and by age."""

from pathlib import Path

import pytest
from memory_daemon.access import Access
from memory_daemon_process import Agent, DaemonProcess, wait_until

pytestmark = pytest.mark.timeout(300)  # a slow machine starts a command in several seconds


@pytest.mark.parametrize(
    ("forgotten", "active"),
    [([["c"]], "b"), ([["b"]], "c"), ([["b"], ["c"]], "a"), ([["c"], ["b"]], "a"),
     ([["a"], ["b"]], "c"), ([["b", "c"]], "a")],
    ids=["the last", "the middle", "one by one", "from the end", "from the beginning", "at once"],
)  # fmt: skip
async def test_the_decision_before_a_forgotten_one_is_in_force_again(
    daemon: DaemonProcess, sam: Agent, forgotten: list[list[str]], active: str
) -> None:
    former = None
    sessions = {name: f"s{number}" for number, names in enumerate(forgotten) for name in names}
    for name in "abc":
        about = {"event_id": name, "session_id": sessions.get(name, "s")}
        await sam.record(
            f"Paint it {name * 9}", "decision", decision={"supersedes": former}, **about
        )
        former = name
    for number, names in enumerate(forgotten):
        which = ("--tenant", sam.tenant, "--session", f"s{number}")
        done = daemon.run("forget", *which, "--yes").stdout
        assert done.startswith(f"Forgotten, and verified to be gone: {len(names)} events")
    left = set("abc") - sessions.keys()
    for status, names in {"active": {active}, "superseded": left - {active}}.items():
        found = await sam.ask("query_decisions", status=status)
        assert {name for name in "abc" if name * 9 in found} == names
    chain = dict(
        daemon.sql(
            "SELECT decision_id, superseded_by FROM decisions WHERE tenant_id = %s", sam.tenant
        )
    )
    assert chain == {name: min((n for n in left if n > name), default=None) for name in left}


async def test_a_task_whose_last_update_is_forgotten_is_as_before(
    daemon: DaemonProcess, sam: Agent
) -> None:
    late = {"ts": "2020-01-01T00:00:00Z"}  # recorded third all the same
    for event_id, text, task, more in (
        ("1", "Umlauts fail\nin the login", {"status": "open"}, {}),
        ("2", "They are compared", {"status": "doing"}, {}),
        ("3", "In which form?", {"status": "doing", "title": "Mend the login"}, late),
        ("4", "All green", {"status": "done"}, {}),
    ):
        about = {"event_id": event_id, "task": {"task_id": "t", **task}, **more}
        await sam.record(text, "task_update", **about)

    async def without(event_id: str) -> str:
        done = daemon.run("forget", "--tenant", sam.tenant, "--event", event_id, "--yes")
        assert "1 events" in done.stdout, done.stderr  # after a second in a process of its own
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
    fresh: str, empty: Path
) -> None:
    on_fresh = DaemonProcess(empty, dsn=fresh)
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
    on_fresh.stop()
    on_fresh.environment["MEMORY_DAEMON_RETENTION_DAYS"] = "30"
    sam.url = on_fresh.start().url
    log = on_fresh.home / "daemon.log"
    wait_until(lambda: "Forgotten" in log.read_text())
    assert (
        "Forgotten, as recorded more than 30 days ago: 4 events, 4 chunks, 1 decisions, 1 tasks, "
        "0 artifacts." in log.read_text()
    )
    left = on_fresh.sql("SELECT event_id FROM events ORDER BY 1")
    assert left == [("active",), ("doing",), ("late",)]
    bundle = await sam.bundle("What was told late?", session_id="s2")
    assert "Use blue" in bundle and "task unfinished (doing)" in bundle and "Told late" in bundle
    on_fresh.stop()
