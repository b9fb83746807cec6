"""SCN-A1, the specification's scenario: an agent explains a repository. Tests what is recorded and
what a bundle returns, with an MCP client and with the hook in an Amplifier session.

With AMPLIFIER_LOOPS naming the folders of Amplifier's own loops, the session runs in those too.
"""

import json
import re
from pathlib import Path
from typing import Any

import amplifier_module_hooks_memory_daemon as hook
import bpe_openai
import daemon as example  # examples/daemon.py
import pytest
from amplifier_core import ToolResult
from conversation import OtherTool
from memory_daemon.access import Access
from memory_daemon_process import Agent, DaemonProcess
from memory_semantic import estimate_tokens
from scripted import LOOPS, scripted_session

README = (
    "# Shop\n\nThe shop sells seeds to gardeners, and this is its website.\n\n"
    + "\n\n".join(
        f"## Chapter {n}\n\n" + f"What chapter {n} says of the shop. " * 12 for n in range(12)
    )
    + "\n\n## Run it\n\nInstall Node 20, then `npm install` and `npm start`; it listens on 3000.\n"
)
PACKAGE = json.dumps({"name": "shop", "scripts": {"start": "node server.js"}}, indent=2)
ENTRY = '// The entry point.\nconst app = require("express")();\napp.listen(3000);\n'
LOG = "".join(f"[{n:05}] compiled module number {n * 7919 % 10007}\n" for n in range(8_000))
FILES = {"README.md": README, "package.json": PACKAGE, "server.js": ENTRY, "build.log": LOG}


async def explain_the_repository(agent: Agent) -> dict[str, str]:
    """Record the scenario; returns the ids of each file's result, the decision and the task."""
    ids = {}
    await agent.record("Explain this repo and how to run it", actor_type="human")
    await agent.record("list_files(.)", "tool_call")
    await agent.record("\n".join(FILES), "tool_result", actor_type="tool")
    for name, text in FILES.items():
        await agent.record(f"read_file({name})", "tool_call")
        result = await agent.record(text, "tool_result", actor_type="tool", refs=[name])
        ids[name] = result["event_id"]
    decision = await agent.record(
        "Run it by npm start",
        "decision",
        decision={"rationale": ["package.json has a start script"]},
        refs=[ids["package.json"]],
    )
    task = {"task_id": "explain", "status": "doing", "title": "Explain the repository"}
    updated = await agent.record("README and entry point are read", "task_update", task=task)
    await agent.record("It is a shop for seeds. Run `npm install`, then `npm start`.")
    return {**ids, "decision": decision["event_id"], "task": updated["event_id"]}


async def test_events_are_recorded_in_order_and_decisions_and_tasks_as_such(
    daemon: DaemonProcess, sam: Agent
) -> None:
    async with sam.connected():
        recorded = await explain_the_repository(sam)
    rows = daemon.sql(
        "SELECT kind::text, actor_type, session_id FROM events WHERE tenant_id = %s ORDER BY ts",
        sam.tenant,
    )
    kinds = ["message", *["tool_call", "tool_result"] * 5, "decision", "task_update", "message"]
    assert [row[0] for row in rows] == kinds
    assert rows[0][1] == "human" and {row[2] for row in rows} == {"s1"}
    [decision] = daemon.sql(
        "SELECT decision_id, status, rationale, refs FROM decisions WHERE tenant_id = %s",
        sam.tenant,
    )
    why, refs = ["package.json has a start script"], [recorded["package.json"]]
    assert decision == (recorded["decision"], "active", why, refs)
    [task] = daemon.sql(
        "SELECT task_id, status, title, event_id FROM tasks WHERE tenant_id = %s", sam.tenant
    )
    assert task == ("explain", "doing", "Explain the repository", recorded["task"])
    chunks = dict(daemon.sql("SELECT event_id, text FROM chunks WHERE tenant_id = %s", sam.tenant))
    for name in ("README.md", "package.json", "server.js"):
        assert FILES[name].splitlines()[2] in chunks[recorded[name]], name

    newer = await sam.record(
        "Run it with docker compose up", "decision", decision={"supersedes": recorded["decision"]}
    )
    rows = daemon.sql(
        "SELECT decision_id, superseded_by FROM decisions WHERE tenant_id = %s ORDER BY status",
        sam.tenant,
    )
    assert rows == [(newer["event_id"], None), (recorded["decision"], newer["event_id"])]
    assert "npm start" not in await sam.ask("query_decisions", query_text="how is it run")
    assert "npm start" in await sam.ask("query_decisions", status="superseded")
    again = await sam.refused(
        "record_event", kind="decision", text="no", decision={"supersedes": recorded["decision"]}
    )
    assert "Nothing was recorded" in again and "no active decision" in again


async def test_a_long_result_is_an_excerpt_and_kept_whole(
    daemon: DaemonProcess, sam: Agent
) -> None:
    log = (await sam.record(LOG, "tool_result", actor_type="tool"))["event_id"]
    [(text, tokens, content)] = daemon.sql(
        "SELECT text, token_est, content FROM chunks JOIN events USING (tenant_id, event_id)"
        " WHERE tenant_id = %s AND event_id = %s",
        sam.tenant, log,
    )  # fmt: skip
    assert len(text) <= 4_100 and content == {"excerpt_text": text} and tokens > 0
    [(whole,)] = daemon.sql(
        "SELECT bytes FROM artifacts WHERE tenant_id = %s AND artifact_id = %s", sam.tenant, log
    )
    assert whole == LOG.encode()
    pages, offset = "", 0
    while offset < len(LOG):
        answer = await sam.ask("get_artifact", artifact_id=log, offset=offset, max_chars=100_000)
        where, page = answer.split("\n", 1)
        pages += page
        offset += 100_000
        assert ("this is the end" in where) == (offset >= len(LOG))
    assert pages == LOG


async def test_a_bundle_holds_the_evidence_within_its_budget_and_not_the_log(
    daemon: DaemonProcess, sam: Agent, tenant: str
) -> None:
    async with sam.connected():
        recorded = await explain_the_repository(sam)
    # In another session, so that nothing is shown only because it was said last.
    bundle = await sam.bundle("How do I run it? Which file is the entry point?", session_id="s2")
    for name in ("README.md", "package.json", "server.js", "decision", "task"):
        assert recorded[name] in bundle, name
    assert "npm start" in bundle and LOG.splitlines()[4_000] not in bundle
    assert bundle.startswith("Context bundle: about ") and bundle.endswith("\nend of bundle\n")

    encoding = bpe_openai.get_encoding("o200k_base")
    for limit in (500, 1_000, 2_000, 8_000, 65_000):
        bundle = await sam.bundle("How do I run it?", max_tokens=limit)
        said = int(re.findall(r"about ([\d,]+) of", bundle)[0].replace(",", ""))
        assert estimate_tokens(bundle) <= said <= limit
        assert len(encoding.encode(bundle)) <= limit
        if limit >= 2_000:
            assert recorded["decision"] in bundle and recorded["task"] in bundle
    assert 0.8 < len(encoding.encode(bundle)) / said < 1.2

    other = daemon.agent(Access(f"{tenant}-other"))
    assert "##" not in await other.bundle("How do I run it?")
    assert "##" not in await other.ask("query_decisions")
    refusal = await other.refused("get_artifact", artifact_id=recorded["build.log"])
    assert "There is no artifact" in refusal


async def test_the_examples_session_is_found_by_files_with_vectors_and_without(
    daemon: DaemonProcess, sam: Agent, empty: Path
) -> None:
    wordy = DaemonProcess(empty, dsn=daemon.dsn, embedding_model="none").start()
    try:
        await sam.ask("record_event", session_id="monday", events=example.EVENTS)
        for agent in (sam, wordy.agent(Access(sam.tenant))):
            for question in (example.QUESTION, "How do I start this shop?"):
                bundle = await agent.bundle(question, session_id="tuesday", max_tokens=2_000)
                assert example.README in bundle and example.PACKAGE in bundle, question
    finally:
        wordy.stop()


@pytest.mark.timeout(300)  # a slow machine
@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("loop", LOOPS)
async def test_what_the_hook_recorded_of_a_session_answers_in_the_next_one(
    daemon: DaemonProcess, tenant: str, tmp_path: Path, loop: str
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    agent = daemon.agent(Access(tenant, agent="sam"))

    async def look(given: dict[str, Any]) -> ToolResult:
        path = tmp_path / given["path"]
        return ToolResult(output=path.read_text() if path.is_file() else "\n".join(FILES))

    async def record(given: dict[str, Any]) -> ToolResult:  # as Amplifier's tool-mcp does
        return ToolResult(output=await agent.ask("record_event", **given))

    tools = [OtherTool("list_files", look), OtherTool("read_file", look)]
    tools += [OtherTool("mcp_memory_record_event", record)]
    hooks = {hook.NAME: {"url": agent.url, "token": agent.token, "max_tokens": 65_000}}
    decided = {"kind": "decision", "text": "Run it by npm start", "refs": ["package.json"]}
    begun = {"kind": "task_update", "text": "Read the files", "task": {"task_id": "explain"}}
    answer = "It is a shop for seeds. Run `npm install`, then `npm start`."
    turns: list[Any] = [[{"tool": "list_files", "arguments": {"path": "."}}]]
    turns += [[{"tool": "read_file", "arguments": {"path": name}}] for name in FILES]
    turns += [[{"tool": tools[-1].name, "arguments": {"events": [decided, begun]}}], answer]
    async with scripted_session(turns, None, hooks=hooks, loop=loop) as session:
        for tool in tools:
            await session.coordinator.mount("tools", tool, name=tool.name)
        await session.execute("Explain this repo and how to run it")
        here = session.session_id

    rows = daemon.sql(
        "SELECT kind::text, actor_type, refs, event_id FROM events"
        " WHERE (tenant_id, session_id) = (%s, %s)",
        *(tenant, here),
    )
    calls = [kind for _ in range(5) for kind in (("tool_call", "agent"), ("tool_result", "tool"))]
    said = [("message", "human"), *calls, ("message", "agent")]
    assert sorted(row[:2] for row in rows) == sorted(said)
    results = {refs[0]: event_id for kind, _, refs, event_id in rows if kind == "tool_result"}
    assert results.keys() == {".", *FILES}
    [(whole,)] = daemon.sql(
        "SELECT bytes FROM artifacts WHERE (tenant_id, artifact_id) = (%s, %s)",
        *(tenant, results["build.log"]),
    )
    assert whole.decode() == f"read_file\n{LOG}".strip()

    question = "How do I run it? Which file is the entry point?"
    async with scripted_session([], None, hooks=hooks, loop=loop) as session:
        await session.execute(question)
        [request] = session.coordinator.get("providers")["scripted"].requests
    [bundle] = [str(each.content) for each in request.messages if "# Evidence" in each.content]
    for name in FILES:
        assert results[name] in bundle, name
    for said in ("The shop sells seeds", "node server.js", "app.listen(3000)", "task explain"):
        assert said in bundle, said
    decisions = bundle.partition("# Decisions")[2].partition("# Evidence")[0]
    assert "Run it by npm start" in decisions and "package.json" in decisions
    assert LOG.splitlines()[4_000] not in bundle and estimate_tokens(bundle) <= 65_000
