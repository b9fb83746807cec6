"""A real Qdrant server that is killed, full, locked or restored: nothing acknowledged is lost."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from command import invoke
from load import Acknowledged, load, storage_on, together
from memory_semantic import MemoryStorage, StorageError
from memory_semantic.errors import UNCHANGED
from memory_server import connection
from plain_vectors import PlainVectors
from qdrant_client import models as m
from qdrant_node import QdrantNode
from qdrant_real import program

pytestmark = [pytest.mark.qdrant, pytest.mark.timeout(600)]

COLLECTION = "agent-memory.sam"
KEY = "the key of the whole server, which is a long one"
READ_KEY = "the key of those who only read, which is a long one"
DENIED = "does not accept the API key"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[QdrantNode]:
    with QdrantNode(program(), tmp_path / "node") as node:
        yield node


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[QdrantNode]:
    """A server with a key for everything, one for reading, and access tokens."""
    keys = {"service__api_key": KEY, "service__read_only_api_key": READ_KEY}
    with QdrantNode(program(), tmp_path / "node", service__jwt_rbac="true", **keys) as node:
        yield node


@pytest.fixture(autouse=True)
def forget_connections() -> Iterator[None]:
    yield
    connection.connect.cache_clear()


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
async def test_what_was_acknowledged_survives_the_end_of_the_server(
    node: QdrantNode, signal_number: int
) -> None:
    storages = [storage_on(node.url) for _ in range(6)]
    await storages[0].store("first")
    async with load(storages) as told:
        for _ in range(3):
            await asyncio.sleep(2)
            await asyncio.to_thread(node.stop, signal_number)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(node.start)
    await together(told).check(storages[0])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o"]
    subprocess.run([*mount, "size=100m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_is_named_and_loses_nothing(small_disk: Path) -> None:
    with QdrantNode(program(), small_disk / "node") as node:
        storage = storage_on(node.url)
        told, filling = Acknowledged(), os.urandom(4_000).hex()
        with pytest.raises(StorageError, match="is out of disk space"):
            for number in range(100_000):
                text = f"{number} {filling}"
                told.stored[text] = await storage.store(text)
        [best] = await storage.search("0", limit=1)
        assert best.content in told.stored
        await told.check(storage)
        mount = ["mount", "-o", "remount,size=300m", str(small_disk)]
        subprocess.run(mount, check=True)
        node.stop()
        node.start()
        await told.check(storage)
        assert await storage.store("there is room again")


def token(**claims: Any) -> str:
    return jwt.encode(claims, KEY, "HS256")


async def test_a_key_opens_what_it_may(locked: QdrantNode) -> None:
    writing = token(access=[{"collection": COLLECTION, "access": "prw"}])
    for key in ("", "wrong", writing):  # the last one may not create the store
        with pytest.raises(StorageError, match=rf"{DENIED}.*{UNCHANGED}"):
            await storage_on(locked.url, qdrant_api_key=key).store("x")
    memory_id = await storage_on(locked.url, qdrant_api_key=KEY).store("x")
    reading = [{"collection": COLLECTION, "access": "r"}]
    for key in (READ_KEY, token(access="r"), token(access=reading)):
        reader = storage_on(locked.url, qdrant_api_key=key)
        assert [memory.id for memory in await reader.search("x")] == [memory_id]
        for call in (reader.store("y"), reader.delete([memory_id])):
            with pytest.raises(StorageError, match=f"{DENIED} for this"):
                await call
    sam = storage_on(locked.url, qdrant_api_key=writing)
    assert await sam.store("x", ["a"]) == memory_id and await sam.store("y")
    assert [memory.id for memory in await sam.search("x", tags=["a"])] == [memory_id]
    assert await sam.count() == 2 and await sam.check() == []
    assert await sam.delete([memory_id]) == 1
    config = {"qdrant_url": locked.url, "qdrant_api_key": writing}
    alice = MemoryStorage("alice", config, embeddings=PlainVectors())
    for call in (alice.search("x"), alice.count(), alice.store("z")):
        with pytest.raises(StorageError, match=DENIED):
            await call


async def test_strict_mode(node: QdrantNode) -> None:
    storage = storage_on(node.url, lexical_weight=0.3)
    await storage.store_many([f"fact {number}" for number in range(300)])
    client = connection.connect(node.url, "", 10)

    def limit(results: int) -> None:
        strict = m.StrictModeConfig(
            enabled=True,
            max_query_limit=results,
            unindexed_filtering_retrieve=False,
            unindexed_filtering_update=False,
        )
        client.update_collection(COLLECTION, strict_mode_config=strict)

    limit(4_000)
    memory_id = await storage.store("new", ["a"])
    await storage.store("new", ["b"])
    assert (await storage.search("fact 7"))[0].content == "fact 7"
    assert (await storage.search("new", tags=["b"]))[0].id == memory_id
    assert await storage.delete([memory_id]) == 1 and await storage.check() == []
    limit(100)
    with pytest.raises(StorageError, match=rf"refused the request.*{UNCHANGED}"):
        await storage.search("fact 7")


def on_disk(node: QdrantNode, text: str) -> list[str]:
    """The files that contain the text."""
    found = []
    for folder, _, names in os.walk(node.folder):
        for file in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):  # the server deletes in the background
                if file != node.log and text.encode() in file.read_bytes():
                    found.append(file.name)
    return found


def test_a_snapshot_is_restored_and_a_removed_collection_leaves_the_disk(
    node: QdrantNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", node.url)
    secret = "The_password_is_swordfish"
    invoke("store", "Lunch is at noon.", "--agent", "sam")
    client = connection.connect(node.url, "", 10)
    made = client.create_snapshot(COLLECTION)
    assert made
    invoke("store", secret, "--tag", "secret", "--agent", "sam")
    assert on_disk(node, secret)
    invoke("forget", "--tag", "secret", "--yes", "--agent", "sam")
    assert secret not in invoke("search", "password", "--agent", "sam").stdout
    client.delete_collection(COLLECTION)
    assert "no " in invoke("search", "lunch", "--agent", "sam", code=1).stderr
    end = time.monotonic() + 30
    while on_disk(node, secret):
        assert time.monotonic() < end
    snapshot = node.folder / "snapshots" / COLLECTION / made.name
    client.recover_snapshot(COLLECTION, snapshot.as_uri())
    assert "noon" in invoke("search", "lunch", "--agent", "sam").stdout
    assert "1 memory: hashes and vectors agree" in invoke("doctor", "--agent", "sam", "-v").stdout
