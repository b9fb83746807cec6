"""What other programs recorded comes in once, with its times; decisions and tasks go out."""

import json
from pathlib import Path
from typing import Any

import pytest
from memory_daemon.access import Access
from memory_daemon_process import Agent, DaemonProcess

pytestmark = pytest.mark.timeout(300)  # each command is a process, and a slow machine starts slowly
SECRET = "sk-proj-" + "a1B2" * 12
WHEN = "2026-03-02T09:15:{:02}.000"


def amplifier(second: int, event: str, session: str = "a1", **fields: Any) -> dict[str, Any]:
    """A line of events.jsonl as Amplifier's hooks-logging writes it."""
    schema = {"name": "amplifier.log", "ver": "1.0.0"}
    head = {"ts": WHEN.format(second) + "+00:00", "lvl": "INFO", "schema": schema, "event": event}
    return {**head, "session_id": session, **fields}


def called(second: int, result: Any, event: str = "tool:post", **fields: Any) -> dict[str, Any]:
    data = {
        "tool_name": "read_file",
        "tool_input": {"file_path": "docs/crank.md"},
        "parent_id": None,
    }
    return amplifier(second, event, data={**data, "result": result}, **fields)


AMPLIFIER = [
    amplifier(0, "session:start", data={"parent_id": None}),
    amplifier(1, "prompt:submit", data={"prompt": f"Turn the crank with {SECRET}"}),
    amplifier(2, "provider:request", data={"provider": "p", "iteration": 1}),
    amplifier(3, "content_block:end", data={"block": {"type": "thinking", "thinking": "hm"}}),
    amplifier(4, "tool:pre",
              data={"tool_name": "read_file", "tool_input": {"file_path": "docs/crank.md"}}),
    called(5, {"success": True, "output": {"content": "Cranks turn left."}, "error": None}),
    amplifier(6, "tool:error", data={"tool_name": "bash"},
              error={"type": "OSError", "msg": "no bash"}),
    amplifier(7, "tool:post", data={"tool_name": "memory_search", "result": "an old note"}),
    amplifier(8, "content_block:end", data={"block": {"type": "text", "text": "Turn it left."}}),
    amplifier(9, "prompt:complete", data={"response_preview": "Turn it", "length": 13}),
    amplifier(10, "prompt:submit", data={"prompt": "And then?"}),
    amplifier(11, "prompt:complete", data={"response_preview": "Stop.", "length": 5}),
    amplifier(12, "prompt:submit", "a1-child", data={"prompt": "task", "parent_id": "a1"}),
    amplifier(13, "tool:post", "a1-child",
              data={"tool_name": "grep", "result": "a match", "parent_id": "a1"}),
    {"ts": WHEN.format(14), "logger": "x", "event": None, "message": "a log line"},
]  # fmt: skip


def claude(second: int, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    """A line of a transcript as Claude Code writes it."""
    return {
        **{"parentUuid": None, "isSidechain": False, "userType": "external", "cwd": "/work"},
        **{"sessionId": "c1", "version": "2.1.12", "gitBranch": "main", "type": kind},
        "message": {"role": kind, "content": content},
        **{"uuid": f"0000-{second}", "timestamp": WHEN.format(second) + "Z", **fields},
    }


CALL = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "Read",
    "input": {"file_path": "/work/gear.md"},
}
ANSWER = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Gears need oil."}
CLAUDE = [
    {"type": "summary", "summary": "Gears", "leafUuid": "x"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False},
    claude(20, "user", "What do gears need?"),
    claude(21, "user", "Caveat: made by the program", isMeta=True),
    claude(22, "user", "<command-name>/clear</command-name>"),
    claude(23, "assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}]),
    claude(24, "assistant", [{"type": "text", "text": "I look."}, CALL]),
    claude(25, "user", [ANSWER], toolUseResult={"type": "text"}),
    claude(26, "assistant", [{"type": "text", "text": "Gears need oil."}]),
    claude(27, "user", [{"type": "text", "text": "a task for a helper"}], isSidechain=True),
    claude(28, "user", [{"type": "image", "source": {}}, {"type": "text", "text": "See."}]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of both programs, as they lie in their folders, with some damage."""
    for name, entries in {"sessions/a1/events.jsonl": AMPLIFIER, "-work/c1.jsonl": CLAUDE}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    with (tmp_path / "-work/c1.jsonl").open("a") as file:
        file.write('{"type": "user", "mess\n[]\n{"type": "user"}\n')
    return tmp_path


def rows(daemon: DaemonProcess, tenant: str) -> list[tuple[Any, ...]]:
    return daemon.sql(
        "SELECT session_id, extract(second FROM ts)::int, kind, actor_type, content->>'text', refs"
        " FROM events WHERE tenant_id = %s ORDER BY ts, kind",
        tenant,
    )


async def test_imports_both_programs_once_with_their_times_and_says_what_it_left_out(
    daemon: DaemonProcess, sam: Agent, tenant: str, folder: Path
) -> None:
    done = daemon.run("import", str(folder), "--tenant", tenant)
    assert done.returncode == 0, done.stderr
    crank, gear = ["docs/crank.md"], ["/work/gear.md"]
    found = rows(daemon, tenant)
    masked = found[0][4]
    assert found == [
        ("a1", 1, "message", "human", masked, []),
        ("a1", 4, "tool_call", "agent", "read_file\nfile_path: docs/crank.md", crank),
        ("a1", 5, "tool_result", "tool", "read_file\ncontent: Cranks turn left.", crank),
        ("a1", 6, "tool_result", "tool", "bash\ntype: OSError\nmsg: no bash", []),
        ("a1", 8, "message", "agent", "Turn it left.", []),
        ("a1", 10, "message", "human", "And then?", []),
        ("a1", 11, "message", "agent", "Stop.", []),
        ("a1", 13, "tool_result", "tool", "grep\na match", []),
        ("c1", 20, "message", "human", "What do gears need?", []),
        ("c1", 24, "message", "agent", "I look.", []),
        ("c1", 24, "tool_call", "agent", "Read\nfile_path: /work/gear.md", gear),
        ("c1", 25, "tool_result", "tool", "Read\nGears need oil.", gear),
        ("c1", 26, "message", "agent", "Gears need oil.", []),
        ("c1", 28, "message", "human", "See.", []),
    ]
    assert masked.startswith("Turn the crank with ") and SECRET not in masked
    assert daemon.sql(
        "SELECT DISTINCT ts::date::text, channel::text, tags FROM events WHERE tenant_id = %s",
        tenant,
    ) == [("2026-03-02", "team", ["imported"])]
    said = done.stdout  # what was left out, and how often
    assert said.startswith(f"2 files: 14 recorded, 0 known, 1 secrets masked. Agents of {tenant}")
    left_out = {line.split(maxsplit=3)[3]: int(line.split()[2]) for line in said.splitlines()[1:]}
    assert left_out == {
        "session:start": 1,
        "provider:request": 1,
        "content_block:end": 1,
        "tool:post": 1,
        "prompt:complete": 1,
        "prompt:submit": 1,
        "a log message": 1,
        "summary": 1,
        "file-history-snapshot": 1,
        "user text": 3,
        "user image": 1,
        "assistant thinking": 1,
        "damaged or of another form": 3,
    }
    bundle = await sam.bundle("Which way do cranks turn?")
    assert "Cranks turn left." in bundle and "2026-03-02 09:15Z" in bundle

    before = rows(daemon, tenant)
    with (folder / "-work/c1.jsonl").open("a") as file:
        file.write(json.dumps(claude(40, "user", "A later line")) + "\n")
    twice = daemon.run("import", str(folder), "--tenant", tenant)
    assert "1 recorded, 14 known" in twice.stdout
    assert rows(daemon, tenant)[:-1] == before
    await sam.record("stays")
    daemon.run("forget", "--tenant", tenant, "--tag", "imported", "--yes")
    assert [row[4] for row in rows(daemon, tenant)] == ["stays"]


def test_damage_and_what_the_daemon_refuses_do_no_harm_to_the_rest(
    daemon: DaemonProcess, tenant: str, tmp_path: Path
) -> None:
    nameless = {name: value for name, value in claude(1, "user", "no id").items() if name != "uuid"}
    hostile = {"type": "\x1b[31m" + "x" * 10_000}
    refused = claude(2, "user", "bad", timestamp="yesterday")
    odd = [{"event": 5, "data": {}}, {"event": "tool:pre", "data": "x"}, {"type": None}, 7, "event"]
    odd += [{"event": "tool:pre", "session_id": "s" * 200, "data": {"tool_name": "t"}}]
    lines = [nameless, hostile, refused, *odd]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "b.jsonl").mkdir()
    (tmp_path / "c.jsonl").write_bytes(b'{"type": "user", \xff\xfe\x00}\n' + b"[" * 100_000)
    done = daemon.run("import", str(tmp_path), "--tenant", tenant)
    assert done.returncode == 0 and "3 files: 1 recorded" in done.stdout, done.stderr
    for said in ("a file that cannot be read", "session_id", "events.0.ts"):
        assert said in done.stdout
    assert "\x1b" not in done.stdout and max(map(len, done.stdout.splitlines())) < 300
    assert "bad" not in done.stdout and [row[4] for row in rows(daemon, tenant)] == ["no id"]
    assert "1 known" in daemon.run("import", str(tmp_path), "--tenant", tenant).stdout


async def test_exports_decisions_and_tasks_that_the_channel_may_see(
    daemon: DaemonProcess, tenant: str
) -> None:
    sam = daemon.agent(Access(tenant))
    async with sam.connected():
        why = {"rationale": ["it is *fast*"], "alternatives": ["MySQL"]}
        first = await sam.record("Use\n# SQLite", "decision", channel="team")
        why["supersedes"] = first["event_id"]
        second = await sam.record("Use PostgreSQL", "decision", channel="team", decision=why)
        await sam.record("my own secret plan", "decision", channel="private")
        for name, status in ("migrate", "done"), ("measure", "doing"):
            task = {"task_id": name, "status": status, "title": f"{name} it"}
            await sam.record(f"about {name}", "task_update", task=task, channel="team")
    said = daemon.run("export", "--tenant", tenant).stdout
    assert [line for line in said.splitlines() if line.startswith("# ")] == [
        "# Decisions",
        "# Tasks",
    ]
    assert said.index("> Use PostgreSQL") < said.index("> Use\n> # SQLite")
    assert f"- superseded by: {second['event_id']}" in said and "- alternatives: MySQL" in said
    assert "- rationale: it is \\*fast\\*" in said
    assert said.index("measure it") < said.index("migrate it")
    assert "secret plan" not in said and "- by: sam" in said
    own = daemon.run("export", "--tenant", tenant, "--channel", "private", "--agent", "sam").stdout
    assert "> my own secret plan" in own
    nothing = daemon.run("export", "--tenant", f"{tenant}-other").stdout
    assert nothing == "There are no decisions or tasks that such a request may see.\n"
