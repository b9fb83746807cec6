"""The parts of server.py about memory, disk and snapshots."""

import asyncio
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import server_stores as stores
from memory_semantic import MemoryStorage
from qdrant_node import QdrantNode
from server_stores import Options, new_node, restart, row, say, table, with_graph
from stores import worker

ROOM_SIZE = 10_000
MEMORIES_OF_AN_AGENT = 20


def room(options: Options) -> None:
    largest = max(options.sizes)
    say(
        f"Bytes for each memory, after a restart and {options.questions} searches, less what the "
        "same store takes with one memory. Own RAM is allocated; resident RAM includes the pages "
        "of files that the server has read. The write-ahead log is a part of the disk; it has a "
        "largest size."
    )
    table("in RAM", "memories", "own RAM", "resident RAM", "disk", "log", "indexed")
    for size in sorted({min(ROOM_SIZE, largest), largest}):
        for kind in ("none", "int8", "binary"):
            for has_graph in (False, True):
                for weight in (1, 0) if kind == "int8" and has_graph else (1,):
                    bounds = with_graph(size) if has_graph else {"qdrant_exact_below": 10 * size}
                    settings = {"qdrant_quantization": kind, "lexical_weight": weight, **bounds}
                    taken, indexed = _room(options, size, settings)
                    name = f"{kind}, {'graph' if has_graph else 'no graph'}"
                    name += "" if weight else ", without words"
                    cells = [f"{each / (size - 1):,.0f}" for each in taken]
                    row(name, f"{size:,}", *cells, f"{indexed:,}")


def _room(options: Options, size: int, settings: dict[str, Any]) -> tuple[list[int], int]:
    with new_node(options) as node:
        storage = stores.storage_at(node.url, **settings)
        stores.create(storage)
        before = _used(node, storage, options)
        _, _, indexed = stores.fill(storage, node.url, size)
        after = _used(node, storage, options)
    return [late - early for late, early in zip(after, before, strict=True)], indexed


def _used(node: QdrantNode, storage: MemoryStorage, options: Options) -> list[int]:
    restart(node)
    stores.settle(node.url)

    async def searches() -> None:
        for index in range(options.questions):
            await storage.search(stores.question(index))

    asyncio.run(searches())
    files = (node.folder / "storage").rglob("wal/*")
    log = sum(file.stat().st_blocks * 512 for file in files)
    return [node.own_bytes(), node.resident_bytes(), node.disk_bytes(), log]


def agents(options: Options) -> None:
    say(
        f"One server with a store of {MEMORIES_OF_AN_AGENT} memories for each agent, with words: "
        "first as it has run since they were created, then after a restart and one search by each."
    )
    heads = "own RAM, MB", "resident RAM, MB", "disk, MB", "threads", "first memory, ms", "start, s"
    table("agents", *heads)
    with new_node(options) as node:

        async def add(number: int) -> float:
            storage = stores.storage_at(node.url, f"agent-{number}", lexical_weight=1)
            started = time.perf_counter()
            await storage.store(worker.text(0))
            taken = 1_000 * (time.perf_counter() - started)
            await storage.store_many(map(worker.text, range(1, MEMORIES_OF_AN_AGENT)))
            return taken

        async def search(number: int) -> None:
            storage = stores.storage_at(node.url, f"agent-{number}", lexical_weight=1)
            assert await storage.search(stores.question(0))

        def show(name: str, first: str, start: str) -> None:
            sizes = node.own_bytes(), node.resident_bytes(), node.disk_bytes()
            threads = len(list(Path(f"/proc/{node.pid}/task").iterdir()))
            row(name, *(f"{each / 1e6:.1f}" for each in sizes), threads, first, start)

        show("0", "", "")
        made = 0
        for number in options.agents:
            taken = [asyncio.run(add(each)) for each in range(made, number)]
            made = number
            show(f"{number}", f"{statistics.median(taken):.0f}", "")
            seconds = restart(node)
            for each in range(number):
                asyncio.run(search(each))
            show(f"{number}, restarted", "", f"{seconds:.1f}")


def snapshot(options: Options) -> None:
    say(
        "A snapshot of the collection, restored on an empty server from the file; `repair` makes "
        "the alias stand for it again, as agent-memory doctor --repair does."
    )
    table("memories", "made in s", "MB", "restored in s", "repair s", "answers")
    for size in options.sizes:
        with new_node(options) as old, new_node(options) as new:
            storage = stores.storage_at(old.url, lexical_weight=1)
            stores.create(storage)
            stores.fill(storage, old.url, size)
            expected = _answers(storage, options)
            name = f"{stores.ALIAS}.{stores.opened(storage)[1].shard}"
            made_in, made = _timed(
                lambda name=name: stores.client_of(old.url).create_snapshot(name)
            )
            assert made
            # The server reads files from its own folder of snapshots only.
            file = new.folder / "snapshots" / made.name
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(old.folder / "snapshots" / name / made.name, file)
            old.stop()
            location, restoring = file.as_uri(), stores.client_of(new.url)
            restored_in, _ = _timed(partial(restoring.recover_snapshot, name, location))
            storage = stores.storage_at(new.url, lexical_weight=1)
            repaired_in, _ = _timed(lambda storage=storage: asyncio.run(_repair(storage)))
            same = _answers(storage, options) == expected
            cells = [f"{made_in:.1f}", f"{file.stat().st_size / 1e6:.1f}", f"{restored_in:.1f}"]
            row(f"{size:,}", *cells, f"{repaired_in:.1f}", "the same" if same else "DIFFERENT")


async def _repair(storage: MemoryStorage) -> None:
    repair = await storage.backend.repair(storage.config, [])
    await repair.run(lambda done, of: None)


def _answers(storage: MemoryStorage, options: Options) -> list[list[str]]:
    async def ask() -> list[list[str]]:
        questions = map(stores.question, range(min(20, options.questions)))
        return [[each.id for each in await storage.search(question)] for question in questions]

    return asyncio.run(ask())


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.monotonic()
    result = call()
    return time.monotonic() - started, result
