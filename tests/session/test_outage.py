"""While the embeddings service or the store fails: no prompt waits for long, nothing said is lost,
and the person knows. In real sessions, with a local server as the service.
"""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import AmplifierSession
from command import Command
from conversation import DECISION, RULE, converse, kept, remembered
from embeddings_server import Answer, EmbeddingsServer, error
from memory_hooks import capture, pause, recall
from memory_semantic import MemoryStorage, StorageError, Waiting
from memory_semantic.check import Item
from processes import finish, release, start

PREFERENCE = "I prefer tabs over spaces in Go."
BOTH = {recall.NAME: {}, capture.NAME: {}}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a busy machine time."""
    monkeypatch.setattr(recall, "MAX_SECONDS", 30.0)
    monkeypatch.setattr(capture, "SHOW_SECONDS", 30.0)


@pytest.fixture
def waiting(root: Path) -> Path:
    return root / "sam" / "waiting.jsonl"


def down(server: EmbeddingsServer) -> None:
    server.script = [error(401)] * 100


def up(server: EmbeddingsServer) -> Any:
    async def step(_: AmplifierSession) -> None:
        server.script = []

    return step


def texts(file: Path) -> list[str]:
    text = file.read_text() if file.exists() else ""
    return [json.loads(line)["content"] for line in text.splitlines()]


async def test_what_is_said_in_an_outage_is_stored_afterwards(
    service: dict[str, Any],
    remote: MemoryStorage,
    server: EmbeddingsServer,
    waiting: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pause, "FIRST_SECONDS", 0)
    await remote.store("Something.")
    down(server)
    found: list[Any] = []

    async def look(session: AmplifierSession) -> None:
        found.extend([texts(waiting), stat.S_IMODE(waiting.stat().st_mode), session.session_id])

    said = (DECISION, RULE, look, up(server), PREFERENCE)
    talk = await converse(capture.NAME, service, *said)
    waited, mode, session_id = found
    assert waited == [DECISION, RULE] and mode == 0o600
    first, second, *later = talk.shown
    undo = "(undo: agent-memory forget --tag captured)"
    assert first.startswith(f'Waiting to be stored {undo}: "{DECISION}" The embeddings service')
    assert second.startswith(f'Waiting to be stored {undo}: "{RULE}" After 2 failures in a row')
    assert [remembered(line) for line in later] == [DECISION, RULE, PREFERENCE]
    memories = {memory.content: memory for memory in await remote.get_recent(10)}
    assert memories.keys() == {DECISION, RULE, PREFERENCE, "Something."}
    about = memories[DECISION].metadata
    assert about["kind"] == "decision" and about["session"] == session_id and about["project"]
    assert memories[RULE].tags == ["captured", "rule"]
    assert memories[DECISION].timestamp < memories[RULE].timestamp
    assert texts(waiting) == []

    down(server)  # and what waits at a session's end is stored in the next one
    last = "From now on, always squash commits."
    await converse(capture.NAME, service, last)
    assert texts(waiting) == [last]
    server.script = []
    talk = await converse(capture.NAME, service, "Hello.")
    assert [remembered(line) for line in talk.shown] == [last]
    assert last in await kept(remote) and texts(waiting) == []


async def test_a_text_that_the_service_refuses_holds_up_no_other(
    service: dict[str, Any], remote: MemoryStorage, server: EmbeddingsServer, waiting: Path
) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        return error(400) if RULE in request["input"] else server.vectors(request)

    server.script = [answer] * 100
    await remote.store("Something.")
    talk = await converse(capture.NAME, service, RULE, DECISION)
    assert [remembered(line) for line in talk.shown[1:]] == [DECISION]
    assert DECISION in await kept(remote) and texts(waiting) == [RULE]


FAILED = "Recall from long-term memory failed for this prompt"
WAITS = "What was captured before still waits to be stored"


@pytest.mark.parametrize(
    ("hook", "event", "what"),
    [(recall.NAME, "memory:inject_failed", FAILED), (capture.NAME, "memory:capture_failed", WAITS)],
)
async def test_after_two_failures_no_prompt_waits(
    service: dict[str, Any],
    remote: MemoryStorage,
    server: EmbeddingsServer,
    hook: str,
    event: str,
    what: str,
) -> None:
    await remote.store("Something.")
    Waiting(remote).add([(DECISION, ["captured"], None)])
    server.requests.clear()
    down(server)
    talk = await converse(hook, service, *["What did I say?"] * 5)
    assert len(server.requests) == 2 and len(talk.requests) == 5
    assert [name for name, _ in talk.events].count(event) == 2
    first, second = talk.shown
    assert first.startswith(f"{what}. The embeddings")
    assert "the next try comes 30 seconds later" in second


async def test_a_pause_doubles_and_ends_with_a_success(
    service: dict[str, Any],
    remote: MemoryStorage,
    server: EmbeddingsServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await remote.store("Something.")
    now = 0.0
    monkeypatch.setattr("memory_hooks.pause.monotonic", lambda: now)

    def after(seconds: float) -> Any:
        async def step(_: AmplifierSession) -> None:
            nonlocal now
            now += seconds
            asked.append(len(server.requests))

        return step

    asked: list[int] = []
    server.requests.clear()
    down(server)
    hello = "What did we decide?"
    times = (31, 31, 31, 1000, 10_000)  # the pauses are 30, 60, …, at most 900
    steps = [step for seconds in times for step in (hello, after(seconds))]
    again = ["What now?", "And now?", after(0)]
    talk = await converse(
        recall.NAME, service, hello, *steps, up(server), *again, settings={"recent": 0}
    )
    assert asked == [2, 3, 3, 4, 5, 7]
    assert len(talk.shown) == 2


async def test_sessions_at_once_lose_nothing_that_waits(root: Path, sam: MemoryStorage) -> None:
    script = """
from memory_semantic import Waiting
print("ready", flush=True)
input()
for number in range(15):
    Waiting(storage()).add([(f"{arguments[0]} said {number}.", ["captured"], {"session": "s"})])
async def store():
    await Waiting(storage()).store()
asyncio.run(store())
"""
    others = [start(root, script, name) for name in ("one", "two", "three")]
    release(others)
    for process in others:
        finish(process)
    waits = texts(root / "sam" / "waiting.jsonl")
    stored = await kept(sam)
    assert {*waits, *stored} == {
        f"{a} said {n}." for a in ("one", "two", "three") for n in range(15)
    }
    assert len(stored) == len(set(stored))


async def test_a_file_that_cannot_be_read_keeps_nothing_from_being_stored(
    memory: dict[str, Any], sam: MemoryStorage, waiting: Path
) -> None:
    await sam.store("Something.")
    waiting.mkdir()
    talk = await converse(capture.NAME, memory, DECISION)
    assert [remembered(line) for line in talk.shown] == [DECISION]


async def test_a_hundred_may_wait_and_they_are_masked_and_stored_at_once(
    remote: MemoryStorage, server: EmbeddingsServer, waiting: Path
) -> None:
    items: list[Item] = [(f"Fact {number}.", ["captured"], None) for number in range(99)]
    Waiting(remote).add([*items, (f"The key is ghp_{'a1' * 18}.", ["captured"], None)])
    assert "ghp_" not in waiting.read_text() and "(masked GitHub token)" in waiting.read_text()
    with pytest.raises(StorageError, match="100 texts already wait"):
        Waiting(remote).add(items[:1])
    assert len(texts(waiting)) == 100
    assert (waiting.parent / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE(waiting.parent.stat().st_mode) == 0o700
    await remote.store("A store can be made beside it.")
    waiting.write_text(waiting.read_text() + "[" * 100_000 + "\nnot JSON\n{}\n")
    server.requests.clear()
    assert len(await Waiting(remote).store()) == 100
    assert await remote.count() == 101 and texts(waiting) == []
    assert len(server.requests) == 4  # of 32 texts at most


async def test_a_server_that_is_down_makes_them_wait_on_this_machine(
    memory: dict[str, Any], waiting: Path, no_waiting: None
) -> None:
    talk = await converse(
        capture.NAME, {**memory, "qdrant_url": "http://127.0.0.1:9"}, DECISION, hooks=BOTH
    )
    assert texts(waiting) == [DECISION]
    assert any(
        f'Waiting to be stored (undo: agent-memory forget --tag captured): "{DECISION}"' in line
        for line in talk.shown
    )


def test_the_doctor_names_what_waits_and_forget_drops_it(
    command: Command, root: Path, sam: MemoryStorage, waiting: Path
) -> None:
    Waiting(sam).add([(DECISION, ["captured", "decision"], None), (RULE, ["captured"], None)])
    doctor = command.run("doctor").stdout
    assert f"captured, but not stored: 2, in {waiting}" in doctor
    assert re.search("agent-memory forget .*--tag captured", doctor)
    kept_back = command.run("forget", "--tag", "captured", input="n\n")
    assert DECISION in kept_back.stdout + kept_back.stderr and len(texts(waiting)) == 2
    command.run("forget", "--tag", "Captured", "--before", "2020-01-01", "--yes", code=1)
    assert len(texts(waiting)) == 2
    dropped = command.run("forget", "--tag", "Captured", "--yes").stdout
    assert dropped.endswith("Dropped before they were stored: 2.\n")
    assert texts(waiting) == [] and "PostgreSQL" not in waiting.read_text()
    assert "captured, but" not in command.run("doctor").stdout
    command.run("store", "Something.", "--tag", "captured")
    Waiting(sam).add([(DECISION, ["captured"], None)])
    both = command.run("forget", "--tag", "captured", "--yes").stdout
    assert "Dropped before they were stored: 1." in both and "Forgotten: 1." in both
    command.run("store", "Something.")
    Waiting(sam).add([(DECISION, ["captured"], None)])
    (root / "sam" / "qdrant.db" / "manifest.json").write_text("{")  # the store is out of use
    result = command.run("forget", "--tag", "captured", "--yes", code=1)
    assert "Dropped before they were stored: 1." in result.stdout and texts(waiting) == []
    assert "manifest.json is damaged" in result.stderr


async def test_a_session_without_an_agent_hears_nothing_of_it_unless_something_is_captured(
    memory: dict[str, Any],
) -> None:
    settings = {"agent_identity": ""}
    assert (await converse(capture.NAME, memory, "hello", settings=settings)).shown == []
    [line] = (await converse(capture.NAME, memory, DECISION, settings=settings)).shown
    assert "no agent_identity" in line
