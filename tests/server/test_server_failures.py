"""A Qdrant server that is down, slow, restarting, full, or refuses; through the real client."""

import asyncio
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conftest import MakeStorage, MakeTools
from local_server import DROP, Answer
from memory_semantic import MemoryStorage, StorageError
from memory_semantic.errors import MAYBE, UNCHANGED, DamagedStoreError, NewerStoreError
from memory_semantic.remembered import point_id
from memory_server import connection
from qdrant_server import COLLECTION, KEY, WRITE, QdrantServer, Rule, error

TEXT = "a private thought"
FULL = "No space left on device: WAL buffer size exceeds available disk space: "


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which are not made."""
    made: list[float] = []
    monkeypatch.setattr(connection.Connection, "_pause", lambda _, seconds: made.append(seconds))
    return made


def chain(error: BaseException | None) -> str:
    """Everything that the error and its causes say, including suppressed ones."""
    if error is None:
        return ""
    return repr(error) + str(error) + chain(error.__cause__) + chain(error.__context__)


async def error_of(call: Awaitable[object]) -> StorageError:
    """The error of a call that fails; it contains neither the text of a memory nor the key."""
    with pytest.raises(StorageError) as caught:
        await call
    told = chain(caught.value)
    assert KEY not in told and TEXT not in told
    assert str(caught.value).endswith(".")
    return caught.value


SAID = f"injected: {TEXT}, {KEY}"
BUSY = error(503, SAID)
NONSENSE = "not from Qdrant. Check qdrant_url"
MOVED = {"location": "http://me:pw@127.0.0.1:9/x?y"}
# What goes wrong at a request: the answer to it, the tries that are made, what the error says.
FAILURES: dict[str, tuple[Answer, int, str]] = {
    "closed": (DROP, 3, "could not be reached, in 3 tries"),
    "408": (error(408, SAID), 3, "3 tries .HTTP 408"),
    "429": (error(429, SAID), 3, "is too busy"),
    "500": (error(500, SAID), 3, "3 tries .HTTP 500"),
    "full": (error(500, FULL + SAID), 1, "out of disk space"),
    "507": (error(507, SAID), 1, "out of disk space"),
    "401": (error(401, SAID), 1, "AGENT_MEMORY_QDRANT_API_KEY"),
    "403": (error(403, SAID), 1, "AGENT_MEMORY_QDRANT_API_KEY"),
    "400": (error(400, SAID), 1, "refused the request .HTTP 400"),
    "html": ((200, {}, b"<html>welcome</html>"), 1, NONSENSE),
    "empty": ((200, {}, b""), 1, NONSENSE),
    "another's": ((200, {}, b'{"data": []}'), 1, NONSENSE),
    "nothing": ((200, {}, b'{"result": null, "status": "ok"}'), 1, NONSENSE),
    "404": ((404, {}, b""), 1, NONSENSE),
    "moved": ((301, MOVED, b""), 1, r"redirects to http://127\.0\.0\.1:9 .*set qdrant_url"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failure_says_what_happened_what_was_changed_and_what_to_do(
    storage: MemoryStorage,
    qdrant: QdrantServer,
    make_tools: MakeTools,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    caplog.set_level("DEBUG")
    answer, tries, words = FAILURES[name]
    known = await storage.store("known")
    calls: list[tuple[str, Callable[[], Awaitable[object]], str]] = [
        (f"GET /collections/{COLLECTION}", lambda: storage.store(TEXT), UNCHANGED),
        (WRITE, lambda: storage.store(TEXT), MAYBE),
        ("points/query", lambda: storage.search(TEXT), UNCHANGED),
        (WRITE, lambda: storage.delete([known]), MAYBE),
        ("points/count", lambda: storage.count(), UNCHANGED),
    ]
    for only, call, outcome in calls:
        qdrant.rules.append(Rule(99, only, answer=answer))
        qdrant.requests.clear()
        error = await error_of(call())
        # One answer of a server that can be read and refuses may also mean that all is as it was.
        assert str(error).endswith(outcome if tries > 1 else (outcome, UNCHANGED)), only
        asked = [f"{method} {path}" for method, path in qdrant.requests]
        assert re.search(words, str(error)) and sum(only in each for each in asked) == tries
        qdrant.rules.clear()
    qdrant.rules.append(Rule(99, answer=answer))
    tools = await make_tools(qdrant_url=qdrant.url)
    for tool, argument in (("memory_store", "content"), ("memory_search", "query")):
        message = await tools.refused(tool, **{argument: TEXT})
        assert re.search(words, message) and message.endswith(UNCHANGED)
        assert TEXT not in message and KEY not in message
    qdrant.rules.clear()
    assert KEY not in caplog.text and TEXT not in caplog.text
    [memory] = await storage.search(TEXT)
    assert memory.content == "known" and await storage.count() == 1
    [stored] = await storage.upsert([TEXT])
    assert not stored.known


@pytest.mark.parametrize("answer", [DROP, BUSY])
@pytest.mark.parametrize("text", ["new", "known"])
async def test_a_store_whose_acknowledgement_is_lost_is_stored_once(
    storage: MemoryStorage, qdrant: QdrantServer, pauses: list[float], text: str, answer: Answer
) -> None:
    known = await storage.store("known", ["first"])
    qdrant.rules.append(Rule(2, WRITE, answer=answer, after=True))
    [stored] = await storage.upsert([(text, ["second"])])
    assert pauses == [0.5, 1.0]
    assert stored.known is (text == "known") and stored.changed
    assert await storage.count() == (1 if text == "known" else 2)
    memory = await storage.get(stored.id)
    assert memory is not None and memory.content == text and memory.tags[-1] == "second"
    assert (memory.id == known) is stored.known


async def test_a_half_batch_can_be_repeated(storage: MemoryStorage, qdrant: QdrantServer) -> None:
    texts = [f"fact {i}" for i in range(300)]
    qdrant.rules.append(Rule(1, WRITE))
    qdrant.rules.append(Rule(3, WRITE, answer=BUSY))
    assert str(await error_of(storage.store_many(texts))).endswith(MAYBE)
    assert await storage.count() == 128
    stored = await storage.upsert(texts)
    assert sum(each.known for each in stored) == 128 and await storage.count() == 300


async def test_a_forget_that_fails_leaves_no_link_to_nothing_and_can_be_repeated(
    storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    old = await storage.store("Lunch is at noon.")
    [new] = await storage.upsert(["Lunch is at one."], old)
    qdrant.rules.append(Rule(3, WRITE, answer=BUSY))
    assert str(await error_of(storage.delete([new.id]))).endswith(MAYBE)
    first = await storage.get(old)
    assert first and await storage.get(new.id)
    assert first.replaced_by == point_id("Lunch is at one.")
    assert await storage.delete([new.id]) == 1
    assert [(m.id, m.replaced_by) for m in await storage.get_recent()] == [(old, None)]


CREATION = {"collection": f"PUT /collections/{COLLECTION}", "index": "/index"}


@pytest.mark.parametrize(("step", "passed"), [("collection", 0), ("index", 0), ("index", 1)])
@pytest.mark.parametrize("after", [False, True])
async def test_an_interrupted_creation_is_finished_by_the_next_store(
    storage: MemoryStorage, qdrant: QdrantServer, step: str, passed: int, after: bool
) -> None:
    qdrant.rules += [Rule(1, "/index")] * passed
    down = Rule(99, "", answer=DROP)
    for answer in (BUSY, DROP):  # the first alone stops nothing
        qdrant.rules.append(Rule(1, CREATION[step], answer=answer, after=after))
    qdrant.rules[-1].before = lambda: qdrant.rules.insert(0, down)
    assert str(await error_of(storage.store(TEXT))).endswith(UNCHANGED)
    qdrant.rules.clear()
    assert await storage.search(TEXT) == [] and await storage.count() == 0
    assert await storage.get(await storage.store(TEXT))
    assert list(qdrant.created) == [COLLECTION]
    info = connection.connect(qdrant.url, KEY, 10).get_collection(COLLECTION)
    assert info.points_count == 1
    fields = {"id", "tags", "replaced_by", "pinned", "expires", "timestamp"}
    assert info.payload_schema.keys() == fields | {"metadata.project_id"}


async def test_a_silent_server_is_given_up(make_storage: MakeStorage, qdrant: QdrantServer) -> None:
    storage = make_storage(qdrant_url=qdrant.url, qdrant_timeout=1)
    await storage.store("known")
    over = threading.Event()
    qdrant.rules.append(Rule(3, WRITE, before=lambda: over.wait(30)))
    error = await error_of(storage.store(TEXT))
    assert "did not answer in time, in 3 tries" in str(error)
    assert str(error).endswith(MAYBE)
    over.set()
    while await storage.count() < 2:  # it was: the server does the work afterwards
        await asyncio.sleep(0.01)
    [stored] = await storage.upsert([TEXT])
    assert stored.known


async def test_a_server_too_old_for_writes_that_only_insert_gets_no_memory(
    make_storage: MakeStorage, storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    for version in ("1.16.3", "1.9.0", "0.11.7", "unknown", ""):
        qdrant.version = version
        error = str(await error_of(storage.store(TEXT)))
        assert error.endswith(UNCHANGED)
        assert f"version {version}, but 1.17 is needed" in error or not version
    assert qdrant.created == {}
    for number, version in enumerate(("1.17.0", "1.18.0-dev", "2.0.1")):
        qdrant.version = version
        assert await make_storage(f"agent-{number}", qdrant_url=qdrant.url).store(TEXT)


GOOD = {
    "format": 4,
    "agent": "sam",
    "embedding": ["local", "all-MiniLM-L6-v2 int8, wordllama 0.4", 640],
    "created": "2026-01-01T00:00:00Z",
}
STRANGE = [7, None, [], {}, {"format": "x"}, {"format": 4}, {**GOOD, "embedding": "x"}]
NEWER = [{**GOOD, "format": 5}, {"format": 99, "unheard": "of"}]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        *((found, "does not say what it is") for found in (None, {}, {"other": 1})),
        *(({"agent_memory": found}, "does not say what it is") for found in STRANGE),
        ({"agent_memory": {**GOOD, "format": 3}}, "does not say what it is"),
        ({"agent_memory": {**GOOD, "agent": "alice"}}, "belongs to 'alice'"),
        *(({"agent_memory": found}, "newer version .*Upgrade") for found in NEWER),
    ],
)
async def test_a_collection_that_is_not_the_agents_store_is_left_alone(
    storage: MemoryStorage, qdrant: QdrantServer, metadata: Any, words: str
) -> None:
    qdrant.client.create_collection(COLLECTION, {}, metadata=metadata)
    for call in (storage.store(TEXT), storage.search(TEXT), storage.count(), storage.info()):
        error = await error_of(call)
        assert re.search(words, str(error)) and str(error).endswith(UNCHANGED)
        assert isinstance(error, NewerStoreError) == ("newer" in words)
    assert {method for method, _ in qdrant.requests} == {"GET"}


@pytest.mark.parametrize("only", [f"POST /collections/{COLLECTION}/points", WRITE])
async def test_a_store_deleted_while_a_call_runs_is_an_error_and_can_be_created_again(
    storage: MemoryStorage, qdrant: QdrantServer, only: str
) -> None:
    await storage.store("x")
    qdrant.between(lambda: qdrant.client.delete_collection(COLLECTION), only)
    error = await error_of(storage.store(TEXT))
    assert "HTTP 404" in str(error) or "deleted" in str(error)
    assert await storage.search("x") == [] and await storage.store(TEXT)
    assert await storage.count() == 1


@pytest.mark.parametrize("call", ["search", "store"])
async def test_a_call_that_is_cancelled_stops_soon_and_asks_no_more(
    storage: MemoryStorage, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(connection, "PAUSE_SECONDS", 0.2)
    await storage.store("x")
    qdrant.rules.append(Rule(99, answer=BUSY))
    qdrant.requests.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(getattr(storage, call)(TEXT), 0.1)
    await asyncio.sleep(0.3)
    assert len(qdrant.requests) == 1


async def test_a_cancelled_write_completes(storage: MemoryStorage, qdrant: QdrantServer) -> None:
    await storage.store("x")
    begun, cancelled = threading.Event(), threading.Event()
    qdrant.between(lambda: begun.set() or cancelled.wait(10), WRITE)
    call = asyncio.create_task(storage.store(TEXT, ["a"]))
    await asyncio.to_thread(begun.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    cancelled.set()
    while await storage.count() < 2:
        await asyncio.sleep(0.01)
    [memory] = await storage.search(TEXT, limit=1)
    assert memory.content == TEXT and memory.tags == ["a"]


async def test_without_the_client_the_error_says_how_to_install_it(
    storage: MemoryStorage, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    error = await error_of(storage.store(TEXT))
    assert re.search('uv pip install .*"qdrant-client', str(error))
    assert str(error).endswith(UNCHANGED)
    assert qdrant.requests == []


async def test_what_is_stored_is_said_to_be_even_if_what_is_like_it_cannot_be_read(
    storage: MemoryStorage, qdrant: QdrantServer
) -> None:
    await storage.store("known")
    qdrant.rules.append(Rule(99, "points/query", answer=DROP))
    [stored] = await storage.upsert([TEXT], alike=True)
    qdrant.rules.clear()
    assert await storage.get(stored.id) and not stored.alike


async def test_damage_is_mended_there(storage: MemoryStorage, qdrant: QdrantServer) -> None:
    """Another program has written into the collection."""
    await storage.store("known")
    [memory] = await storage.get_recent()
    qdrant.client.set_payload(COLLECTION, {"content": "other"}, points=[str(memory.key)])
    error = await error_of(storage.get_recent())
    assert str(error).endswith("Restore the collection from a snapshot. Nothing was changed.")
    assert isinstance(error, DamagedStoreError) and "agent-memory" not in str(error)
