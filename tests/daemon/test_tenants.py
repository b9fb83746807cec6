"""No tenant sees another; within a tenant, channel and sensitivity decide."""

import itertools
import json

import psycopg
import pytest
from memory_daemon.access import CHANNELS, Access
from memory_daemon_process import TABLES, Agent, DaemonProcess, one_of_everything

SENSITIVITIES = ("none", "low", "high", "secret")


@pytest.mark.parametrize("setting", [None, "", "somebody-else"])
async def test_the_serving_role_sees_no_rows_without_the_tenant(
    daemon: DaemonProcess, sam: Agent, setting: str | None
) -> None:
    await one_of_everything(sam)
    with psycopg.connect(daemon.dsn) as connection:
        connection.execute("SET search_path = memory")
        for table in TABLES:
            found = connection.execute(
                f"SELECT FROM {table} WHERE tenant_id = %s".encode(), [sam.tenant]
            )
            assert found.rowcount, f"{table} had no row to see"
        connection.execute("SET LOCAL ROLE memory_daemon")
        if setting is not None:
            connection.execute("SELECT set_config('app.tenant', %s, true)", [setting])
        for table in TABLES:
            found = connection.execute(f"SELECT FROM {table}".encode())
            assert found.rowcount == 0, table
        found = connection.execute(
            "SELECT FROM acb_candidates('how is it run', 'private', 'sam', 0.1)"
        )
        assert found.rowcount == 0


async def test_the_serving_role_cannot_write_for_another_tenant(
    daemon: DaemonProcess, sam: Agent
) -> None:
    await one_of_everything(sam)
    with psycopg.connect(daemon.dsn) as connection:
        connection.execute("SET search_path = memory; SET LOCAL ROLE memory_daemon")
        connection.execute("SELECT set_config('app.tenant', 'somebody-else', true)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(
                "INSERT INTO events VALUES (%s, 'x', now(), 's', 'public', 'agent', 'a', 'message',"
                " 'none', '{}', '{}', '{}', '')",
                [sam.tenant],
            )
        for statement in ("DELETE FROM events", "TRUNCATE events", "DROP TABLE events"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement.encode())


async def test_two_tenants_can_use_the_same_ids(daemon: DaemonProcess, tenant: str) -> None:
    for name in ("a", "b"):
        agent = daemon.agent(Access(f"{tenant}-{name}"))
        task = {"task_id": "t", "title": name}
        await agent.record(name, event_id="same", channel="team")
        await agent.record(f"task of {name}", "task_update", task=task, channel="team")
        bundle = await agent.bundle("what", session_id="s1")
        assert f"```\n{name}\n" in bundle and ("```\na\n" in bundle) == (name == "a")


async def test_a_named_tenant_must_be_the_tokens(sam: Agent) -> None:
    assert (await sam.record("hello", tenant_id=sam.tenant))["status"] == "recorded"
    refusal = await sam.refused("record_event", text="hello", tenant_id="somebody-else")
    assert refusal.startswith("Nothing was recorded") and "somebody-else" in refusal


VISIBLE = {  # for each request's channel: the channels it sees, and up to which sensitivity
    "private": (("private", "agent", "team", "public"), 3),
    "agent": (("agent", "team", "public"), 2),
    "team": (("team", "public"), 2),
    "public": (("public",), 1),
}


@pytest.mark.parametrize("request_channel", CHANNELS)
async def test_channel_and_sensitivity_decide_what_is_seen(
    sam: Agent, request_channel: str
) -> None:
    channels, level = VISIBLE[request_channel]
    events, everything, expected = [], set[str](), set[str]()
    for channel, sensitivity, agent in itertools.product(CHANNELS, SENSITIVITIES, ("sam", "eve")):
        word = f"{channel}{sensitivity}{agent}"
        common = {"channel": channel, "sensitivity": sensitivity}
        events.append((agent, [
            {**common, "kind": "message", "text": f"zebra {word}message"},
            {**common, "kind": "decision", "text": f"zebra {word}decision"},
            {**common, "kind": "task_update", "text": f"{word}task", "task": {"task_id": word}},
            {**common, "kind": "tool_result", "text": f"zebra {word}result" + " x" * 3_000},
        ]))  # fmt: skip
        words = {f"{word}{kind}" for kind in ("message", "decision", "task", "result")}
        everything |= words
        own = channel != "private" or agent == "sam"
        if channel in channels and sensitivity in SENSITIVITIES[:level] and own:
            expected |= words
    results = {}
    async with sam.connected():
        for agent, batch in events:
            told = await sam.ask("record_event", events=batch, agent_id=agent)
            results[batch[3]["text"].split()[1]] = json.loads(told.splitlines()[3])["artifact_id"]
        # In the same session and in another, where events reach the bundle by another way.
        for session in ("s1", "s2"):
            bundle = await sam.bundle("zebra", channel=request_channel, session_id=session)
            assert {word for word in everything if word in bundle} == expected
        decisions = await sam.ask("query_decisions", channel=request_channel, limit=50)
        assert {w for w in everything if w in decisions} == {
            w for w in expected if w.endswith("decision")
        }
        for word, artifact in results.items():
            well, _ = await sam.call("get_artifact", artifact_id=artifact, channel=request_channel)
            assert well == (word in expected), word


async def test_a_token_reaches_no_wider_than_its_channel(
    daemon: DaemonProcess, tenant: str
) -> None:
    agent = daemon.agent(Access(tenant, "team", 4_000))
    await agent.record("by default as far as the token reaches")
    for channel in ("agent", "private"):
        assert "widest channel of this token is team" in await agent.refused(
            "build_acb", query_text="x", channel=channel
        )
        assert "Nothing was recorded" in await agent.refused(
            "record_event", text="x", channel=channel
        )
    assert "of 4,000 tokens" in await agent.bundle("as far as")


async def test_masks_keys_in_every_table(daemon: DaemonProcess, sam: Agent) -> None:
    key = "sk-proj-1234567890abcdefghijklmnop"
    told = await sam.record(f"the key is {key}", refs=[key], tags=["x"])
    assert told["masked_secrets"] == 2
    await sam.record(f"use {key}", "decision", decision={"rationale": [key]})
    await sam.record(f"{key}\n" + "log\n" * 5_000, "tool_result")
    for table in TABLES:
        rows = daemon.sql(f"SELECT t::text FROM {table} t WHERE tenant_id = %s", sam.tenant)
        assert all("1234567890abcdef" not in row[0] for row in rows), table
    [(whole,)] = daemon.sql("SELECT bytes FROM artifacts WHERE tenant_id = %s", sam.tenant)
    assert whole.startswith(b"(masked API key)\n")


async def test_another_agents_private_task_cannot_be_taken_over(sam: Agent) -> None:
    task = {"task_id": "t", "title": "mine"}
    await sam.record("mine", "task_update", task=task, channel="private")
    refusal = await sam.refused(
        "record_event", agent_id="eve", kind="task_update", text="no", task=task
    )
    assert "another agent's" in refusal and "Nothing was recorded" in refusal
