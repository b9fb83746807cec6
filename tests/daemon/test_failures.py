"""When something breaks, the caller gets a sentence, and nothing is half written."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from memory_daemon import upkeep
from memory_daemon.access import Access
from memory_daemon_process import DaemonProcess, wait_until

pytestmark = pytest.mark.timeout(300)  # a slow machine starts its daemons in a minute


@pytest.fixture
def own(empty: Path) -> Iterator[DaemonProcess]:
    """A daemon with its own embedded database, which a test may break."""
    daemon = DaemonProcess(empty).start()
    yield daemon
    if daemon.process.poll() is None:
        daemon.stop()


def postmaster(daemon: DaemonProcess) -> int:
    return int((daemon.home / "postgres/postmaster.pid").read_text().split()[0])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


async def test_recorded_events_survive_kill_9_of_the_database_and_of_the_daemon(
    own: DaemonProcess,
) -> None:
    agent = own.agent(Access("t"))
    told = await agent.record("remember this")
    server = postmaster(own)
    os.kill(server, signal.SIGKILL)
    deadline = time.monotonic() + 30
    answered, text = await agent.call("build_acb", query_text="remember this")
    while not answered and time.monotonic() < deadline:
        assert text.startswith("Nothing was recorded or changed. The database")
        answered, text = await agent.call("build_acb", query_text="remember this")
    assert told["event_id"] in text and postmaster(own) != server

    server = postmaster(own)
    own.stop(signal.SIGKILL)
    wait_until(lambda: not alive(server))  # no server is left behind
    own.start()
    agent.url = own.url
    assert told["event_id"] in await agent.bundle("remember this")

    server = postmaster(own)
    own.process.send_signal(signal.SIGSTOP)  # else the server would be stopped, or started again
    os.kill(server, signal.SIGKILL)
    own.stop(signal.SIGKILL)
    wait_until(lambda: not alive(server))
    with socket.create_server(("127.0.0.1", 0)) as free:
        own.environment["MEMORY_DAEMON_PORT"] = str(free.getsockname()[1])
    doctor = own.run("doctor")
    assert doctor.returncode == 0 and "was killed. PostgreSQL recovers" in doctor.stderr
    assert "no daemon listens" in doctor.stdout and "serve starts it" in doctor.stdout


async def test_explains_a_stopped_database(own: DaemonProcess, empty: Path) -> None:
    second = DaemonProcess(empty.with_name("second"), dsn=own.dsn).start()  # starts take seconds
    try:
        agent = second.agent(Access("t"))
        await agent.record("before")
        own.stop()
        refusal = await agent.refused("record_event", text="x")
        assert refusal == (
            "Nothing was recorded or changed. The database does not answer. Try again in a moment."
        )
        own.start()
        wait_until(lambda: own.sql("SELECT 1"))
        assert (await agent.record("after"))["status"] == "recorded"
    finally:
        second.stop()


async def test_a_failure_is_explained_reveals_nothing_and_leaves_nothing_half_written(
    own: DaemonProcess,  # to start a PostgreSQL of its own takes seconds
) -> None:
    agent = own.agent(Access("t"))
    await agent.record("It is run by npm start", "decision")
    refusals = {}
    with psycopg.connect(own.dsn) as connection:
        connection.execute("LOCK TABLE memory.events IN ACCESS EXCLUSIVE MODE")
        refusals["locked"] = await agent.refused("record_event", text="pineapple")
    own.sql(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION USING ERRCODE = TG_ARGV[0], MESSAGE = NEW.text; END $$"
    )
    for code in ("53100", "P0001"):
        own.sql(
            "CREATE OR REPLACE TRIGGER t BEFORE INSERT ON chunks FOR EACH ROW"
            f" EXECUTE FUNCTION broken('{code}')"
        )
        refusals[code] = await agent.refused("record_event", text="pineapple")
    unchanged = "Nothing was recorded or changed."
    assert refusals == {
        "locked": f"{unchanged} The database took longer than 5 seconds.",
        "53100": f"{unchanged} The database's disk is full. Make room on it.",
        "P0001": f"{unchanged} The database refused this (SQLSTATE P0001).",
    }
    assert own.sql("SELECT count(*) FROM events") == [(1,)]

    [(search,)] = own.sql("SELECT pg_get_functiondef('acb_candidates'::regproc)")
    of_everything = "BEGIN IF these IS NULL THEN PERFORM pg_sleep(30); END IF;"
    own.sql(search.replace("BEGIN", of_everything, 1))
    bundle = await agent.bundle("how is it run")
    assert "npm start" in bundle and "took too long: this bundle has none" in bundle
    own.stop()
    assert "pineapple" not in (own.home / "daemon.log").read_text()


async def test_what_is_forgotten_is_in_no_file_of_a_table_or_it_says_why(
    own: DaemonProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def found() -> bool:
        own.sql("CHECKPOINT")
        files = [path for path in (own.home / "postgres/base").rglob("*") if path.is_file()]
        return any(b"xylozwk" in path.read_bytes() for path in files)

    agent = own.agent(Access("t"))
    task = {"task_id": "t", "title": "xylozwk"}
    await agent.record("xylozwk", "decision", decision={"rationale": ["xylozwk"]})
    await agent.record("xylozwk", "task_update", task=task, refs=["xylozwk.md"], tags=["xylozwk"])
    await agent.record("a xylozwk\n" * 2_000, "tool_result")
    await agent.record("hello", session_id="s2")
    own.sql("ANALYZE")  # keeps samples of each column
    assert found()
    assert "verified" in own.run("forget", "--session", "s1", "--yes").stdout
    assert not found()
    monkeypatch.setattr(upkeep, "_ONLOOKERS_SECONDS", 1)
    with psycopg.connect(own.dsn) as onlooker:
        onlooker.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT now()")
        assert (await upkeep.forget(own.dsn, {"session": "s2"}))["events"] == 1
    assert "Another transaction is open" in caplog.text and "run VACUUM FULL" in caplog.text


async def test_two_daemons_can_use_one_embedded_database(own: DaemonProcess, empty: Path) -> None:
    second = DaemonProcess(empty).start()
    told = await own.agent(Access("t")).record("shared")
    other = second.agent(Access("t"))
    assert told["event_id"] in await other.bundle("shared")
    own.stop()  # this stops the database that both use
    answers = [await other.call("build_acb", query_text="shared") for _ in range(10)]
    assert answers[-1][0]
    second.stop()
