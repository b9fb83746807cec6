"""Stores that version 1.3.0 made work unchanged, and reading migrates nothing."""

import asyncio
import json
import math
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from command import Command
from embeddings_server import EmbeddingsServer, vector_of
from memory_semantic import MemoryStorage, StorageError

from old import unpack
from old.make import CRLF, FORGOTTEN, TWINS

QUESTIONS = {
    "built-in": "What did we decide about releases, and when do they go out?",
    "service": "Releases go out on Tuesday mornings, after the canary has run for an hour.",
}


class OldStore:
    """A kept store: `memories` as it holds them, and today's `storage` on it."""

    def __init__(self, name: str, root: Path, settings: dict[str, Any]) -> None:
        contents = unpack(name, root)
        self.question = QUESTIONS[name]
        self.memories: list[dict[str, Any]] = contents["memories"]
        self.crlf: str = contents["crlf"]
        self.twins: str = contents["twins"]
        self.folder = root / "sam"
        self.manifest = self.folder / "qdrant.db/manifest.json"
        self.storage = MemoryStorage("sam", {"storage_root": str(root), **settings})

    def with_text(self, text: str) -> dict[str, Any]:
        [memory] = [memory for memory in self.memories if memory["content"] == text]
        return memory

    def bytes(self) -> bytes:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files)


MakeStore = Callable[[str], OldStore]


@pytest.fixture
def make_store(root: Path, server: EmbeddingsServer) -> MakeStore:
    """A kept store, with the settings that it needs today."""
    server.dimensions = 8
    settings = {"built-in": {}, "service": {"base_url": server.base_url}}

    def make(name: str) -> OldStore:
        return OldStore(name, root, settings[name])

    return make


@pytest.fixture(params=["built-in", "service"])
def store(request: pytest.FixtureRequest, make_store: MakeStore) -> OldStore:
    return make_store(request.param)


async def test_everything_is_there_and_nothing_is_migrated_by_reading(store: OldStore) -> None:
    before = store.manifest.read_bytes()
    assert await store.storage.count() == len(store.memories) == 39
    read = await store.storage.get_recent(100)
    assert [
        {
            "id": memory.id,
            "content": memory.content,
            "tags": memory.tags,
            "timestamp": memory.timestamp.isoformat(),
            "metadata": memory.metadata,
        }
        for memory in read
    ] == store.memories
    for known in store.memories:
        if known["id"] != store.twins:
            memory = await store.storage.get(known["id"])
            assert memory and memory.content == known["content"]
    found = await store.storage.search(store.question)
    assert len(found) == 5 and "Releases go out" in found[0].content
    assert store.manifest.read_bytes() == before
    assert FORGOTTEN.encode() not in store.bytes()


async def test_filters_find_by_tag_and_by_time(store: OldStore) -> None:
    tagged = [memory for memory in store.memories if "한국어" in memory["tags"]]
    found = await store.storage.search(store.question, limit=20, tags=["한국어"])
    assert {memory.id for memory in found} == {memory["id"] for memory in tagged}
    assert len(found) == 6
    since = store.memories[3]["timestamp"]
    later = await store.storage.search(store.question, limit=20, since=since)
    assert {memory.content for memory in later} == {m["content"] for m in store.memories[:4]}


async def test_a_known_text_is_renewed(store: OldStore) -> None:
    known = store.memories[10]
    assert await store.storage.store(known["content"], ["new tag"], {"by": "today"}) == known["id"]
    memory = await store.storage.get(known["id"])
    assert memory and memory.content == known["content"]
    assert memory.tags == [*known["tags"], "new tag"] and memory.metadata == {"by": "today"}
    assert memory.timestamp > datetime.fromisoformat(known["timestamp"])
    assert await store.storage.count() == 39
    new = await store.storage.store("The office moves to the fourth floor.")
    assert [
        m.id for m in await store.storage.search("The office moves to the fourth floor.", 1)
    ] == [new]
    assert await store.storage.count() == 40


async def test_a_text_with_the_line_breaks_of_1_2_is_the_same_memory(store: OldStore) -> None:
    assert await store.storage.store(CRLF, ["again"]) == store.crlf
    assert await store.storage.store(CRLF.replace("\r\n", "\n"), ["and again"]) == store.crlf
    memory = await store.storage.get(store.crlf)
    assert memory and memory.content == CRLF
    assert memory.tags == ["backup", "again", "and again"]
    assert await store.storage.count() == 39


async def test_two_memories_under_one_id_are_both_listed(store: OldStore) -> None:
    with pytest.raises(StorageError) as got:
        await store.storage.get(store.twins)
    with pytest.raises(StorageError) as deleted:
        await store.storage.delete([store.twins])
    for message in (str(got.value), str(deleted.value)):
        assert store.twins in message
        for text in TWINS:
            assert " ".join(text.split()[:3]) in message
    assert await store.storage.count() == 39


async def test_what_is_forgotten_leaves_no_byte(store: OldStore) -> None:
    [single] = [m for m in store.memories if "Gutiérrez" in m["content"] and "week 12" in m["tags"]]
    doomed = [single, store.with_text(CRLF)]
    signs = [line.encode() for memory in doomed for line in memory["content"].splitlines()]
    signs += [memory["id"].encode() for memory in doomed]
    before = store.bytes()
    assert all(sign in before for sign in signs)
    assert await store.storage.delete([memory["id"] for memory in doomed]) == 2
    left = store.bytes()
    assert not any(sign in left for sign in signs)
    texts = {memory.content for memory in await store.storage.get_recent(100)}
    assert texts == {memory["content"] for memory in store.memories if memory not in doomed}
    assert await store.storage.delete([doomed[0]["id"]]) == 0


async def test_a_store_without_words_is_ranked_by_meaning_alone(
    make_store: MakeStore, root: Path, server: EmbeddingsServer
) -> None:
    store = make_store("service")
    asked = store.memories[5]["content"]
    words = {"storage_root": str(root), "base_url": server.base_url, "lexical_weight": 1}
    found = await MemoryStorage("sam", words).search(asked, limit=20)
    cosines = {memory["content"]: cosine(asked, memory["content"]) for memory in store.memories}
    best = sorted(cosines, key=lambda text: -cosines[text])[:20]
    assert found[0].content == asked
    assert [memory.score for memory in found] == pytest.approx(
        [max(0, cosines[text]) for text in best], abs=0.001
    )


def cosine(one: str, other: str) -> float:
    first, second = vector_of(one, 8), vector_of(other, 8)
    product = sum(a * b for a, b in zip(first, second, strict=True))
    return product / math.hypot(*first) / math.hypot(*second)


def test_the_command_reads_and_forgets(make_store: MakeStore, command: Command) -> None:
    store = make_store("built-in")
    known = store.memories[7]
    assert [memory["id"] for memory in command.json("list", "--limit", "100")] == [
        memory["id"] for memory in store.memories
    ]
    assert known["content"] in command.run("show", known["id"]).stdout
    command.run("forget", known["id"], "--yes")
    assert known["content"].encode() not in store.bytes()
    assert len(command.json("list", "--limit", "100")) == 38


@pytest.mark.parametrize("series", ["0.8", "0.10"])
async def test_another_engine_series_is_refused_with_the_command_that_rebuilds(
    make_store: MakeStore, command: Command, series: str
) -> None:
    store = make_store("built-in")
    fields = json.loads(store.manifest.read_text())
    store.manifest.write_text(json.dumps(fields | {"engine": f"qdrant-edge {series}"}, indent=1))
    before = store.manifest.read_bytes()
    refusal = rf"qdrant-edge {re.escape(series)}.*agent-memory [a-z]+"
    with pytest.raises(StorageError, match=refusal):
        await store.storage.store("Something new.")
    with pytest.raises(StorageError, match=refusal):
        await store.storage.delete([store.crlf])
    with pytest.raises(StorageError, match=refusal) as caught:
        await store.storage.search(store.question)
    assert store.manifest.read_bytes() == before and b"Something new" not in store.bytes()

    named = re.search("agent-memory [a-z]+( --repair)?", str(caught.value))
    assert named
    await asyncio.to_thread(command.run, *named[0].split()[1:], input="y\n")
    kept = await store.storage.get_recent(100)
    assert {memory.content for memory in kept} == {m["content"] for m in store.memories}
    assert "Releases go out" in (await store.storage.search(store.question))[0].content
