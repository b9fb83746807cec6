"""No tenant sees another; within a tenant, channel and sensitivity decide.

What an event may say: its channel, times, people, objects and files; and what is refused.
"""

import asyncio
import base64
import itertools
import json
import secrets
from datetime import UTC, datetime

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


@pytest.fixture
def eve(daemon: DaemonProcess, tenant: str) -> Agent:
    """Another agent of sam's tenant, as its token says."""
    return daemon.agent(Access(tenant, agent="eve"))


async def test_what_one_agent_records_the_other_sees(sam: Agent, eve: Agent) -> None:
    first = await sam.record("Use red", "decision")
    await sam.record("Paint it", "task_update", task={"task_id": "t"})
    await sam.record("Use blue", "decision", decision={"supersedes": first["event_id"]})
    await eve.record("Painting it", "task_update", task={"task_id": "t", "status": "doing"})
    for agent in (sam, eve):
        bundle = await agent.bundle("paint", session_id="s2")
        assert "Use blue" in bundle and "Painting it" in bundle
    assert "Use red" not in await eve.ask("query_decisions")


async def test_what_replaces_something_private_stays_private(sam: Agent, eve: Agent) -> None:
    first = await sam.record("My plan", "decision", channel="private")
    await sam.record("My new plan", "decision", decision={"supersedes": first["event_id"]})
    task = {"task_id": "t"}
    await sam.record("My task", "task_update", task=task, channel="private")
    await sam.record("My task goes on", "task_update", task=task)
    mine, theirs = await sam.bundle("x"), await eve.bundle("x")
    assert "My new plan" in mine and "My task goes on" in mine
    assert "My" not in theirs
    refusal = await eve.refused("record_event", kind="task_update", text="no", task=task)
    assert "another agent's" in refusal and "Nothing was recorded" in refusal


async def test_a_renamed_client_keeps_its_memory(eve: Agent, sam: Agent) -> None:
    await eve.record("I hid the key", channel="private", agent_id="one-name")
    assert "I hid the key" in await eve.bundle("key", agent_id="another-name")
    assert "I hid the key" not in await sam.bundle("key", agent_id="another-name")


async def test_keeps_when_it_happened_beside_when_it_was_recorded(
    daemon: DaemonProcess, sam: Agent
) -> None:
    await sam.record("Long ago", ts="2020-05-01T12:00:00Z", actor_id="ana", event_id="e")
    [(ts, late, agent, said_by)] = daemon.sql(
        "SELECT ts, recorded_at > '2026-01-01', actor_id, said_by FROM events"
        " WHERE (tenant_id, event_id) = (%s, 'e')",
        sam.tenant,
    )
    assert (ts, late) == (datetime(2020, 5, 1, 12, tzinfo=UTC), True)
    assert (agent, said_by) == ("sam", "ana")
    assert "2020-05-01 12:00Z" in await sam.bundle("long ago")


async def test_an_object_is_found_by_its_texts_and_given_back_whole(sam: Agent) -> None:
    content = {"who": "ana", "steps": [{"eat": "zwieback"}, 3, None, True], "nul": "\0"}
    told = await sam.record("", content=content)
    assert "zwieback" in await sam.bundle("zwieback", session_id="s2")
    answer = await sam.ask("get_artifact", artifact_id=told["event_id"])
    assert json.loads(answer.split("\n", 1)[1]) == content
    for empty in ({}, [], ""):
        assert "empty" in await sam.refused("record_event", content=empty)


async def test_bytes_are_kept_as_they_came_only_if_they_are_sensitive(sam: Agent) -> None:
    data = base64.b64encode(b"\x89PNG\x00\xff").decode()
    picture = {"kind": "artifact", "text": "A picture", "event_id": "p"}
    file = {"name": "a.png", "type": "image/png", "data": data}
    refusal = await sam.refused("record_event", **picture, artifact=file)
    assert "needs sensitivity high" in refusal
    sensitive = {**picture, "sensitivity": "high"}
    await sam.ask("record_event", **sensitive, artifact=file)
    answer = await sam.ask("get_artifact", artifact_id="p")
    assert "a.png, image/png" in answer and answer.endswith(data)
    assert data not in await sam.bundle("picture")
    other = {**file, "data": base64.b64encode(b"other").decode()}
    assert "Another event" in await sam.refused("record_event", **sensitive, artifact=other)
    refusal = await sam.refused("record_event", **sensitive, artifact={"data": "@@@"})
    assert "not base64" in refusal
    long = {**sensitive, "text": "x" * 4_001}
    assert "4,000" in await sam.refused("record_event", **long, artifact=file)


async def test_every_request_may_name_the_tenant_of_its_token_and_no_other(sam: Agent) -> None:
    told = await sam.record("", content={"a": "b"})
    asked = {"session_id": "s1", "agent_id": "sam"}
    for tool, more in {
        "record_event": {"text": "hello"},
        "query_decisions": {},
        "get_artifact": {"artifact_id": told["event_id"]},
        "build_acb": {"query_text": "x"},
    }.items():
        await sam.ask(tool, tenant_id=sam.tenant, **asked, **more)
        refusal = await sam.refused(tool, tenant_id="other", **asked, **more)
        assert "not for tenant other" in refusal and refusal.startswith("Nothing was recorded")


async def test_loses_and_duplicates_nothing_when_calls_block_each_other(
    daemon: DaemonProcess, tenant: str
) -> None:
    ids = [f"task-{number}" for number in range(6)]
    updates = [{"kind": "task_update", "text": "x", "task": {"task_id": id}} for id in ids]

    async def write(number: int, events: list[dict[str, object]]) -> None:
        agent = daemon.agent(Access(tenant))
        async with agent.connected():
            for count in range(10):
                named = [
                    {**event, "event_id": f"{number}.{count}.{n}"} for n, event in enumerate(events)
                ]
                told = await agent.ask("record_event", events=named)
                assert told.count('"recorded"') == len(ids)
                await agent.bundle("x")

    turned = [updates[n:] + updates[:n] for n in range(3)]
    await asyncio.gather(*(write(n, each) for n, each in enumerate((*turned, updates[::-1]))))
    [counted] = daemon.sql(
        "SELECT count(*), count(DISTINCT event_id) FROM chunks WHERE tenant_id = %s", tenant
    )
    assert counted == (4 * 10 * len(ids), 4 * 10 * len(ids))


async def test_no_tenant_waits_for_what_another_records(
    daemon: DaemonProcess, sam: Agent, tenant: str
) -> None:
    other = daemon.agent(Access(f"{tenant}-other"))
    async with sam.connected(), other.connected():
        await other.ask("query_decisions")
        large = asyncio.create_task(sam.record("a line of a log\n" * 120_000, "tool_result"))
        answered = 0
        while not large.done():
            await other.ask("query_decisions")
            answered += 1
    assert (await large)["status"] == "recorded" and answered >= 20
