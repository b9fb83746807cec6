"""What is found, and that searches stay fast."""

import psycopg
import pytest
from memory_daemon.access import Access
from memory_daemon_process import Agent, DaemonProcess

pytestmark = pytest.mark.timeout(300)  # a slow machine writes the rows in a minute
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
