"""A real Qdrant server that is killed, stands still, is full or locked: nothing is lost."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from command import invoke
from hosts import Network
from load import Elsewhere, Told, load, storage_on
from memory_semantic import MemoryStorage, StorageError
from memory_semantic.errors import UNCHANGED
from memory_server import connection
from plain_vectors import PlainVectors
from qdrant_client import models as m
from qdrant_node import QdrantNode
from qdrant_real import program

pytestmark = [pytest.mark.qdrant, pytest.mark.timeout(600)]

ALIAS = "agent-memory.sam"
COLLECTION = f"{ALIAS}.memories"
KEY = "the key of the whole server, which is a long one"
READ_KEY = "the key of those who only read, which is a long one"


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
    assert told.kept and told.forgotten
    await told.check(storages[0])


async def test_a_server_that_stands_still_is_given_up_and_catches_up(node: QdrantNode) -> None:
    storages = [storage_on(node.url, qdrant_timeout=1) for _ in range(6)]
    await storages[0].store("first")
    async with load(storages) as told:
        await asyncio.sleep(1)
        node.send(signal.SIGSTOP)
        await asyncio.sleep(12)
        node.send(signal.SIGCONT)
        await asyncio.sleep(2)
    assert any("did not answer in time, in 3 tries" in error for error in told.errors)
    # One request of a call failed, in three tries of 1 s; a slow machine takes longer.
    assert max(told.seconds) < 40
    await told.check(storages[0])


async def test_a_slow_server_loses_nothing(node: QdrantNode) -> None:
    storages = [storage_on(node.url, qdrant_timeout=1) for _ in range(6)]
    await storages[0].store("first")
    async with load(storages) as told:
        for _ in range(20):
            node.send(signal.SIGSTOP)
            await asyncio.sleep(0.7)
            node.send(signal.SIGCONT)
            await asyncio.sleep(0.1)
    assert told.kept
    await told.check(storages[0])


def test_clients_on_two_hosts_lose_nothing(tmp_path: Path) -> None:
    with Network() as network:
        host = network.host()
        with QdrantNode(program(), tmp_path / "node", host.address, host.wrapper) as node:
            there = [network.host(), network.host()]
            told = Told()
            with ExitStack() as stack:
                agents = [
                    stack.enter_context(Elsewhere(host, f"{number}", node.url))
                    for number, host in enumerate(there * 2)
                ]
                for agent in agents:
                    agent.wait()
                time.sleep(5)
                for agent in agents:
                    told.add(agent.end())
            assert told.errors == []
            assert {tag for _, tag in told.tags} == {"0", "1", "2", "3"}
            asyncio.run(told.check(storage_on(node.url)))


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
        told, filling = Told(), os.urandom(4_000).hex()
        error = ""
        for number in range(100_000):
            text = f"{number} {filling}"
            try:
                told.kept[text] = await storage.store(text)
            except StorageError as refused:
                error = str(refused)
                break
        assert "is out of disk space" in error
        [best] = await storage.search("0", limit=1)
        assert best.content in told.kept
        await told.check(storage)
        mount = ["mount", "-o", "remount,size=300m", str(small_disk)]
        subprocess.run(mount, check=True)
        node.stop()
        node.start()
        await told.check(storage)
        assert await storage.store("there is room again")


async def test_a_wrong_key_is_refused(locked: QdrantNode) -> None:
    for key in ("", "wrong"):
        with pytest.raises(StorageError, match="does not accept the API key") as caught:
            await storage_on(locked.url, qdrant_api_key=key).store("x")
        assert str(caught.value).endswith(UNCHANGED)


def token(**claims: Any) -> str:
    return jwt.encode(claims, KEY, "HS256")


async def test_a_key_that_only_reads_can_search_and_nothing_else(locked: QdrantNode) -> None:
    owner = storage_on(locked.url, qdrant_api_key=KEY)
    memory_id = await owner.store("x")
    of_one = [{"collection": ALIAS, "access": "r"}]
    for key in (READ_KEY, token(access="r"), token(access=of_one)):
        reader = storage_on(locked.url, qdrant_api_key=key)
        assert [memory.id for memory in await reader.search("x")] == [memory_id]
        for call in (reader.store("y"), reader.delete([memory_id])):
            with pytest.raises(StorageError, match=r"does not accept the API key for this"):
                await call
    assert await owner.count() == 1


async def test_an_access_token_opens_one_agents_store(locked: QdrantNode) -> None:
    access = [{"collection": ALIAS, "access": "prw"}]
    limited = {"qdrant_api_key": token(access=access)}
    sam = storage_on(locked.url, **limited)
    with pytest.raises(StorageError, match="does not accept the API key"):
        await sam.store("x")
    await storage_on(locked.url, qdrant_api_key=KEY).store("x")
    memory_id = await sam.store("y", ["a"])
    assert await sam.store("y", ["b"]) == memory_id
    found = await sam.search("y", limit=1, tags=["b"])
    assert [memory.tags for memory in found] == [["a", "b"]]
    assert await sam.count() == 2 and len(await sam.get_recent(5)) == 2
    assert await sam.check() == []
    assert await sam.delete([memory_id]) == 1
    config = {"qdrant_url": locked.url, **limited}
    alice = MemoryStorage("alice", config, embeddings=PlainVectors())
    for call in (alice.search("x"), alice.count(), alice.store("z")):
        with pytest.raises(StorageError, match="does not accept the API key"):
            await call


async def test_strict_mode(node: QdrantNode) -> None:
    storage = storage_on(node.url, lexical_weight=0.3)
    await storage.store_many([f"fact {number}" for number in range(300)])
    client = connection.connect(node.url, "", 10)

    def limit(**config: Any) -> None:
        strict = m.StrictModeConfig(enabled=True, **config)
        client.update_collection(ALIAS, strict_mode_config=strict)

    limit(
        max_query_limit=10_000,
        unindexed_filtering_retrieve=False,
        unindexed_filtering_update=False,
        search_allow_exact=True,
        search_max_oversampling=2.0,
    )
    memory_id = await storage.store("new", ["a"])
    await storage.store("new", ["b"])
    assert (await storage.search("fact 7"))[0].content == "fact 7"
    assert (await storage.search("new", tags=["b"]))[0].id == memory_id
    assert await storage.delete([memory_id]) == 1 and await storage.count() == 300
    assert await storage.check() == []
    limit(max_query_limit=100)
    with pytest.raises(StorageError, match="refused the request") as caught:
        await storage.search("fact 7")
    assert str(caught.value).endswith(UNCHANGED)


def on_disk(node: QdrantNode, text: str) -> list[str]:
    """The files that contain the text."""
    found = []
    for folder, _, names in os.walk(node.folder):
        for file in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):  # the server deletes in the background
                if file != node.log and text.encode() in file.read_bytes():
                    found.append(file.name)
    return found


def test_an_export_and_an_import_take_forgotten_texts_off_the_disk(
    node: QdrantNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", node.url)
    secret, file = "The_password_is_swordfish", str(tmp_path / "memories.jsonl")
    invoke("store", secret, "--tag", "secret", "--agent", "sam")
    invoke("store", "Lunch is at noon.", "--agent", "sam")
    assert on_disk(node, secret)
    invoke("forget", "--tag", "secret", "--yes", "--agent", "sam")
    assert secret not in invoke("search", "password", "--agent", "sam").stdout
    invoke("export", file, "--agent", "sam")
    connection.connect(node.url, "", 10).delete_collection(COLLECTION)
    invoke("import", file, "--agent", "sam")
    end = time.monotonic() + 30
    while on_disk(node, secret):
        assert time.monotonic() < end
    assert "Lunch" in invoke("search", "lunch", "--agent", "sam").stdout


def test_a_restored_snapshot_gets_its_alias_by_a_repair(
    node: QdrantNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_URL", node.url)
    invoke("store", "Lunch is at noon.", "--agent", "sam")
    client = connection.connect(node.url, "", 10)
    made = client.create_snapshot(COLLECTION)
    assert made
    client.delete_collection(COLLECTION)
    assert "no " in invoke("search", "lunch", "--agent", "sam", code=1).stderr
    place = node.folder / "snapshots" / COLLECTION / made.name
    client.recover_snapshot(COLLECTION, place.as_uri())
    assert "doctor --repair" in invoke("search", "lunch", "--agent", "sam", code=1).stderr
    invoke("doctor", "--repair", "--yes", "--agent", "sam")
    assert "noon" in invoke("search", "lunch", "--agent", "sam").stdout
