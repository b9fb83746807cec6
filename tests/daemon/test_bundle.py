"""What a bundle holds, in which order, what it shows of each event; what is found, and how fast."""

import re

import bpe_openai
import pytest
from memory_daemon_process import Agent, DaemonProcess
from memory_semantic import estimate_tokens
from processes import wait_until

pytestmark = pytest.mark.timeout(300)  # a slow machine writes the rows in a minute


async def decide(sam: Agent, text: str, session_id: str = "s1", **fields: object) -> str:
    return (await sam.record(text, "decision", session_id, **fields))["event_id"]


def evidence(bundle: str) -> str:
    return bundle.partition("# Evidence")[2]


async def test_a_superseded_decision_is_left_out_unless_history_is_asked_for(sam: Agent) -> None:
    old = await decide(sam, "The database is MySQL with the quokka plugin")
    new = await decide(sam, "The database is PostgreSQL", decision={"supersedes": old})
    for session in ("s1", "s2"):  # as what was said last, and as evidence
        bundle = await sam.bundle("Which database has the quokka plugin?", session_id=session)
        assert "PostgreSQL" in bundle and "MySQL" not in bundle
    asked = {"intent": "history"}, {"intent": "decide"}, {"question": "Which was it originally?"}
    for question in asked:
        bundle = await sam.bundle(**{"question": "database", "session_id": "s2", **question})
        first, second = bundle.index(new), bundle.index(f"## decision {old}")
        assert f"superseded by {new}" in bundle and first < second, question
    assert "MySQL" not in await sam.ask("query_decisions", query_text="database")
    assert "MySQL" in await sam.ask("query_decisions", status="superseded")
    again = {"kind": "decision", "text": "no", "decision": {"supersedes": old}}
    assert "no active decision" in await sam.refused("record_event", events=[again])


async def test_a_decision_that_contradicts_another_is_told_of_it(sam: Agent, eve: Agent) -> None:
    old = await decide(sam, "We chose MySQL for the users table")
    await decide(sam, "The logo is green")
    told = await eve.record("We chose PostgreSQL for the users table", "decision")
    assert told["near"] == {"event_id": old, "text": "We chose MySQL for the users table"}
    for unrelated in (
        {"text": "Lunch is at noon"},
        {"text": "We chose Oracle for the users table", "decision": {"scope": "user"}},
        {"text": "We chose SQLite for the users table", "decision": {"supersedes": old}},
    ):
        assert "near" not in await eve.record(kind="decision", **unrelated), unrelated
    await sam.record("Bob gets a raise in May", "decision", channel="private")
    assert "near" not in await eve.record("Bob gets a raise in June", "decision")


async def test_a_finished_task_is_no_open_task_and_its_older_updates_say_so(sam: Agent) -> None:
    for status, text in (("doing", "The quokka login fails"), ("done", "It works")):
        task = {"task_id": "login", "status": status, "title": "Mend the login"}
        await sam.record(text, "task_update", status, task=task)
        bundle = await sam.bundle("quokka login", session_id="s2")
        assert ("tasks 1" in bundle) == (status == "doing")
    assert re.search(r"task login, doing, now done\n```\n(Mend the login\n)?The quokka", bundle)


async def test_it_shows_who_recorded_it_where_and_why_it_is_there(sam: Agent) -> None:
    about = {"actor_type": "human", "actor_id": "ana", "sensitivity": "low", "tags": ["ops"]}
    await decide(sam, "Always deploy", decision={"scope": "user"}, **about)
    await sam.record("a quokka", name="a.png", kind="artifact", refs=["https://store/a.png"])
    bundle = await sam.bundle("quokka", session_id="s2", explain=True)
    assert "You are agent sam in session s2, asking on channel private" in bundle
    facts = "(by sam), team, sensitivity low, tags ops, scope user, why: rules, by time\n"
    assert f"Z human ana {facts}" in bundle
    why = r"why: evidence, N = words N \+ meaning N \+ newness N \+ importance N \+ neighbours"
    why = why.replace("N", r"\d\.\d\d")
    assert re.search(rf"artifact .*, file a\.png, whole: get_artifact, {why}", bundle)
    found = evidence(await sam.bundle("Where is a.png?", session_id="s2"))
    assert "a quokka\n[https://store/a.png]" in found
    assert "why:" not in await sam.bundle("quokka", session_id="s2")


async def test_a_handoff_finds_its_receiver(daemon: DaemonProcess, sam: Agent, eve: Agent) -> None:
    await sam.record("my private quokka", channel="private")
    await sam.record("a confidential quokka", sensitivity="high")
    task = {"task_id": "t", "status": "doing", "title": "Mend the login"}
    update = await sam.record("It fails for names with umlauts", "task_update", task=task)
    decision = await decide(sam, "Names are compared in NFC")
    packet = await sam.ask("create_handoff_packet", to_agent="eve", note="The tests are green")
    for part in ("The tests are green", "Mend the login", "umlauts", "NFC", "from sam to eve"):
        assert part in packet
    assert "quokka" not in packet
    [(to, refs)] = [row for row in sam.rows("to_agent, refs", "events") if row[0]]
    assert to == "eve" and {*refs} == {update["event_id"], decision}
    handed = (await eve.bundle("else", session_id="s9")).split("# Handoffs")[1]
    assert "Handoff from sam to eve: The tests are green" in handed
    daemon.sql("UPDATE events SET ts = ts - interval '8 days' WHERE tenant_id = %s", sam.tenant)
    assert "# Handoffs" not in await eve.bundle("else", session_id="s9")
    kim = daemon.agent(sam.tenant, "kim")
    assert "# Handoffs" not in await kim.bundle("something else", session_id="s8")
    for n in range(3):
        words = [{"text": f"Word {i} of session {n}, as it was said."} for i in range(30)]
        await sam.ask("record_event", session_id=f"h{n}", events=words)
        given = {"session_id": f"h{n}", "to_agent": "kim", "note": f"Note {n}."}
        await sam.ask("create_handoff_packet", **given)
    handed = (await kim.bundle("else", session_id="s8", max_tokens=6_000)).split("# Handoffs")[1]
    assert all(f"Note {n}." in handed.split("\n# ")[0] for n in range(3))
    refusal = await sam.refused("create_handoff_packet", to_agent="evee")
    assert "There is no agent evee. The agents are: eve, kim, sam." in refusal
    narrow = daemon.agent(sam.tenant, "narrow", channel="team")
    await sam.ask("create_handoff_packet", to_agent="narrow", note="quokkas wait")
    assert "quokkas wait" in await narrow.bundle("else", session_id="s9")


async def test_a_file_is_found_by_its_name(sam: Agent) -> None:
    text = "services:\n  db:\n    image: postgres:18\n"
    await sam.record(text, "tool_result", "a", refs=["packages/shop/compose.yaml"])
    await sam.record("quokkas, by month", "artifact", "c", name="nightly/report.csv")
    for n in range(3):
        await sam.say((f"What does it do? Line {n}, {m}" for m in range(10)), f"b{n}")
    for question, text in {
        "What does compose.yaml do?": "postgres:18",
        "Explain the compose file": "postgres:18",
        "Open report.csv": "quokkas, by month",
    }.items():
        bundle = await sam.bundle(question, session_id="s2", max_tokens=1_000)
        assert evidence(bundle).index(text) < 300, question


async def test_a_hit_brings_what_was_said_before_and_after_it(sam: Agent) -> None:
    async with sam.connected():
        for n in range(9):
            said = "The quokka is loose" if n == 4 else f"{'abcdefghi'[n] * 9}"
            await sam.record(said, session_id="a")
    found = evidence(await sam.bundle("quokka", session_id="s2", max_tokens=1_000))
    order = re.findall(r"\b([abcdefghi])\1{8}\b", found)[:4]
    assert {*order[:2]} == {"d", "f"} and {*order[2:]} == {"c", "g"}


@pytest.mark.parametrize("session", ["other", "noise"])
async def test_what_is_said_300_times_counts_once(sam: Agent, session: str) -> None:
    answer = "The quokka server restarts at night because its certificate is renewed"
    await sam.record(f"{answer}, as Ana found out", session_id=session)
    words = ("again", "still", "today", "as before", "sadly")
    noise = [
        f"Why does the quokka server restart at night? Asked {words[n % 5]} at {n % 24}:{n % 60}, "
        f"request {n * 7919} of the quokka server's nightly report" + " with no answer" * 80
        for n in range(300)
    ]
    for start in range(0, 300, 100):
        await sam.say(noise[start : start + 100], "noise")
    question = "Why does the quokka server restart at night?"
    for max_tokens in (16_000, 65_000):
        assert answer in await sam.bundle(question, session_id="s2", max_tokens=max_tokens)


async def test_a_bundle_is_filled_and_keeps_to_its_budget_by_a_real_tokenizer(sam: Agent) -> None:
    for n in range(4):
        await sam.say((f"w{n}x{m} " * 40 for m in range(100)), f"s{n}")
    for limit in (500, 1_000, 2_000, 16_000, 65_000):
        bundle = await sam.bundle("quokka", session_id="s9", max_tokens=limit)
        used = int(re.findall(r"about ([\d,]+) of", bundle)[0].replace(",", ""))
        counted = len(bpe_openai.get_encoding("o200k_base").encode(bundle))
        assert counted <= used <= limit and estimate_tokens(bundle) <= used
        assert used > 0.9 * limit or limit < 2_000


async def test_tags_say_what_a_bundle_and_decisions_are_about(sam: Agent) -> None:
    for tags, what in ((["ops", "eu"], "Berlin"), (["ops"], "Boston")):
        await sam.record(f"The quokka server is in {what}", tags=tags, session_id=what)
        await decide(sam, f"We deploy to {what}", tags=tags)
    await decide(sam, "Answer in English", decision={"scope": "user"})
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
        found = re.findall(r"(\w+) (\d+)[,.]", bundle.splitlines()[0])
        return {name: int(number) for name, number in found}

    usual = await counts("")
    assert (await counts("decide"))["decisions"] > usual["decisions"]
    assert (await counts("continue"))["recent"] > usual["recent"]
    assert (await counts("answer"))["recent"] < usual["recent"]
    assert await counts("whatever it is") == usual


async def test_newness_counts_where_it_is_asked_for(daemon: DaemonProcess, sam: Agent) -> None:
    old = await sam.record("deploy deploy deploy failed with the quokka error", session_id="a")
    new = await sam.record("deploy failed", session_id="b")
    daemon.sql(
        "UPDATE chunks SET ts = ts - interval '300 days' WHERE (tenant_id, event_id) = (%s, %s)",
        *(sam.tenant, old["event_id"]),
    )
    for question, newest_first in {
        "deploy quokka failed in the history of this": False,
        "deploy quokka failed": False,
        "deploy failed today": True,
        "deploy newest": True,
    }.items():
        bundle = await sam.bundle(question, session_id="c")
        order = bundle.index(new["event_id"]) < bundle.index(old["event_id"])
        assert order == newest_first, question
    bundle = await sam.bundle("deploy history", session_id="c", explain=True)
    assert bundle.count("newness 0.00") == 2


@pytest.fixture(scope="module")
def meaning(daemon: DaemonProcess) -> bool:
    """Whether the server of these tests has pgvector."""
    return bool(daemon.sql("SELECT 1 FROM pg_attribute WHERE attname = 'embedding'"))


async def test_other_words_find_it_if_the_database_knows_vectors(sam: Agent, meaning: bool) -> None:
    await sam.record("The physician gave me pills for the headache", session_id="a0")
    for n in range(20):
        await sam.say([f"Invoice number {n} was paid by the customer" * 9], f"b{n}")
    question = "Which medicine did the doctor prescribe?"
    bundle = await sam.bundle(question, session_id="s2", max_tokens=500)
    assert "physician" in bundle or not meaning
    if meaning:
        assert len([1 for (vector,) in sam.rows("embedding", "chunks") if vector]) == 21


async def test_decisions_are_found_by_meaning_in_any_language(sam: Agent, meaning: bool) -> None:
    async with sam.connected():
        for text in (
            "We chose PostgreSQL for the users table",
            "Sessions end after fifteen minutes without a click",
            "The logo is green",
            "결제는 하나의 서비스에서만 처리한다",
        ):
            await sam.record(text, "decision")
        asked = {"Which database was picked?": "PostgreSQL"} if meaning else {}
        asked |= {"Which table for users?": "PostgreSQL", "결제 서비스는 어디서?": "결제는"}
        for question, answer in {**asked, "": "결제는"}.items():
            found = await sam.ask("query_decisions", query_text=question, limit=1)
            assert answer in found and found.count("##") == 1, question
        assert "logo" not in await sam.ask("query_decisions", scope="global")
        await sam.record("이 저장소는 씨앗 가게의 웹사이트입니다. PostgreSQL을 사용합니다.")
        await sam.record("오늘 날씨가 좋습니다.", session_id="s3")
    for question in ("Why does my unrelated PostgreSQL break?", "저장소는 무엇인가요?"):
        found = evidence(await sam.bundle(question, session_id="s2"))
        assert found.index("씨앗 가게의") < found.index("날씨가"), question


ROWS = 20_000


@pytest.fixture(scope="module")
def crowd(daemon: DaemonProcess) -> str:
    """A tenant with 20,000 chunks of common words; one in a thousand also has a rare word."""
    tenant = "crowd"
    same = "ts, session_id, kind, channel, sensitivity, actor_id, tags, refs"
    daemon.sql(
        f"INSERT INTO events (tenant_id, event_id, {same}, actor_type, said_by, content, digest)"
        " SELECT %s, 'e' || n, now() - n * interval '1 minute', 's', 'message', 'team', 'none',"
        " 'sam', '{}', '{}', 'agent', '', '{}', '' FROM generate_series(1, %s) n",
        *(tenant, ROWS),
    )
    daemon.sql(
        "INSERT INTO chunks (tenant_id, chunk_id, event_id, heading, named, token_est, importance,"
        f" text, {same}) SELECT tenant_id, event_id || '.0', event_id, event_id, '', 40, 0.5,"
        " 'the server builds and tests the project, number ' || event_id || CASE WHEN"
        " substr(event_id, 2)::int %% 1000 = 0 THEN ' quokka' ELSE '' END,"
        f" {same} FROM events WHERE tenant_id = %s",
        tenant,
    )
    daemon.sql("VACUUM ANALYZE chunks")
    return tenant


async def test_a_hard_question_is_answered_in_time(daemon: DaemonProcess, crowd: str) -> None:
    scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'chunks_words'"
    agent, before = daemon.agent(crowd), daemon.sql(scans)
    for question in (
        "the server tests the project",  # common words
        " ".join(f"word{n}" for n in range(1_100)),
        "where is a quokka?",
    ):
        bundle = await agent.bundle(question, session_id="s2", max_tokens=16_000)
        assert "evidence 3" in bundle and "took too long" not in bundle
    assert evidence(bundle).count("quokka") == ROWS / 1_000
    wait_until(lambda: daemon.sql(scans) > before)  # it is told when a connection is idle


async def test_what_may_be_seen_is_found_behind_the_rest(daemon: DaemonProcess, crowd: str) -> None:
    agent = daemon.agent(crowd)
    await agent.record("A wombat", channel="public", ts="2020-01-01T00:00:00Z", event_id="w")
    bundle = await agent.bundle("project", session_id="s2", channel="public")
    assert "A wombat" in bundle and "the server builds" not in bundle


async def test_a_long_message_is_cut_at_blank_lines_a_long_result_and_both_are_kept_whole(
    sam: Agent,
) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "Some words of it. " * 40 for n in range(60))
    told = await sam.record(text)
    assert told["chunks"] == 8 and told["artifact_id"]
    chunks = [row[0] for row in sam.rows("text", "chunks", "chunk_id")]
    assert all(len(each) <= 3_100 for each in chunks)
    assert chunks[1].startswith("Paragraph") and "Paragraph 59" in chunks[7]
    log = "".join(f"Step {n} was done.\n" for n in range(15_000))
    result = await sam.record(log, "tool_result", actor_type="tool")
    *_, (excerpt, tokens) = sam.rows("text, token_est", "chunks", "chunk_id")
    assert len(excerpt) <= 4_100 and tokens > 0
    assert sam.rows("content", "events")[1] == ({"excerpt_text": excerpt},)
    kept = [(text.encode(),), (log.encode(),)]
    assert sam.rows("bytes", "artifacts", "octet_length(bytes)") == kept
    for event, whole in ((told, text), (result, log)):
        pages = ""
        for offset in range(0, len(whole), 100_000):
            page = {"artifact_id": event["event_id"], "offset": offset, "max_chars": 100_000}
            where, part = (await sam.ask("get_artifact", **page)).split("\n", 1)
            assert ("this is the end" in where) == (offset + 100_000 >= len(whole))
            pages += part
        assert pages == whole
