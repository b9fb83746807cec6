"""SCN-A1, the specification's scenario: an agent explains a repository to others."""

import json
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


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("limit", [2_000, 65_000])
async def test_another_agent_is_told_what_matters_in_another_session(
    sam: Agent, eve: Agent, question: str, limit: int
) -> None:
    ids = await explain_the_repository(sam)
    bundle = await eve.bundle(question, session_id="s2", max_tokens=limit)
    for name in ("README.md", "package.json", "server.js", "decision", "task"):
        assert ids[name] in bundle, name
    assert "npm start" in bundle and LOG.splitlines()[4_000] not in bundle
    assert bundle.startswith("Context bundle: about ") and bundle.endswith("\nend of bundle\n")


def test_the_examples_record_and_give_back(daemon: DaemonProcess, sam: Agent) -> None:
    lines = "\n".join(map(json.dumps, example.EVENTS))
    run = [sys.executable, REPOSITORY / "examples" / "daemon_export.py"]
    access = {"MEMORY_DAEMON_URL": sam.url, "MEMORY_DAEMON_TOKEN": sam.token}

    def play(*command: str) -> str:
        return subprocess.check_output([*run, *command], input=lines, text=True, env=access)

    assert play("record", "monday") == "recorded 9\n" and play("record", "monday") == "known 9\n"
    assert play("decisions").startswith("# Decisions\n## decision ")
