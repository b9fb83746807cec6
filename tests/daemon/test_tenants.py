"""No tenant sees another; within one, channel and sensitivity decide, and who may make rules."""

import asyncio
import itertools
import json
import secrets
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from memory_daemon_process import TABLES, Agent, DaemonProcess, one_of_everything

CHANNELS = ("private", "agent", "team", "public")
SENSITIVITIES = ("none", "low", "high", "secret")


async def test_the_serving_role_is_kept_to_one_tenant(daemon: DaemonProcess, sam: Agent) -> None:
    await one_of_everything(sam)
    for table in TABLES:
        assert daemon.sql(f"SELECT 1 FROM {table} WHERE tenant_id = %s", sam.tenant), table
    for setting in (None, "", "somebody-else"):
        with psycopg.connect(daemon.dsn) as connection:
            connection.execute("SET search_path = memory; SET LOCAL ROLE memory_daemon")
            if setting is not None:
                connection.execute("SELECT set_config('app.tenant', %s, true)", [setting])
            search = "find('how is it run', 'private', 'sam', 0.1, NULL, 9000, '{}', '{}')"
            for seen in (*TABLES, search):
                assert connection.execute(f"SELECT FROM {seen}".encode()).rowcount == 0, seen
            for statement, given in {
                "INSERT INTO events (tenant_id) VALUES (%s)": [sam.tenant],
                "DELETE FROM events": None,
                "TRUNCATE events": None,
                "SELECT * FROM tokens": None,
            }.items():
                with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(statement.encode(), given)


async def test_two_tenants_can_use_the_same_ids(daemon: DaemonProcess, tenant: str) -> None:
    for name in ("a", "b"):
        agent = daemon.agent(f"{tenant}-{name}")
        await agent.record(name, event_id="same")
        await agent.record(f"task of {name}", "task_update", task={"task_id": "t", "title": name})
        bundle = await agent.bundle("what")
        assert f"```\n{name}\n" in bundle and ("```\na\n" in bundle) == (name == "a")


VISIBLE = {  # for each request's channel: the channels it sees, and up to which sensitivity
    "private": (("private", "agent", "team", "public"), 3),
    "agent": (("agent", "team", "public"), 2),
    "team": (("team", "public"), 2),
    "public": (("public",), 1),
}


async def test_channel_and_sensitivity_decide_what_is_seen(sam: Agent, eve: Agent) -> None:
    results, kinds = {}, ("message", "decision", "task", "result")
    written = [*itertools.product(CHANNELS, SENSITIVITIES, ("sam", "eve"))]
    async with sam.connected(), eve.connected():
        for channel, sensitivity, agent in written:
            word = f"{channel}{sensitivity}{agent}"
            batch: list[dict[str, object]] = [
                {"kind": "message", "text": f"zebra {word}message"},
                {"kind": "decision", "text": f"zebra {word}decision"},
                {"kind": "task_update", "text": f"{word}task", "task": {"task_id": word}},
                {"kind": "tool_result", "text": f"zebra {word}result" + " x" * 3_000},
            ]
            batch = [{**each, "channel": channel, "sensitivity": sensitivity} for each in batch]
            told = await (sam if agent == "sam" else eve).ask(
                "record_event", session_id="s1", events=batch
            )
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


async def test_no_token_reaches_wider_than_its_channel(daemon: DaemonProcess, tenant: str) -> None:
    agent = daemon.agent(tenant, channel="team")
    await agent.record("by default as far as the token reaches")
    await agent.ask("build_acb", query_text="x", tenant_id=tenant, agent_id="sam")
    for channel in ("agent", "private"):
        for tool, given in {
            "build_acb": {"query_text": "x", "channel": channel},
            "record_event": {"events": [{"text": "x", "channel": channel}]},
        }.items():
            refusal = await agent.refused(tool, **given)
            assert "widest channel of this token is team" in refusal
            assert refusal.startswith("Nothing was recorded or changed. ")


async def test_masks_secrets_in_every_table(sam: Agent) -> None:
    keys = ("sk-proj-1234567890abcdefghijklmnop", f"mem_{secrets.token_urlsafe(32)}")
    for key in keys:
        told = await sam.record(f"the key is {key}", refs=[key], tags=["x"])
        assert told["masked_secrets"] == 2
        await sam.record(f"use {key}", "decision", decision={"rationale": [key]})
        await sam.record("x", "task_update", task={"task_id": "t", "title": key})
        await sam.record(f"{key}\n" + "log\n" * 5_000, "tool_result", name=key)
    hidden = keys[0].replace("12", "1\U000e00412")  # a tag in it, which nobody sees
    assert (await sam.record(hidden))["masked_secrets"] == 1
    for table in TABLES:
        rows = sam.rows("t::text", f"{table} t", "1")
        assert rows and not any(each in row[0] for row in rows for each in keys), table
    for (whole,) in sam.rows("bytes", "artifacts", "1"):
        assert not any(each.encode() in whole for each in keys)


async def test_the_other_sees_what_one_records_unless_it_is_private(sam: Agent, eve: Agent) -> None:
    for channel, said in (("team", "Our"), ("private", "My")):
        first = await sam.record(f"{said} plan", "decision", channel=channel)
        about: dict[str, Any] = {"task": {"task_id": said, "title": "Paint"}}
        await sam.record(f"{said} task", "task_update", channel=channel, **about)
        replaced = {"supersedes": first["event_id"]}
        await sam.record(f"{said} newer plan", "decision", decision=replaced)
        await sam.record(f"{said} task goes on", "task_update", **about)
    mine, theirs = await sam.bundle("plan"), await eve.bundle("plan")
    for text in ("Our newer plan", "Our task goes on"):
        assert text in mine and text in theirs
    for text in ("My newer plan", "My task goes on"):
        assert text in mine and text not in theirs
    assert "Our plan" not in mine + theirs
    no = {"kind": "task_update", "text": "no", "task": {"task_id": "My"}}
    refusal = await eve.refused("record_event", events=[no])
    assert "may not see the task My" in refusal and "another task_id" in refusal
    about = {"task_id": "Our", "status": "doing"}
    await eve.record("Eve goes on", "task_update", task=about)
    assert "Paint" in (bundle := await sam.bundle("x", session_id="s2")) and "Eve goes" in bundle


@pytest.mark.parametrize("kind", ["decision", "task_update"])
async def test_nothing_is_hidden_by_what_replaces_it(sam: Agent, eve: Agent, kind: str) -> None:
    def about(former: str) -> dict[str, Any]:
        task = {"task": {"task_id": "t"}}
        return task if kind == "task_update" else {"decision": {"supersedes": former}}

    first = await sam.record("For all", kind, **({} if kind == "decision" else about("")))
    for hidden in ({"channel": "private"}, {"sensitivity": "high"}, {"sensitivity": "secret"}):
        event = {"kind": kind, "text": "gone", **hidden, **about(first["event_id"])}
        refusal = await eve.refused("record_event", events=[event])
        assert "would hide what it replaces" in refusal
    assert "For all" in await sam.bundle("x", session_id="s2", channel="team")
    wider: dict[str, Any] = {"channel": "public", **about(first["event_id"])}
    await eve.record("For everyone", kind, **wider)
    assert "For everyone" in await sam.bundle("x", session_id="s2", channel="public")


async def test_what_replaces_may_be_less_sensitive(sam: Agent) -> None:
    first = await sam.record("A rumour", "decision", sensitivity="high")
    assert "rumour" not in await sam.bundle("x", session_id="s2", channel="team")
    told = {"decision": {"supersedes": first["event_id"]}, "sensitivity": "none"}
    await sam.record("It is official", "decision", **told)
    assert "official" in await sam.bundle("x", session_id="s2", channel="team")


async def test_rules_are_made_by_those_who_may(daemon: DaemonProcess, sam: Agent) -> None:
    lead = daemon.agent(sam.tenant, "lead", may_rule=True)
    rule = {"kind": "decision", "text": "Answer in English", "decision": {"scope": "global"}}
    assert "may neither make nor end rules" in await sam.refused("record_event", events=[rule])
    told = await lead.record("Answer in English", "decision", decision={"scope": "global"})
    mine = {"scope": "user"}
    await sam.record("Answer in short", "decision", decision=mine)
    for scope in ("user", "global"):
        given = {**rule, "actor_type": "tool", "decision": {"scope": scope}}
        assert "A tool makes no rules" in await lead.refused("record_event", events=[given])
    ends = {"kind": "decision", "text": "x", "decision": {"supersedes": told["event_id"]}}
    assert "may neither make nor end rules" in await sam.refused("record_event", events=[ends])
    rules = {agent: (await agent.bundle("x")).split("# Decisions")[0] for agent in (sam, lead)}
    assert "English" in rules[sam] and "short" in rules[sam]
    assert "English" in rules[lead] and "short" not in rules[lead]  # to others, a decision


async def test_importance_from_outside_only_lowers(sam: Agent) -> None:
    for given, kept in ((1.0, 0.4), (0.1, 0.1), (None, 0.4)):
        told = await sam.record("x", "tool_result", actor_type="tool", importance=given)
        found = dict(sam.rows("event_id, importance", "chunks"))
        assert found[told["event_id"]] == pytest.approx(kept)


async def test_keeps_when_it_happened_beside_when_it_was_recorded(sam: Agent) -> None:
    await sam.record("Long ago", ts="2020-05-01T12:00:00Z", actor_id="ana", event_id="e")
    columns = "ts, recorded_at > '2026-01-01', actor_id, said_by"
    [(ts, late, agent, said_by)] = sam.rows(columns, "events")
    assert (ts, late) == (datetime(2020, 5, 1, 12, tzinfo=UTC), True)
    assert (agent, said_by) == ("sam", "ana")
    assert "2020-05-01 12:00Z agent ana (by sam)" in await sam.bundle("long ago")
    await sam.record("By a clock that is fast", ts="2999-01-01T00:00:00Z")
    assert sam.rows("ts <= now()", "events") == [(True,)] * 2


async def test_what_inherits_secret_is_kept_and_never_shown(sam: Agent) -> None:
    task = {"task_id": "t", "title": "zebra"}
    await sam.record("zebra", "task_update", sensitivity="secret", task=task)
    await sam.record("zebra", "task_update", task={"task_id": "t", "status": "done"})
    assert sam.rows("status", "tasks", "1") == [("done",)]
    assert "zebra" not in (await sam.bundle("x")).partition("\n")[2]


async def test_blocked_calls_lose_or_double_nothing(daemon: DaemonProcess, tenant: str) -> None:
    ids = [f"task-{number}" for number in range(6)]
    updates = [{"kind": "task_update", "text": "x", "task": {"task_id": id}} for id in ids]

    async def write(number: int, events: list[dict[str, object]]) -> None:
        agent = daemon.agent(tenant)
        async with agent.connected():
            for count in range(10):
                named = [{**e, "event_id": f"{number}.{count}.{n}"} for n, e in enumerate(events)]
                told = await agent.ask("record_event", events=named)
                assert told.count('"recorded"') == len(ids)
                await agent.bundle("x")

    turned = [updates[n:] + updates[:n] for n in range(3)]
    await asyncio.gather(*(write(n, each) for n, each in enumerate((*turned, updates[::-1]))))
    found = daemon.agent(tenant).rows("event_id", "chunks")
    assert len(found) == len({*found}) == 4 * 10 * len(ids)
