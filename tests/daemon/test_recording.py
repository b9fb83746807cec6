"""What an event may say: its channel, times, people, objects and files; and what is refused."""

import asyncio
import base64
import json
from datetime import UTC, datetime

import pytest
from memory_daemon.access import Access
from memory_daemon_process import Agent, DaemonProcess


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
