"""No tenant sees another; within a tenant, channel and sensitivity decide."""

import itertools
import json
import secrets

import psycopg
import pytest
from memory_daemon.access import CHANNELS, Access
from memory_daemon_process import TABLES, Agent, DaemonProcess, one_of_everything

SENSITIVITIES = ("none", "low", "high", "secret")


async def test_the_serving_role_sees_no_rows_without_the_tenant_and_writes_none_for_another(
    daemon: DaemonProcess, sam: Agent
) -> None:
    await one_of_everything(sam)
    for table in TABLES:
        assert daemon.sql(f"SELECT 1 FROM {table} WHERE tenant_id = %s", sam.tenant), table
    for setting in (None, "", "somebody-else"):
        with psycopg.connect(daemon.dsn) as connection:
            connection.execute("SET search_path = memory; SET LOCAL ROLE memory_daemon")
            if setting is not None:
                connection.execute("SELECT set_config('app.tenant', %s, true)", [setting])
            search = "acb_candidates('how is it run', 'private', 'sam', 0.1)"
            for seen in (*TABLES, search):
                assert connection.execute(f"SELECT FROM {seen}".encode()).rowcount == 0, seen
            insert = "INSERT INTO events VALUES (%s, 'x', now(), 's', 'public', 'agent', 'a',"
            insert += " 'message', 'none', '{}', '{}', '{}', '')"
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(insert.encode(), [sam.tenant])
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


VISIBLE = {  # for each request's channel: the channels it sees, and up to which sensitivity
    "private": (("private", "agent", "team", "public"), 3),
    "agent": (("agent", "team", "public"), 2),
    "team": (("team", "public"), 2),
    "public": (("public",), 1),
}


async def test_channel_and_sensitivity_decide_what_is_seen(sam: Agent) -> None:
    results, kinds = {}, ("message", "decision", "task", "result")
    written = [*itertools.product(CHANNELS, SENSITIVITIES, ("sam", "eve"))]
    async with sam.connected():
        for channel, sensitivity, agent in written:
            word = f"{channel}{sensitivity}{agent}"
            batch: list[dict[str, object]] = [
                {"kind": "message", "text": f"zebra {word}message"},
                {"kind": "decision", "text": f"zebra {word}decision"},
                {"kind": "task_update", "text": f"{word}task", "task": {"task_id": word}},
                {"kind": "tool_result", "text": f"zebra {word}result" + " x" * 3_000},
            ]
            batch = [{**each, "channel": channel, "sensitivity": sensitivity} for each in batch]
            told = await sam.ask("record_event", events=batch, agent_id=agent)
            results[f"{word}result"] = json.loads(told.splitlines()[3])["artifact_id"]
        for asked, (channels, level) in VISIBLE.items():
            seen = {
                f"{channel}{sensitivity}{agent}{kind}"
                for channel, sensitivity, agent in written
                for kind in kinds
                if channel in channels and sensitivity in SENSITIVITIES[:level]
                if channel != "private" or agent == "sam"
            }
            every = {f"{''.join(each)}{kind}" for each in written for kind in kinds}
            # In the same session and in another, where events reach the bundle by another way.
            for session in ("s1", "s2"):
                bundle = await sam.bundle("zebra", channel=asked, session_id=session)
                assert {word for word in every if word in bundle} == seen, asked
            decisions = await sam.ask("query_decisions", channel=asked, limit=50)
            decided = {word for word in seen if word.endswith("decision")}
            assert {word for word in every if word in decisions} == decided, asked
            for word, artifact in results.items():
                well, _ = await sam.call("get_artifact", artifact_id=artifact, channel=asked)
                assert well == (word in seen), (asked, word)


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


async def test_masks_secrets_in_every_table(daemon: DaemonProcess, sam: Agent) -> None:
    keys = ("sk-proj-1234567890abcdefghijklmnop", f"mem_{secrets.token_urlsafe(32)}")
    named = "correct8horse4battery"  # a secret only by the name that an object gives it
    for key in keys:
        told = await sam.record(f"the key is {key}", refs=[key], tags=["x"])
        assert told["masked_secrets"] == 2
        await sam.record(f"use {key}", "decision", decision={"rationale": [key]})
        await sam.record("x", "task_update", task={"task_id": "t", "title": key})
        await sam.record(f"{key}\n" + "log\n" * 5_000, "tool_result")
    content = {"password": named, "deep": [{"api_key": named}], keys[0]: "x"}
    told = await sam.record("", content=content)
    assert told["masked_secrets"] == 3
    for table in TABLES:
        rows = daemon.sql(f"SELECT t::text FROM {table} t WHERE tenant_id = %s", sam.tenant)
        assert rows and not any(each in row[0] for row in rows for each in (*keys, named)), table
    for (whole,) in daemon.sql("SELECT bytes FROM artifacts WHERE tenant_id = %s", sam.tenant):
        assert not any(each.encode() in whole for each in (*keys, named))
