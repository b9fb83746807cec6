"""What a bundle holds, in which order, what it shows of each event; what is found, and how fast."""

import re

import psycopg
import pytest
from memory_daemon.access import Access
from memory_daemon_process import Agent, DaemonProcess

pytestmark = pytest.mark.timeout(300)  # a slow machine writes the rows in a minute


async def decide(sam: Agent, text: str, **arguments: object) -> str:
    told = await sam.record(text, "decision", channel="team", **arguments)
    return told["event_id"]


# What was replaced


async def test_a_superseded_decision_is_left_out_unless_the_intent_is_history_or_to_decide(
    sam: Agent,
) -> None:
    old = await decide(sam, "The database is MySQL with the quokka plugin")
    new = await decide(sam, "The database is PostgreSQL", decision={"supersedes": old})
    for session in ("s1", "s2"):  # as what was said last, and as evidence
        bundle = await sam.bundle("Which database has the quokka plugin?", session_id=session)
        assert "PostgreSQL" in bundle and "MySQL" not in bundle
    packet = await sam.ask("create_handoff_packet", to_agent="eve", note="go on")
    assert new in packet and "MySQL" not in packet
    for intent in ("history", "decide"):
        bundle = await sam.bundle("database", session_id="s2", intent=intent)
        first, second = bundle.index(new), bundle.index(f"## decision (project, superseded) {old}")
        assert "decisions 2" in bundle and first < second, intent


async def test_a_superseded_decision_without_the_newer_one_says_by_what(
    daemon: DaemonProcess, sam: Agent
) -> None:
    old = await decide(sam, "The database is MySQL with the quokka plugin", session_id="a")
    same = await sam.record("The quokka plugin is fast", channel="team", session_id="b")
    new = await decide(
        sam,
        "It is something else",
        sensitivity="high",
        decision={"supersedes": old},
        session_id="c",
    )
    newest = await decide(
        sam, "It is PostgreSQL", sensitivity="high", decision={"supersedes": new}, session_id="d"
    )
    bundle = await sam.bundle("database quokka plugin", session_id="s2", channel="team")
    assert re.search(
        rf"## decision {old} .*, superseded by {newest} on \d{{4}}-\d\d-\d\d\n", bundle
    )
    assert bundle.index(same["event_id"]) < bundle.index(old)


async def test_a_finished_task_is_not_shown_and_what_was_said_of_it_is_marked(sam: Agent) -> None:
    for status, text in (("doing", "The quokka login fails"), ("done", "It works")):
        task = {"task_id": "login", "status": status, "title": "Mend the login"}
        told = await sam.record(text, "task_update", task=task, channel="team", session_id=status)
        bundle = await sam.bundle("quokka login", session_id="s2")
        assert ("tasks 1" in bundle) == (status == "doing")
    heading = r"## task_update \w+ .*, task login, done on \d{4}-\d\d-\d\d\n```\nThe quokka"
    assert re.search(heading, bundle) or told["event_id"] in bundle
    assert ("It works" in bundle) != bool(re.search(heading, bundle))


# What is shown of an event


async def test_it_shows_who_recorded_a_rule_or_a_task_and_where(sam: Agent) -> None:
    await sam.record(
        "Always deploy", "decision", actor_type="tool", channel="team", sensitivity="low",
        tags=["ops"], decision={"scope": "global"},
    )  # fmt: skip
    await sam.record("Do", "task_update", actor_type="human", channel="team", task={"task_id": "t"})
    bundle = await sam.bundle("x", session_id="s2")
    assert re.search(
        r"\(global, active\) .* tool \(by sam\), session s1, team, sensitivity low, tags ops\n",
        bundle,
    )
    assert re.search(r"## task t \(open\) .* human \(by sam\), session s1, team\n", bundle)
    assert "You are agent sam in session s2" in bundle.split("# Tasks")[0]


async def test_a_handoff_holds_what_its_receiver_may_see_and_comes_up_by_itself(
    daemon: DaemonProcess, sam: Agent
) -> None:
    await sam.record("my private quokka", channel="private")
    await sam.record("a confidential quokka", channel="team", sensitivity="high")
    task = {"task_id": "t", "status": "doing", "title": "Mend the login"}
    update = await sam.record("It fails for names with umlauts", "task_update", task=task)
    decision = await sam.record("Names are compared in NFC", "decision")
    packet = await sam.ask("create_handoff_packet", to_agent="eve", note="The tests are green")
    for part in ("The tests are green", "Mend the login", "umlauts", "NFC", "from sam to eve"):
        assert part in packet
    assert "quokka" not in packet
    [(to, refs)] = daemon.sql(
        "SELECT to_agent, refs FROM events WHERE tenant_id = %s AND to_agent IS NOT NULL",
        sam.tenant,
    )
    assert to == "eve" and {*refs} == {update["event_id"], decision["event_id"]}
    seen = await sam.bundle("else", agent_id="eve", session_id="s9", channel="agent")
    handed = seen.split("# Handoffs")[1]
    assert "Handoff from sam to eve: The tests are green" in handed and "umlauts" in seen
    assert "# Handoffs" not in await sam.bundle("something else", agent_id="kim", session_id="s8")


# What is found


async def test_a_file_is_found_by_its_name(sam: Agent) -> None:
    text = "services:\n  db:\n    image: postgres:18\n"
    await sam.record(text, "tool_result", refs=["packages/shop/compose.yaml"], session_id="a")
    for n in range(3):
        said = [{"kind": "message", "text": f"What does it do? Line {n}, {m}"} for m in range(10)]
        await sam.ask("record_event", events=said, session_id=f"b{n}")
    for question in ("What does compose.yaml do?", "Explain the compose file"):
        bundle = await sam.bundle(question, session_id="s2", max_tokens=1_000)
        assert bundle.split("# Evidence")[1].index("postgres:18") < 300, question


async def test_a_hit_brings_what_was_said_before_and_after_it(sam: Agent) -> None:
    async with sam.connected():
        for n in range(9):
            said = "The quokka is loose" if n == 4 else f"{'abcdefghi'[n] * 9}"
            await sam.record(said, session_id="a")
    bundle = await sam.bundle("quokka", session_id="s2", max_tokens=1_000)
    evidence = bundle.split("# Evidence")[1]
    assert re.findall(r"\b([abcdefghi])\1{8}\b", evidence)[:4] in (
        ["d", "f", "c", "g"], ["f", "d", "g", "c"], ["f", "d", "c", "g"], ["d", "f", "g", "c"]
    )  # fmt: skip


async def test_no_file_takes_more_than_a_third_while_others_wait(sam: Agent) -> None:
    texts = [f"quokka quokka {n} " + f"word{n} " * 150 for n in range(12)]
    events = [{"kind": "tool_result", "text": text, "refs": ["big.md"]} for text in texts]
    await sam.ask("record_event", events=events, session_id="a")
    other = await sam.record(
        "A quokka, once, among much else: " + "zebra " * 100, refs=["small.md"], session_id="b"
    )
    packed = await sam.bundle("quokka", session_id="s2", max_tokens=4_000)
    evidence = packed.split("# Evidence")[1]
    before = evidence.split(other["event_id"])[0]
    assert other["event_id"] in evidence and 1 <= before.count("[big.md]") <= 5
    assert evidence.count("[big.md]") > before.count("[big.md]")  # the room that was left


async def test_a_time_that_the_question_names_is_looked_up(
    daemon: DaemonProcess, sam: Agent
) -> None:
    then = await sam.record("zebra", session_id="a")
    for n in range(3):
        await sam.record(f"giraffe {n}", session_id=f"b{n}")
    for question, days in {
        "What was decided 3 days ago?": 3,
        "What was done 40 days ago?": 40,
    }.items():
        daemon.sql(
            "UPDATE chunks SET ts = CASE WHEN event_id = %s THEN now() - make_interval(days => %s)"
            " ELSE now() - interval '100 days' END WHERE tenant_id = %s",
            then["event_id"], days, sam.tenant,
        )  # fmt: skip
        bundle = await sam.bundle(question, session_id="c")
        found = re.findall(r"^## message (\w+)", bundle, re.MULTILINE)
        assert found and found[0] == then["event_id"], question


async def test_tags_say_what_a_bundle_and_decisions_are_about(sam: Agent) -> None:
    for tags, what in ((["ops", "eu"], "Berlin"), (["ops"], "Boston")):
        await sam.record(f"The quokka server is in {what}", tags=tags, session_id=what)
        await decide(sam, f"We deploy to {what}", tags=tags)
    await decide(sam, "Answer in English", decision={"scope": "global"})
    bundle = await sam.bundle("quokka server deploy", session_id="s2", tags=["ops", "eu"])
    assert "Berlin" in bundle and "Boston" not in bundle and "Answer in English" in bundle
    found = await sam.ask("query_decisions", query_text="deploy", tags=["eu"])
    assert "Berlin" in found and "Boston" not in found


async def test_an_intent_changes_what_gets_room(sam: Agent) -> None:
    for n in range(3):
        events = [
            {"kind": kind, "text": f"{name} {n} {m}: " + f"word{n}{m} " * 100}
            for m in range(10)
            for kind, name in (("decision", "Rule of the house"), ("message", "Talk"))
        ]
        await sam.ask("record_event", events=events)

    async def counts(intent: str) -> dict[str, int]:
        bundle = await sam.bundle("house", intent=intent, max_tokens=8_000)
        found = re.findall(r"(\w+) (\d+)[,;]", bundle.splitlines()[0])
        return {name: int(number) for name, number in found}

    usual = await counts("")
    assert (await counts("decide"))["decisions"] > usual["decisions"]
    assert (await counts("continue"))["recent"] > usual["recent"]
    assert (await counts("answer"))["recent"] < usual["recent"]
    assert await counts("whatever it is") == usual


# By meaning, where the database has pgvector


@pytest.fixture(scope="module")
def meaning(daemon: DaemonProcess) -> str:
    """The model of the vectors, or "" where the server of these tests has no pgvector."""
    found = daemon.sql(
        "SELECT col_description('chunks'::regclass, attnum) FROM pg_attribute WHERE attname ="
        " 'embedding' AND attrelid = 'chunks'::regclass"
    )
    return found[0][0] if found else ""


async def test_other_words_find_it_where_the_database_knows_vectors(
    daemon: DaemonProcess, sam: Agent, meaning: str
) -> None:
    invoices = [{"kind": "message", "text": f"Invoice number {n} was paid"} for n in range(20)]
    await sam.record("The physician gave me pills for the headache", session_id="a0")
    await sam.record("Tickets for the opera are sold out", session_id="a1")
    await sam.ask("record_event", events=invoices, session_id="b")
    bundle = await sam.bundle("Which medicine did the doctor prescribe?", session_id="s2")
    assert ("physician" in bundle) == bool(meaning)
    if meaning:
        count = "SELECT count(embedding) FROM chunks WHERE tenant_id = %s"
        assert daemon.sql(count, sam.tenant) == [(22,)] and "wordllama" in meaning


ROWS = 20_000


@pytest.fixture(scope="module")
def crowd(daemon: DaemonProcess) -> str:
    """A tenant with 20,000 chunks of common words; one in a thousand also has a rare word."""
    tenant = "crowd"
    daemon.sql(
        "INSERT INTO events (tenant_id, event_id, session_id, channel, actor_type, actor_id, kind,"
        " content, request_hash, ts) SELECT %s, 'e' || n, 's', 'team', 'agent', 'sam', 'message',"
        " '{}', '', now() - n * interval '1 minute' FROM generate_series(1, %s) n",
        tenant, ROWS,
    )  # fmt: skip
    daemon.sql(
        "INSERT INTO chunks (tenant_id, chunk_id, event_id, ts, session_id, channel, actor_type,"
        " actor_id, kind, sensitivity, token_est, importance, text) SELECT tenant_id, event_id ||"
        " '.0', event_id, ts, session_id, channel, actor_type, actor_id, kind, sensitivity, 9, 0.5,"
        " 'the server builds and tests the project, number ' || event_id || CASE WHEN"
        " substr(event_id, 2)::int %% 1000 = 0 THEN ' quokka' ELSE '' END"
        " FROM events WHERE tenant_id = %s",
        tenant,
    )
    daemon.sql("VACUUM ANALYZE chunks")
    return tenant


async def test_the_search_uses_the_index_on_words(daemon: DaemonProcess, crowd: str) -> None:
    def scans() -> int:
        with psycopg.connect(daemon.dsn) as connection:
            found = connection.execute(
                "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'chunks_words'"
            ).fetchone()
            assert found
            return found[0]

    before = scans()
    with psycopg.connect(daemon.dsn) as connection:
        connection.execute("SET search_path = memory; SET LOCAL ROLE memory_daemon")
        connection.execute("SELECT set_config('app.tenant', %s, true)", [crowd])
        found = connection.execute(
            "SELECT text FROM chunks JOIN acb_candidates('where is a quokka', 'team', 'sam', 0.1)"
            " USING (chunk_id) WHERE by_words > 0"
        ).fetchall()
        assert len(found) == ROWS / 1_000 and all("quokka" in row[0] for row in found)
        connection.execute("RESET ROLE; SELECT pg_stat_force_next_flush()")
    assert scans() > before


async def test_a_hard_question_is_answered_in_time(daemon: DaemonProcess, crowd: str) -> None:
    for question, evidence in {
        "the server tests the project": "evidence 200",  # common words
        " ".join(f"word{n}" for n in range(1_100)): "evidence 0",
    }.items():
        bundle = await daemon.agent(Access(crowd)).bundle(question, session_id="s2")
        assert evidence in bundle and "took too long" not in bundle


async def test_evidence_is_found_by_words_of_any_language(sam: Agent) -> None:
    text = "이 저장소는 씨앗 가게의 웹사이트입니다. PostgreSQL을 데이터베이스로 사용합니다."
    await sam.record(text)
    await sam.record("오늘 날씨가 좋습니다.", session_id="s3")  # not a neighbour of it
    for question in (
        "Why does my unrelated PostgreSQL break?",  # one matching word is enough
        "저장소의 데이터베이스는 무엇인가요?",
    ):
        bundle = await sam.bundle(question, session_id="s2")
        assert "씨앗 가게의 웹사이트" in bundle and "날씨가" not in bundle, question


async def test_decisions_are_found_by_their_meaning_and_rules_stand_apart(sam: Agent) -> None:
    async with sam.connected():
        for text in (
            "We chose PostgreSQL for the users table",
            "Sessions end after fifteen minutes without a click",
            "The logo is green",
            "결제는 하나의 서비스에서만 처리한다",
        ):
            await sam.record(text, "decision")
        nearest = await sam.ask("query_decisions", query_text="Which database was picked?", limit=1)
        assert "PostgreSQL" in nearest
        nearest = await sam.ask("query_decisions", query_text="결제 서비스는 어디서?", limit=1)
        assert "결제는" in nearest
        newest = await sam.ask("query_decisions", limit=1)
        assert "결제는" in newest
        await sam.record("Answer in British English", "decision", decision={"scope": "global"})
    rules, rest = (await sam.bundle("anything")).split("# Decisions")
    assert "British" in rules and "logo" in rest and "British" not in rest
    assert "logo" not in await sam.ask("query_decisions", scope="global")


async def test_prefers_newer_events_only_if_asked_what_is_new(
    daemon: DaemonProcess, sam: Agent
) -> None:
    old = await sam.record("deploy deploy deploy failed with the quokka error", session_id="a")
    new = await sam.record("deploy failed", session_id="b")
    daemon.make_old(sam, old["event_id"])
    for question, newest_first in {
        "deploy quokka failed in the history of this": False,
        "deploy quokka failed": False,
        "deploy failed today": True,
        "deploy newest": True,
        "deploy neueste": True,
        "deploy plus récent": True,
        "deploy 最新": True,
    }.items():
        bundle = await sam.bundle(question, session_id="c")
        order = bundle.index(new["event_id"]) < bundle.index(old["event_id"])
        assert order == newest_first, question


async def test_a_long_message_is_cut_at_blank_lines_and_kept_whole(
    daemon: DaemonProcess, sam: Agent
) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "Some words of it. " * 40 for n in range(60))
    told = await sam.record(text)
    assert told["chunks"] == 8 and told["artifact_id"]
    rows = daemon.sql("SELECT text FROM chunks WHERE tenant_id = %s ORDER BY chunk_id", sam.tenant)
    assert all(len(row[0]) <= 3_100 for row in rows)
    assert rows[1][0].startswith("Paragraph") and "Paragraph 59" in rows[7][0]
    page = await sam.ask("get_artifact", artifact_id=told["event_id"], max_chars=100_000)
    assert page.split("\n", 1)[1] == text
