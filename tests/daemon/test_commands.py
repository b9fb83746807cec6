"""What the operator of a daemon does: serve, tokens, forget; and what is said of failures."""

import concurrent.futures
from datetime import UTC, datetime, timedelta

import httpx2
import psycopg
import pytest
from memory_daemon_process import TABLES, Agent, DaemonProcess, one_of_everything
from psycopg.conninfo import conninfo_to_dict, make_conninfo

pytestmark = pytest.mark.timeout(300)  # a slow machine starts a command in several seconds


def count(agent: Agent) -> dict[str, int]:
    """How many rows each table has of its tenant."""
    return {table: len(agent.rows("1", table, "1")) for table in TABLES}


def forget(daemon: DaemonProcess, agent: Agent, *options: str) -> str:
    """What a forget says, in this agent's tenant."""
    done = daemon.run("forget", "--tenant", agent.tenant, *options)
    assert not done.returncode, done.stderr
    return done.stdout


def refusal(daemon: DaemonProcess, *command: str) -> str:
    """What a command says that fails."""
    refused = daemon.run(*command)
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert refused.stderr.startswith("agent-memory-daemon: ")
    return refused.stderr


async def test_the_first_start_shows_a_token_that_works(fresh: str, daemon: DaemonProcess) -> None:
    first = DaemonProcess(daemon.home, dsn=fresh).start()
    try:
        token = first.started.split("MEMORY_DAEMON_TOKEN=")[1].split()[0]
        assert f'--header "Authorization: Bearer {token}"' in first.started
        assert (await Agent(first, token).record("hello"))["status"] == "recorded"
        made = first.sql("SELECT tenant_id, agent, channel, may_rule FROM tokens")
        assert made == [("default", "default", "private", False)]
        assert not first.sql("SELECT 1 FROM tokens t WHERE t::text LIKE %s", f"%{token}%")
        # A second daemon breaks nothing, and shows no token.
        second = DaemonProcess(daemon.home, dsn=fresh).start()
        assert "TOKEN" not in second.started
        second.stop()
        assert "hello" in await Agent(first, token).bundle("hello")
    finally:
        first.stop()


async def test_tokens_are_made_listed_and_revoked(daemon: DaemonProcess, tenant: str) -> None:
    make = ("token", "make", "--tenant", tenant, "--agent")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        more = ("--channel", "team", "--may-rule")
        made = [*pool.map(lambda n: daemon.run(*make, f"a{n}", *more), range(4))]
    tokens = [each.stdout.strip() for each in made]
    listed = daemon.run("token", "list").stdout
    lines = [line for line in listed.splitlines() if tenant in line]
    assert sorted(line.split()[1:4] for line in lines) == [
        [tenant, f"a{n}", "team"] for n in range(4)
    ]
    assert not any(token in listed for token in tokens)
    assert all(line.endswith("may rule") for line in lines)
    for token in tokens:
        assert (await Agent(daemon, token).record("hello"))["status"]
    for line in lines:
        assert daemon.run("token", "revoke", line.split()[0]).returncode == 0
    async with httpx2.AsyncClient() as http:
        for token in tokens:
            answer = await http.post(daemon.url, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401
    assert "No token was made." in refusal(daemon, "token", "make", "--agent", " ")
    assert "Nothing was revoked" in refusal(daemon, "token", "revoke", "nonsense")


async def test_forget_removes_everything_of_an_event(daemon: DaemonProcess, sam: Agent) -> None:
    async with sam.connected():
        await one_of_everything(sam)
        await sam.record("stays", session_id="s2")
    told = forget(daemon, sam, "--session", "s1")
    assert told.startswith("With --yes, 3 events and all") and count(sam)["events"] == 4
    told = forget(daemon, sam, "--session", "s1", "--yes")
    assert told == "Forgotten: 3 events and all that is derived from it.\n"
    assert count(sam) == dict.fromkeys(TABLES, 0) | {"events": 1, "chunks": 1}
    assert "stays" in await sam.bundle("stays")


async def test_forget_by_event_tag_or_age_if_told_what(daemon: DaemonProcess, sam: Agent) -> None:
    async with sam.connected():
        one = await sam.record("one")
        await sam.record("two", tags=["scratch"])
        for name in ("old", "older", "oldest"):
            await sam.record(name, "decision" if name == "older" else "message", event_id=name)
        await sam.record("told late", ts="2020-01-01T00:00:00Z")
    daemon.sql(
        "UPDATE events SET recorded_at = recorded_at - interval '40 days'"
        " WHERE tenant_id = %s AND event_id LIKE 'old%%'",
        sam.tenant,
    )
    day = f"{datetime.now(UTC) - timedelta(days=30):%Y-%m-%d}"
    for options, gone in {
        ("--event", one["event_id"]): 1,
        ("--tag", "scratch"): 1,
        ("--before", "30d", "--not-in-force"): 2,
        ("--before", day): 1,
    }.items():
        assert f"Forgotten: {gone} event" in forget(daemon, sam, *options, "--yes")
    before = ("--tenant", sam.tenant, "--before")
    for options in ((), before[:2], (*before, "soon"), (*before, "9999-12-31T23:59-10:00")):
        assert refusal(daemon, "forget", *options, "--yes")
    for options in (("--tenant", ""), ("--tenant", sam.tenant, "--session", "")):  # of a shell
        said = daemon.run("forget", *options, "--before", "0d", "--yes").stdout
        assert said.startswith("Forgotten: 0 events")
    assert count(sam)["events"] == 1


@pytest.mark.parametrize(
    ("order", "active"), [("c", "b"), ("b", "c"), ("b c", "a"), ("a b", "c"), ("bc", "a")]
)
async def test_the_decision_before_a_forgotten_one_is_in_force_again(
    daemon: DaemonProcess, sam: Agent, order: str, active: str
) -> None:
    """Of a chain; two letters together are forgotten at once."""
    former, forgotten = None, order.split()
    sessions = {name: f"s{number}" for number, names in enumerate(forgotten) for name in names}
    for name in "abc":
        about = {"event_id": name, "decision": {"supersedes": former}}
        await sam.record(f"Paint it {name * 9}", "decision", sessions.get(name, "s"), **about)
        former = name
    for number, names in enumerate(forgotten):
        done = forget(daemon, sam, "--session", f"s{number}", "--yes")
        assert done.startswith(f"Forgotten: {len(names)} event")
    left = set("abc") - sessions.keys()
    for status, names in {"active": {active}, "superseded": left - {active}}.items():
        found = await sam.ask("query_decisions", status=status)
        assert {name for name in "abc" if name * 9 in found} == names
    chain = dict(sam.rows("decision_id, superseded_by", "decisions"))
    assert chain == {name: min((n for n in left if n > name), default=None) for name in left}


async def test_a_task_is_as_the_updates_left_say(daemon: DaemonProcess, sam: Agent) -> None:
    titled = {"status": "doing", "title": "Mend the login"}
    for event_id, text, task, more in (
        ("1", "Umlauts fail\nin the login", {"status": "open"}, {}),
        ("2", "They are compared", {"status": "doing"}, {}),
        ("3", "In which form?", titled, {"ts": "2020-01-01"}),
        ("4", "All green", {"status": "done"}, {}),
    ):
        about = {"event_id": event_id, "task": {"task_id": "t", **task}, **more}
        await sam.record(text, "task_update", **about)

    async def without(event_id: str) -> str:
        assert "1 event and" in forget(daemon, sam, "--event", event_id, "--yes")
        bundle = await sam.bundle("y", session_id="s2")
        return bundle.partition("# Tasks")[2].partition("# Evidence")[0]

    tasks = await without("4")
    assert "task t, doing" in tasks and "Mend the login" in tasks and "In which form?" in tasks
    tasks = await without("3")
    assert "Umlauts fail" in tasks and "They are compared" in tasks and "Mend" not in tasks
    assert "task t, open" in (tasks := await without("2")) and "in the login" in tasks
    assert "task t" not in await without("1")


UNREADABLE = "The DSN cannot be read"


def test_refuses_an_address_in_a_sentence_without_its_password(daemon: DaemonProcess) -> None:
    for dsn, says in (
        ("nonsense", UNREADABLE),
        ("postgresql://sam:open@sesame@127.0.0.1/db", UNREADABLE),
        ("host=127.0.0.1 password='open sesame", UNREADABLE),
        ("host=127.0.0.1 port=1 user=nobody password=sesame", "Connection refused"),
        ({"user": "nobody_known"}, "nobody_known"),
        ({"dbname": "nothing_here"}, '"nothing_here" does not exist'),
    ):
        if isinstance(dsn, dict):
            dsn = make_conninfo(daemon.dsn, password="sesame", **dsn)
        said = refusal(DaemonProcess(daemon.home, dsn=dsn), "token", "list")
        assert says in said and "sesame" not in said


def test_refuses_a_schema_of_others_and_a_port_in_use(daemon: DaemonProcess, fresh: str) -> None:
    with psycopg.connect(fresh) as connection:
        connection.execute("CREATE SCHEMA memory; CREATE TABLE memory.schema_version ()")
    said = refusal(DaemonProcess(daemon.home, dsn=fresh), "serve")
    assert "has a schema `memory` that is not" in said and "another database" in said
    port = daemon.url.split(":")[2].split("/")[0]
    second = DaemonProcess(daemon.home, dsn=daemon.dsn, port=port)
    assert f"cannot listen on 127.0.0.1, port {port}" in refusal(second, "serve")
    assert "--allow-host" in refusal(second, "serve", "--host", "0.0.0.0")


async def test_without_rights_it_says_what_to_run(daemon: DaemonProcess, fresh: str) -> None:
    name = conninfo_to_dict(fresh)["dbname"]
    user = f"u_{name}"
    daemon.sql(f"CREATE ROLE {user} LOGIN PASSWORD 'x'; GRANT CREATE ON DATABASE {name} TO {user}")
    limited = DaemonProcess(daemon.home, dsn=make_conninfo(fresh, user=user, password="x"))
    try:
        sql = refusal(limited, "token", "list").strip().split("run: ")[1]
        assert sql.endswith(f'GRANT memory_daemon TO "{user}";')
        daemon.sql(sql.split(";")[1])
        sam = limited.start().agent("t")  # now it works, by words
        await sam.record("The logo is green", "decision")
        for _ in range(2):
            assert "green" in await sam.ask("query_decisions", query_text="logo")
        limited.stop()
        assert "found by words alone" in (limited.home / "daemon.log").read_text()
    finally:
        with psycopg.connect(fresh, autocommit=True) as connection:
            connection.execute(f"GRANT {user} TO CURRENT_USER".encode())
            connection.execute(f"DROP OWNED BY {user} CASCADE".encode())
        daemon.sql(f"REVOKE memory_daemon FROM {user}; DROP ROLE {user}")


async def test_failures_are_explained_and_reveal_nothing(fresh: str, daemon: DaemonProcess) -> None:
    own = DaemonProcess(daemon.home, dsn=fresh).start()
    try:
        agent, refusals = own.agent("t"), {}
        await agent.record("It is run by npm start", "decision")
        pineapple = {"events": [{"text": "pineapple"}]}
        with psycopg.connect(own.dsn) as connection:
            connection.execute("LOCK TABLE memory.events IN ACCESS EXCLUSIVE MODE")
            refusals["locked"] = await agent.refused("record_event", **pineapple)
        own.sql(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION USING ERRCODE = TG_ARGV[0], MESSAGE = NEW.text; END $$"
        )
        for code in ("53100", "23514", "P0001"):
            own.sql(
                "CREATE OR REPLACE TRIGGER t BEFORE INSERT ON chunks FOR EACH ROW"
                f" EXECUTE FUNCTION broken('{code}')"
            )
            refusals[code] = await agent.refused("record_event", **pineapple)
        unchanged, later = "Nothing was recorded or changed.", "Try again later."
        cannot = "The database cannot do this (SQLSTATE P0001): ask its operator."
        assert refusals == {
            "locked": f"{unchanged} The database took longer than 5 seconds. {later}",
            "53100": f"{unchanged} The database's disk is full. Make room on it. {later}",
            "23514": f"{unchanged} The database refused this (SQLSTATE 23514).",
            "P0001": f"{unchanged} {cannot} {later}",
        }
        assert own.sql("SELECT count(*) FROM events") == [(1,)]
        [(search,)] = own.sql("SELECT pg_get_functiondef('find'::regproc)")
        own.sql(search.replace("BEGIN", "BEGIN PERFORM pg_sleep(30);", 1))
        bundle = await agent.bundle("how is it run")
        assert "npm start" in bundle and "The search took too long" in bundle
    finally:
        own.stop()
    assert "pineapple" not in (own.home / "daemon.log").read_text()
