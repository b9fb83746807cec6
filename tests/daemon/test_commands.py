"""What the operator of a daemon does: serve, forget, tokens, doctor, upgrades; and what remains."""

import asyncio
import stat
from pathlib import Path

import httpx2
import psycopg
import pytest
from memory_daemon.access import Access
from memory_daemon.database import MIGRATIONS, migrate
from memory_daemon.settings import Refused
from memory_daemon_process import TABLES, Agent, DaemonProcess, one_of_everything, wait_until
from psycopg.conninfo import conninfo_to_dict, make_conninfo


def count(daemon: DaemonProcess, tenant: str) -> dict[str, int]:
    return {
        table: daemon.sql(f"SELECT count(*) FROM {table} WHERE tenant_id = %s", tenant)[0][0]
        for table in TABLES
    }


def refusal(daemon: DaemonProcess, *command: str) -> str:
    """What a command says that fails."""
    refused = daemon.run(*command)
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert refused.stderr.startswith("agent-memory-daemon: ")
    return refused.stderr


async def test_the_first_start_shows_a_token_that_works(daemon: DaemonProcess) -> None:
    token = daemon.started.split("MEMORY_DAEMON_TOKEN=")[1].split()[0]
    assert f'--header "Authorization: Bearer {token}"' in daemon.started
    told = await Agent(daemon.url, token, "default", "auto").record("hello")
    assert told["status"] == "recorded"
    assert token not in daemon.tokens._path.read_text()
    assert stat.S_IMODE(daemon.tokens._path.stat().st_mode) == 0o600


async def test_forget_removes_everything_of_an_event(daemon: DaemonProcess, sam: Agent) -> None:
    async with sam.connected():
        await one_of_everything(sam)
        await sam.record("stays", session_id="s2")
    preview = daemon.run("forget", "--tenant", sam.tenant, "--session", "s1")
    assert "With --yes" in preview.stdout and count(daemon, sam.tenant)["events"] == 4
    done = daemon.run("forget", "--tenant", sam.tenant, "--session", "s1", "--yes")
    assert done.stdout == (
        "Forgotten, and verified to be gone: 3 events, 3 chunks, 1 decisions, 1 tasks, "
        "1 artifacts.\n"
    )
    assert count(daemon, sam.tenant) == dict.fromkeys(TABLES, 0) | {"events": 1, "chunks": 1}
    assert "stays" in await sam.bundle("stays")


async def test_forget_by_event_tag_and_age_and_only_if_told_what(
    daemon: DaemonProcess, sam: Agent
) -> None:
    async with sam.connected():
        one = await sam.record("one")
        await sam.record("two", tags=["scratch"])
        await sam.record("three", event_id="old")
        await sam.record("four")
    daemon.sql(
        "UPDATE events SET ts = ts - interval '40 days' WHERE (tenant_id, event_id) = (%s, 'old')",
        sam.tenant,
    )
    for option in (["--event", one["event_id"]], ["--tag", "scratch"], ["--before", "30d"]):
        done = daemon.run("forget", "--tenant", sam.tenant, *option, "--yes")
        assert "1 events" in done.stdout, done.stderr
    for options in ((), ("--tenant", sam.tenant), ("--tenant", sam.tenant, "--before", "soon")):
        assert refusal(daemon, "forget", *options, "--yes")
    assert count(daemon, sam.tenant)["events"] == 1


async def test_tokens_are_made_listed_and_revoked(daemon: DaemonProcess, tenant: str) -> None:
    made = daemon.run("token", "make", "--tenant", tenant, "--channel", "team")
    agent = Agent(daemon.url, made.stdout.strip(), tenant, "auto")
    assert (await agent.record("hello"))["status"] == "recorded"
    [line] = [line for line in daemon.run("token", "list").stdout.splitlines() if tenant in line]
    assert line.split()[1:] == [tenant, "team", "65000", tenant] and agent.token not in line
    assert daemon.run("token", "revoke", line.split()[0]).returncode == 0
    async with httpx2.AsyncClient() as http:
        answer = await http.post(agent.url, headers={"Authorization": f"Bearer {agent.token}"})
    assert answer.status_code == 401
    assert daemon.run("token", "revoke", "nonsense").returncode == 1


def test_doctor_says_what_is_well_and_what_is_not(daemon: DaemonProcess) -> None:
    beside = DaemonProcess(daemon.home, dsn=daemon.dsn, token="mem_x")  # a client's, and no mistake
    well = beside.run("doctor")
    assert well.returncode == 0 and "PROBLEM" not in well.stdout, well.stdout + well.stderr
    daemon.sql("ALTER TABLE tasks DISABLE ROW LEVEL SECURITY")
    try:
        ill = daemon.run("doctor")
        assert ill.returncode == 1
        assert "PROBLEM row level security is on for every table" in ill.stdout
    finally:
        daemon.sql("ALTER TABLE tasks ENABLE ROW LEVEL SECURITY")


async def test_upgrades_a_filled_database_and_refuses_a_newer_one(fresh: str) -> None:
    await migrate(fresh, upto=1)
    with psycopg.connect(fresh, autocommit=True) as connection:
        connection.execute(
            "SET search_path = memory; INSERT INTO events VALUES ('t', 'e', now(), 's', 'team',"
            " 'agent', 'sam', 'message', 'none', '{}', '{}', '{}', '');"
            "INSERT INTO chunks VALUES ('t', 'e.0', 'e', now(), 's', 'team', 'agent', 'sam',"
            " 'message', 'none', '{}', 1, 0.5, 'an old quokka')"
        )
        await asyncio.gather(*(migrate(fresh) for _ in range(4)))  # as four daemons at once
        connection.execute("SELECT set_config('app.tenant', 't', false)")
        found = connection.execute(
            "SELECT chunk_id::text FROM acb_candidates('quokkas', 'team', 'sam', 0.1)"
        ).fetchall()
        assert found == [("e.0",)]
        versions = connection.execute("SELECT version FROM schema_version ORDER BY 1").fetchall()
        assert versions == [(number + 1,) for number in range(len(MIGRATIONS))]
        connection.execute("INSERT INTO memory.schema_version VALUES (99)")
    with pytest.raises(Refused, match=r"Nothing was changed.*Update agent-memory-daemon"):
        await migrate(fresh)


async def test_says_once_what_to_run_if_it_may_create_neither_a_role_nor_an_extension(
    daemon: DaemonProcess, fresh: str, empty: Path
) -> None:
    name = conninfo_to_dict(fresh)["dbname"]
    user = f"u_{name}"
    daemon.sql(f"CREATE ROLE {user} LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE {name} TO {user}")
    theirs = make_conninfo(fresh, user=user, password="x")
    limited = DaemonProcess(empty, dsn=theirs)
    try:
        with pytest.raises(Refused) as refused:
            await migrate(theirs)
        sql = str(refused.value).split("run: ")[1]
        assert sql.endswith(f'GRANT memory_daemon TO "{user}";')
        daemon.sql(sql.split(";")[1])
        sam = limited.start().agent(Access("t"))  # now it works, by words
        await sam.record("The logo is green", "decision")
        for _ in range(2):
            assert "green" in await sam.ask("query_decisions", query_text="logo")
        limited.stop()
        log = (limited.home / "daemon.log").read_text()
        assert log.count("found by words alone") == 1 and "pgvector" in log
    finally:
        with psycopg.connect(fresh, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {user}".encode())
        daemon.sql(f"REVOKE memory_daemon FROM {user}; DROP ROLE {user}")


UNREADABLE = "MEMORY_DAEMON_DSN cannot be read"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": "0.0.0.0"}, "ALLOWED_HOSTS"),
        ({"port": "many"}, "port"),
        ({"retention_days": "0"}, "retention_days"),
        ({"acb_tokens": "9000"}, "There is no setting MEMORY_DAEMON_ACB_TOKENS"),
        ({"dsn": "host=127.0.0.1 port=1 user=nobody"}, "Connection refused"),
        ({"dsn": "nonsense"}, UNREADABLE),
        ({"dns": "host=127.0.0.1"}, "no setting MEMORY_DAEMON_DNS. Did you mean MEMORY_DAEMON_DSN"),
        ({"dsn": "postgresql://sam:open@sesame@127.0.0.1/db"}, UNREADABLE),
        ({"dsn": "postgresql://sam:open%sesame@127.0.0.1/db"}, UNREADABLE),
        ({"dsn": "host=127.0.0.1 password='open sesame"}, UNREADABLE),
    ],
)
def test_refuses_an_invalid_setting_in_a_sentence_without_a_password(
    empty: Path, settings: dict[str, str], says: str
) -> None:
    said = refusal(DaemonProcess(empty, **settings), "serve")
    assert says in said and "sesame" not in said


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"user": "nobody_known"}, "nobody_known"),
        ({"dbname": "nothing_here"}, '"nothing_here" does not exist'),
        ({"host": "/tmp/no-such-folder"}, "No such file or directory"),
        ({"host": "nowhere.invalid"}, "nowhere.invalid"),
    ],
)
def test_says_the_databases_own_reason_and_no_password(
    daemon: DaemonProcess, empty: Path, wrong: dict[str, str], says: str
) -> None:
    dsn = make_conninfo(daemon.dsn, password="sesame", **wrong)
    said = refusal(DaemonProcess(empty, dsn=dsn), "doctor")
    assert "cannot be reached: " in said and says in said and "sesame" not in said


def test_refuses_what_it_may_not_use_and_leaves_it_alone(
    daemon: DaemonProcess, empty: Path
) -> None:
    port = daemon.url.split(":")[2].split("/")[0]
    second = DaemonProcess(daemon.home, dsn=daemon.dsn, port=port)
    assert f"cannot listen on 127.0.0.1, port {port}" in refusal(second, "serve")
    own = DaemonProcess(empty)  # its database takes seconds to start
    (empty / "postgres").mkdir(parents=True)
    (empty / "postgres/PG_VERSION").write_text("16\n")
    assert "created by PostgreSQL 16" in refusal(own, "doctor")
    assert [path.name for path in (empty / "postgres").iterdir()] == ["PG_VERSION"]
    own.tokens.make(Access("t"))
    (empty / "tokens.json").chmod(0o644)
    assert "chmod 600" in refusal(own, "serve")
    (empty / "file").touch()
    unusable = DaemonProcess(empty / "file/home")
    assert "Set MEMORY_DAEMON_HOME to another" in refusal(unusable, "doctor")


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
