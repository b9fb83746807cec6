"""SCN-A1, the specification's scenario: an agent explains a repository to others."""

import json
import re
import subprocess
import sys

import daemon as example  # examples/daemon.py
import pytest
from memory_daemon_process import Agent, DaemonProcess
from scripted import REPOSITORY

CHAPTERS = [f"## Chapter {n}\n\n" + f"What chapter {n} says of the shop. " * 12 for n in range(12)]
README = "\n\n".join([example.README, *CHAPTERS, "## Run it\n\nIt listens on port 3000.\n"])
LONG = {"README.md": {"text": README}}  # than the example's
EVENTS = [each | LONG.get("".join(each.get("refs", [])), {}) for each in example.EVENTS]
FILES = {event["refs"][0]: event["text"] for event in EVENTS if "refs" in event}
ABOUT = ["asked", "calls", *FILES, "decision", "task", "answer"]
LOG = FILES["build.log"]
QUESTIONS = [EVENTS[0]["text"], example.QUESTION, "How do I start this shop?"]


async def explain_the_repository(agent: Agent) -> dict[str, str]:
    """Record the scenario in one call; returns the id of each event."""
    told = await agent.ask("record_event", events=EVENTS)
    ids = [json.loads(line)["event_id"] for line in told.splitlines()]
    return dict(zip(ABOUT, ids, strict=True))


async def test_events_are_recorded_in_order_and_decisions_and_tasks_as_such(sam: Agent) -> None:
    ids = await explain_the_repository(sam)
    kinds = [event["kind"] for event in EVENTS]
    events = list(zip(ids.values(), kinds, ["s1"] * len(ids), strict=True))
    assert sam.rows("event_id, kind, session_id", "events") == events
    decisions = sam.rows("decision_id, status, rationale", "decisions")
    assert decisions == [(ids["decision"], "active", ["package.json has a start script"])]
    tasks = sam.rows("task_id, status, title, event_id", "tasks")
    assert tasks == [("explain", "doing", "Explain the repository", ids["task"])]
    chunks = dict(sam.rows("event_id, text", "chunks"))
    for name in ("README.md", "package.json", "server.js"):
        assert FILES[name].splitlines()[-1] in chunks[ids[name]], name


async def test_a_long_result_is_an_excerpt_and_kept_whole(sam: Agent) -> None:
    log = (await sam.record(LOG, "tool_result", actor_type="tool"))["event_id"]
    [(text, tokens)] = sam.rows("text, token_est", "chunks")
    assert len(text) <= 4_100 and tokens > 0
    assert sam.rows("content", "events") == [({"excerpt_text": text},)]
    assert sam.rows("bytes", "artifacts", "1") == [(LOG.encode(),)]
    pages, offset = "", 0
    while offset < len(LOG):
        answer = await sam.ask("get_artifact", artifact_id=log, offset=offset, max_chars=100_000)
        where, page = answer.split("\n", 1)
        pages += page
        offset += 100_000
        assert ("this is the end" in where) == (offset >= len(LOG))
    assert pages == LOG


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("limit", [2_000, 65_000])
async def test_another_agent_is_told_what_matters_in_another_session(
    daemon: DaemonProcess, sam: Agent, eve: Agent, question: str, limit: int
) -> None:
    ids = await explain_the_repository(sam)
    bundle = await eve.bundle(question, session_id="s2", max_tokens=limit)
    for name in ("README.md", "package.json", "server.js", "decision", "task"):
        assert ids[name] in bundle, name
    assert "npm start" in bundle and LOG.splitlines()[4_000] not in bundle
    assert bundle.startswith("Context bundle: about ") and bundle.endswith("\nend of bundle\n")
    told = await eve.bundle(question, session_id="s2", max_tokens=limit, explain=True)
    blocks = re.findall(r"(?m)^## \w+ [0-9A-Z]{26} .*", told)
    assert blocks and all("why: " in block for block in blocks) and "why: " not in bundle
    other = daemon.agent("another tenant")
    assert "## " not in await other.bundle(question) + await other.ask("query_decisions")
    assert "no artifact" in await other.refused("get_artifact", artifact_id=ids["build.log"])


def test_the_examples_record_and_give_back(daemon: DaemonProcess, sam: Agent) -> None:
    lines = "\n".join(map(json.dumps, example.EVENTS))
    run = [sys.executable, REPOSITORY / "examples" / "daemon_export.py"]
    access = {"MEMORY_DAEMON_URL": sam.url, "MEMORY_DAEMON_TOKEN": sam.token}

    def play(*command: str) -> str:
        return subprocess.check_output([*run, *command], input=lines, text=True, env=access)

    assert play("record", "monday") == "recorded 9\n" and play("record", "monday") == "known 9\n"
    assert play("decisions").startswith("# Decisions\n## decision ")
